#include "subring/wire/transport.hpp"

#include <algorithm>

namespace subring::wire {

void wait(Transfer& transfer,
          const Envelope& envelope,
          Transport& transport,
          std::chrono::duration<double> timeout,
          const std::function<void()>& progress) {
  using Clock = std::chrono::steady_clock;
  using std::chrono::microseconds;
  // Between two looks at the deadline; the transfer itself wakes the sleeper.
  constexpr microseconds kPatience{100'000};
  const bool others_proceed = progress || transport.idle();
  const microseconds patience = others_proceed ? Transport::kIdleInterval : kPatience;
  if (transfer.test()) return;
  const Clock::time_point start = Clock::now();
  const TraceSpan span(transport.trace(), envelope.what, {.peer = envelope.peer}, TraceTrack::wait);
  while (true) {
    const auto left = std::chrono::duration_cast<microseconds>(timeout - (Clock::now() - start));
    if (transfer.wait_for(std::clamp(left, microseconds::zero(), patience))) break;
    if (progress) progress();
    if (transport.idle()) transport.idle()();
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
