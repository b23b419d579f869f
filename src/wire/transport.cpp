#include "subring/wire/transport.hpp"

#include <algorithm>

namespace subring::wire {

void wait(Transfer& transfer,
          const Envelope& envelope,
          Transport& transport,
          std::chrono::duration<double> timeout) {
  using Clock = std::chrono::steady_clock;
  // Between two looks at the deadline; the transfer itself wakes the sleeper.
  constexpr std::chrono::duration<double> kPatience{0.1};
  if (transfer.test()) return;
  const Clock::time_point start = Clock::now();
  while (true) {
    const std::chrono::duration<double> waited = Clock::now() - start;
    const auto patience = std::clamp(timeout - waited, kPatience.zero(), kPatience);
    if (transfer.wait_for(std::chrono::duration_cast<std::chrono::microseconds>(patience))) break;
    SUBRING_CHECK(Clock::now() - start < timeout,
                  ErrorKind::wire,
                  "rank {} waited {:.1f} s for rank {} ({}, tag {})",
                  transport.rank(),
                  timeout.count(),
                  envelope.peer,
                  envelope.what,
                  envelope.tag);
  }
  transport.add_wait_seconds(std::chrono::duration<double>(Clock::now() - start).count());
}

}  // namespace subring::wire
