#pragma once

#include <filesystem>

#include "subring/core/trace.hpp"
#include "subring/wire/group.hpp"

namespace subring::train {

/// Writes the timelines of all ranks of `world` into one file in Chrome's trace event format (opens
/// in Perfetto): a process a rank; computation and waits nest on its first track, transfers lie on
/// tracks of their own, from when they were posted to when they were seen to be done. All ranks
/// call it; the first writes. `path` appears whole or not at all.
/// @throws Error{wire, io}
/// Source: "Trace Event Format", Google (the catapult project).
void write_trace(const wire::Group& world, const Trace& trace, const std::filesystem::path& path);

}  // namespace subring::train
