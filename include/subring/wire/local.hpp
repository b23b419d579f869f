#pragma once

#include <functional>
#include <memory>

#include "subring/wire/transport.hpp"

namespace subring::wire {

/// The meeting point of a group whose ranks are threads of one process.
///
/// Rendezvous: a send and a receive wait for each other, and whoever comes second copies from
/// buffer to buffer. Nothing is held in between, so memory does not grow and a schedule that would
/// deadlock over a network does so here too.
class LocalHub {
 public:
  explicit LocalHub(int num_ranks);
  ~LocalHub();
  /// The endpoint of `rank`; lives no longer than the hub. Each is used by its own thread.
  std::unique_ptr<Transport> connect(int rank);

 private:
  friend class LocalTransport;
  struct State;
  std::unique_ptr<State> state_;
};

/// Runs `body(transport)` on `num_ranks` threads. A rank that throws aborts the others; when all
/// have ended, the first failure (in time) is rethrown as it was thrown.
void run_local_ranks(int num_ranks, const std::function<void(Transport&)>& body);

}  // namespace subring::wire
