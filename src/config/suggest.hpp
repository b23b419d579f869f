#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace subring::config {

/// Edits (insert, delete, replace, swap neighbours) that turn `a` into `b`. Cost: |a| |b|.
size_t edit_distance(std::string_view a, std::string_view b);

/// What an unknown name in `section` ("" at the top) may have meant: "did you mean ...?" or, when
/// nothing is near, "known here: ...".
std::string suggest(std::string_view section, std::string_view unknown);

/// Names directly below `section`: keys and sections, each once.
std::vector<std::string> names_below(std::string_view section);

}  // namespace subring::config
