#pragma once

#include <functional>
#include <string>
#include <vector>

#include "subring/wire/options.hpp"
#include "subring/wire/transport.hpp"

/// What one rank does in a test, over any transport. A body throws when what it sees is wrong, so
/// that it needs no test framework: local ranks run it in threads, MPI ranks in processes.
struct TransportBody {
  std::string name;
  std::function<void(subring::wire::Transport&)> run;
};

/// Bodies that end well for any number of ranks >= 1.
const std::vector<TransportBody>& good_bodies();

/// Bodies (>= 2 ranks) in which rank 1 goes wrong and the others are to find out.
const std::vector<TransportBody>& bad_bodies();

/// The good bodies, and some of their own, over emulated links on top of the transport.
const std::vector<TransportBody>& shaped_bodies();

/// `body` over emulated links.
TransportBody shaped(const TransportBody& body, const subring::wire::NetworkOptions& network);

/// The deadline that bad bodies set themselves.
constexpr double kShortTimeoutSeconds = 2.0;
