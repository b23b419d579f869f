#include "subring/core/trace.hpp"

#include <algorithm>

namespace subring {

Trace::Trace(int64_t num_steps)
    : num_steps_(static_cast<size_t>(std::max<int64_t>(num_steps, 1))), epoch_(Clock::now()) {
  begin_step();
}

void Trace::set_epoch() { epoch_ = Clock::now(); }

double Trace::now_seconds() const {
  return std::chrono::duration<double>(Clock::now() - epoch_).count();
}

void Trace::begin_step() {
  steps_.emplace_back();
  if (steps_.size() > num_steps_) steps_.pop_front();
}

void Trace::add(const TraceEvent& event) { steps_.back().push_back(event); }

std::vector<TraceEvent> Trace::events() const {
  std::vector<TraceEvent> result;
  for (const auto& step : steps_) result.insert(result.end(), step.begin(), step.end());
  return result;
}

TraceSpan::TraceSpan(Trace* trace,
                     std::string_view name,
                     const TraceDetail& detail,
                     TraceTrack track)
    : trace_(trace), event_{.name = name, .track = track, .detail = detail} {
  if (trace_ != nullptr) event_.start_seconds = trace_->now_seconds();
}

TraceSpan::~TraceSpan() {
  if (trace_ == nullptr) return;
  event_.end_seconds = trace_->now_seconds();
  trace_->add(event_);
}

}  // namespace subring
