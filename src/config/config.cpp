#include "subring/config/config.hpp"

#include <set>

#include "document.hpp"
#include "keys.hpp"
#include "subring/core/error.hpp"
#include "suggest.hpp"

namespace subring::config {

namespace {

constexpr const char* kOverridePlace = "--set";

/// Where a node stands: a file counts lines, an override does not.
std::string place_of(const std::string& file, const Node& node) {
  return file.empty() ? kOverridePlace : fmt::format("{}:{}", file, node.line);
}

[[noreturn]] void fail(const std::string& place,
                       const std::string& path,
                       std::string_view wrong,
                       std::string_view right) {
  throw Error(ErrorKind::config,
              fmt::format("{}{}{}; {}", path, path.empty() ? "" : ": ", wrong, right),
              place);
}

std::string join_path(const std::string& section, const std::string& name) {
  return section.empty() ? name : section + "." + name;
}

void refuse_duplicates(const Node& map, const std::string& section, const std::string& file) {
  std::map<std::string_view, int> first_lines;
  for (const Node& name : map.names) {
    const auto [first, is_new] = first_lines.emplace(name.text, name.line);
    if (is_new) continue;
    fail(place_of(file, name),
         escaped(join_path(section, name.text)),
         file.empty() ? "is given twice"
                      : fmt::format("is given twice, first in line {}", first->second),
         "keep one");
  }
}

/// Stores the value of `path`, a key or a whole section, in `config`.
void apply(Config& config,
           const std::string& path,
           const Node& value,
           const std::string& place,
           const std::string& file) {
  if (const Key* key = find_key(path)) {
    if (const auto problem = key->read(config, value)) {
      fail(place, path, *problem, "must be " + key->allowed);
    }
    config.places[path] = place;
    return;
  }
  if (value.kind != Node::Kind::map) {
    const bool is_empty = value.kind == Node::Kind::null;
    fail(place,
         path,
         is_empty ? "is an empty section" : "is a section, but has a value of its own",
         is_empty ? "give it keys, or leave it out" : "put key: value below it, indented");
  }
  refuse_duplicates(value, path, file);
  for (size_t i = 0; i < value.items.size(); ++i) {
    const Node& name = value.names[i];
    const std::string child = join_path(path, name.text);
    if (names_below(child).empty() && find_key(child) == nullptr) {
      fail(place_of(file, name), in_quotes(child), "is no key", suggest(path, name.text));
    }
    // A name with a dot in it is no path: "a.b: 1" in a file is refused like any unknown key.
    if (name.text.find('.') != std::string::npos || name.text.empty()) {
      fail(
          place_of(file, name), in_quotes(child), "is no key", "write nested keys below a section");
    }
    apply(config, child, value.items[i], place_of(file, name), file);
  }
}

void apply_override(Config& config, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail(kOverridePlace,
         in_quotes(assignment),
         "has no key and value",
         "write --set key.path=value");
  }
  const std::string path = assignment.substr(0, equals);
  const std::string text = assignment.substr(equals + 1);
  const Key* key = find_key(path);
  if (key == nullptr && (path.empty() || names_below(path).empty())) {
    // The deepest part that exists says where to look for the nearest name.
    std::string section;
    std::string rest = path;
    for (size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
      const std::string deeper = join_path(section, rest.substr(0, dot));
      if (names_below(deeper).empty()) break;
      section = deeper;
      rest = rest.substr(dot + 1);
    }
    fail(kOverridePlace, in_quotes(path), "is no key", suggest(section, rest));
  }
  Node value;
  if (key != nullptr && key->is_text) {
    value.kind = Node::Kind::scalar;
    value.text = text;
    value.quoted = true;
  } else {
    value = parse_document(text, fmt::format("{} {}", kOverridePlace, path));
  }
  apply(config, path, value, kOverridePlace, "");
}

}  // namespace

Config load_config(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  const std::string text = read_config_file(path.string());
  Config config;
  config.file = escaped(path.string());
  const Node root = parse_document(text, config.file);
  if (root.kind == Node::Kind::null) {
    fail(config.file, "", "is empty", "see configs/reference.yaml for what it may hold");
  }
  if (root.kind != Node::Kind::map) {
    fail(place_of(config.file, root),
         "",
         "a configuration must be sections of key: value",
         "see configs/reference.yaml for the form");
  }
  apply(config, "", root, config.file, config.file);
  for (const std::string& assignment : overrides) apply_override(config, assignment);
  check_config(config);
  return config;
}

std::string to_json(const Config& config) {
  Config copy = config;
  nlohmann::ordered_json json;
  for (const Key& key : all_keys()) {
    std::string pointer = "/" + key.path;
    for (char& c : pointer) c = c == '.' ? '/' : c;
    json[nlohmann::ordered_json::json_pointer(pointer)] = key.write(copy);
  }
  // A path that is no UTF-8 must not end a run that has begun.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::vector<KeyInfo> known_keys() {
  Config defaults;
  std::vector<KeyInfo> infos;
  for (const Key& key : all_keys()) {
    infos.push_back({key.path, key.unit, key.allowed, key.write(defaults).dump(), key.doc});
  }
  return infos;
}

}  // namespace subring::config
