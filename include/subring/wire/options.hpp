#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "subring/core/enum_names.hpp"

namespace subring::wire {

enum class TransportKind { automatic, local, mpi };
constexpr EnumNames<TransportKind, 3> enum_names(TransportKind) {
  return {{{TransportKind::automatic, "auto"},
           {TransportKind::local, "local"},
           {TransportKind::mpi, "mpi"}}};
}

/// Section `wire`.
struct WireOptions {
  TransportKind transport = TransportKind::automatic;
  double timeout_seconds =
      600.0;  ///< a transfer that takes longer ends the run, with its peer named
};

/// Bits per second of a link that is never in the way.
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// One rank's own link, where it differs from network.bandwidth.
struct RankBandwidth {
  int rank = 0;
  std::optional<double> up;    ///< bits per second
  std::optional<double> down;  ///< bits per second
};

/// One direction between two ranks, where it differs.
struct LinkOverride {
  int from = 0;
  int to = 0;
  std::optional<double> bandwidth;  ///< bits per second; not given: as fast as the ranks' own links
  std::optional<double> latency_seconds;  ///< not given: network.latency
};

/// Section `network`: links to emulate (wire/link_clock.hpp). The default emulates nothing.
struct NetworkOptions {
  double bandwidth = kUnlimited;  ///< up and down of every rank, each; bits per second
  double latency_seconds = 0;     ///< one way
  double jitter_seconds = 0;      ///< each message is late by up to this, uniform
  std::vector<RankBandwidth> ranks;
  std::vector<LinkOverride> links;

  bool emulated() const {
    return bandwidth != kUnlimited || latency_seconds > 0 || jitter_seconds > 0 || !ranks.empty() ||
           !links.empty();
  }
};

/// For logs: "300Mbps up and down, 20ms one way, rank 2: 30Mbps up"; "as it is" without emulation.
std::string describe(const NetworkOptions& network);

}  // namespace subring::wire
