#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

namespace subring {

/// Rows of a timeline.
enum class TraceTrack { compute, wait, send, receive };

/// What an event is about; -1: does not apply.
struct TraceDetail {
  int64_t layer = -1;
  int64_t chunk = -1;
  int64_t peer = -1;   ///< world rank at the other end of a transfer
  int64_t bytes = -1;  ///< of a transfer
};

/// Seconds are since the trace's epoch.
struct TraceEvent {
  std::string_view name;  ///< static text
  TraceTrack track = TraceTrack::compute;
  double start_seconds = 0;
  double end_seconds = 0;
  TraceDetail detail;
};

/// What one rank did when, in the last steps of a run. Used by the rank's own thread only.
/// Cost: two reads of the clock and about 80 bytes an event.
class Trace {
 public:
  /// @param num_steps  how many of the last steps are kept, >= 1
  explicit Trace(int64_t num_steps);

  /// Time 0 of the events to come: call it where all ranks are at the same point (a barrier).
  void set_epoch();
  double now_seconds() const;

  /// Events are of the step in which they end.
  void begin_step();
  void add(const TraceEvent& event);
  /// Oldest step first, in the order in which they ended.
  std::vector<TraceEvent> events() const;

 private:
  using Clock = std::chrono::steady_clock;

  size_t num_steps_;
  Clock::time_point epoch_;
  std::deque<std::vector<TraceEvent>> steps_;
};

/// Adds an event that lasts as long as this object, to `trace` if there is one. On a device whose
/// work is only queued it is the time of queueing.
class TraceSpan {
 public:
  /// @param name  static text
  TraceSpan(Trace* trace,
            std::string_view name,
            const TraceDetail& detail = {},
            TraceTrack track = TraceTrack::compute);
  ~TraceSpan();
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* trace_;
  TraceEvent event_;
};

}  // namespace subring
