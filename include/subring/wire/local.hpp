#pragma once

#include <functional>
#include <memory>

#include "subring/wire/transport.hpp"

namespace subring::wire {

/// The mailboxes of a group whose ranks are threads of one process.
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
/// have ended, the first failure (in time) is rethrown.
void run_local_ranks(int num_ranks, const std::function<void(Transport&)>& body);

}  // namespace subring::wire
