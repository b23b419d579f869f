#include "subring/core/trace.hpp"

#include <algorithm>
#include <string>

#include "support/catch.hpp"

using namespace subring;

TEST_CASE("a trace keeps the last steps, each event in the step in which it ended") {
  Trace trace(2);
  trace.set_epoch();
  trace.add({.name = "before the first step"});
  trace.begin_step();
  trace.add({.name = "first"});
  trace.begin_step();
  {
    const TraceSpan outer(&trace, "outer", {.layer = 3});
    const TraceSpan inner(&trace, "inner", {.peer = 1}, TraceTrack::wait);
  }
  trace.begin_step();
  trace.add({.name = "last"});

  const auto events = trace.events();
  REQUIRE(events.size() == 3);
  CHECK(events[0].name == "inner");
  CHECK(events[0].track == TraceTrack::wait);
  CHECK(events[0].detail.peer == 1);
  CHECK(events[1].name == "outer");
  CHECK(events[1].detail.layer == 3);
  CHECK(events[2].name == "last");
  // A span that contains another one.
  CHECK(events[1].start_seconds >= 0);
  CHECK(events[1].start_seconds <= events[0].start_seconds);
  CHECK(events[0].start_seconds <= events[0].end_seconds);
  CHECK(events[0].end_seconds <= events[1].end_seconds);
}

TEST_CASE("without a trace a span records nothing") {
  const TraceSpan span(nullptr, "nowhere");
  SUCCEED();
}
