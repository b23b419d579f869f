#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "document.hpp"
#include "subring/config/config.hpp"

namespace subring::config {

/// One key of the configuration: everything that reading, checking, writing and documenting it
/// needs. keys.cpp declares each key once.
struct Key {
  std::string path;
  std::string unit;
  std::string allowed;
  std::string doc;
  bool is_text = false;  ///< an override's value is taken as it stands
  /// Checks a value and stores it. Returns what is wrong with it, or nothing.
  std::function<std::optional<std::string>(Config&, const Node&)> read;
  std::function<nlohmann::ordered_json(Config&)> write;
};

/// The keys of section `network`.
void add_network(std::vector<Key>& keys);

/// All keys, grouped by section.
const std::vector<Key>& all_keys();

/// The key called `path`, or null.
const Key* find_key(std::string_view path);

}  // namespace subring::config
