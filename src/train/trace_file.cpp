#include "subring/train/trace_file.hpp"

#include <nlohmann/json.hpp>

#include "subring/core/error.hpp"
#include "subring/data/staged_file.hpp"

namespace subring::train {
namespace {

using nlohmann::ordered_json;

constexpr double kMicroseconds = 1e6;

/// Names the rank as a process and its rows as threads.
void add_names(int rank, ordered_json& events) {
  const auto add = [&](std::string_view what, int thread, const std::string& name) {
    events.push_back(
        {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}});
  };
  add("process_name", 0, fmt::format("rank {}", rank));
  add("thread_name", 0, "computation and waits");
}

ordered_json arguments(const TraceDetail& detail) {
  ordered_json args = ordered_json::object();
  const auto add = [&](const char* name, int64_t value) {
    if (value >= 0) args[name] = value;
  };
  add("layer", detail.layer);
  add("chunk", detail.chunk);
  add("peer", detail.peer);
  add("bytes", detail.bytes);
  return args;
}

void add_span(int rank, const TraceEvent& event, ordered_json& events) {
  events.push_back({{"ph", "X"},
                    {"name", event.name},
                    {"cat", event.track == TraceTrack::wait ? "wait" : "compute"},
                    {"pid", rank},
                    {"tid", 0},
                    {"ts", event.start_seconds * kMicroseconds},
                    {"dur", (event.end_seconds - event.start_seconds) * kMicroseconds},
                    {"args", arguments(event.detail)}});
}

/// Transfers overlap, so each is a pair of asynchronous events.
void add_transfer(int rank, int64_t id, const TraceEvent& event, ordered_json& events) {
  const bool sends = event.track == TraceTrack::send;
  ordered_json json = {{"ph", "b"},
                       {"name", fmt::format("{} {}", sends ? "send" : "receive", event.name)},
                       {"cat", sends ? "send" : "receive"},
                       {"id2", {{"local", fmt::format("{:#x}", id)}}},
                       {"pid", rank},
                       {"tid", 0},
                       {"ts", event.start_seconds * kMicroseconds},
                       {"args", arguments(event.detail)}};
  events.push_back(json);
  json["ph"] = "e";
  json["ts"] = event.end_seconds * kMicroseconds;
  json.erase("args");
  events.push_back(json);
}

/// The rank's events, separated by commas.
std::string events_text(int rank, const Trace& trace) {
  ordered_json events = ordered_json::array();
  add_names(rank, events);
  int64_t id = 0;
  for (const TraceEvent& event : trace.events()) {
    if (event.track == TraceTrack::compute || event.track == TraceTrack::wait) {
      add_span(rank, event, events);
    } else {
      add_transfer(rank, id++, event, events);
    }
  }
  std::string text;
  for (const ordered_json& event : events) {
    text += (text.empty() ? "" : ",\n") + event.dump();
  }
  return text;
}

}  // namespace

void write_trace(const wire::Group& world, const Trace& trace, const std::filesystem::path& path) {
  const auto texts = wire::gather_to_first(
      world, events_text(world.transport->rank(), trace), wire::TrafficKind::other);
  if (texts.empty()) return;
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (size_t i = 0; i < texts.size(); ++i) text += (i == 0 ? "" : ",\n") + texts[i];
  text += "\n]}\n";
  data::StagedFile file(path);
  file.append(text.data(), text.size());
  file.sync();
  file.commit();
}

}  // namespace subring::train
