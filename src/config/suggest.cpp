#include "suggest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "keys.hpp"

namespace subring::config {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> previous(b.size() + 1);
  std::vector<size_t> current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({replace, previous[j] + 1, current[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    before.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

std::vector<std::string> names_below(std::string_view section) {
  const std::string prefix = section.empty() ? "" : fmt::format("{}.", section);
  std::vector<std::string> names;
  for (const Key& key : all_keys()) {
    if (key.path.rfind(prefix, 0) != 0) continue;
    const std::string rest = key.path.substr(prefix.size());
    std::string name = rest.substr(0, rest.find('.'));
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

std::string suggest(std::string_view section, std::string_view unknown) {
  const std::vector<std::string> siblings = names_below(section);
  std::vector<std::string> candidates = siblings;
  // The name stands elsewhere: right key, wrong section.
  for (const Key& key : all_keys()) {
    if (key.path == unknown || key.path.ends_with(fmt::format(".{}", unknown))) {
      return fmt::format("did you mean {}?", key.path);
    }
    // An override may misspell the section of a path.
    if (section.empty() && unknown.find('.') != std::string_view::npos) {
      candidates.push_back(key.path);
    }
  }
  // A third of the letters wrong is still a typing error; more is another word.
  std::string nearest;
  size_t nearest_distance = std::max<size_t>(2, unknown.size() / 3) + 1;
  for (const std::string& name : candidates) {
    // Names longer by far cannot be near, and bounding the length bounds the cost.
    if (unknown.size() > 2 * name.size() + 2) continue;
    const size_t distance = edit_distance(unknown, name);
    if (distance < nearest_distance && distance < name.size()) {
      nearest = name;
      nearest_distance = distance;
    }
  }
  if (!nearest.empty()) return fmt::format("did you mean {}?", nearest);
  std::string known;
  for (const std::string& name : siblings) {
    if (!known.empty()) known += ", ";
    known += name;
  }
  return fmt::format("known here: {}", known);
}

}  // namespace subring::config
