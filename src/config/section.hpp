#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keys.hpp"
#include "values.hpp"

namespace subring::config {

/// Collects the keys of one section, whose fields live in `Options`.
template <typename Options>
class Section {
 public:
  using Get = std::function<Options&(Config&)>;

  Section(std::vector<Key>& keys, std::string prefix, Get get)
      : keys_(keys), prefix_(std::move(prefix)), get_(std::move(get)) {}

  template <typename Integer>
  void integer(std::string_view name,
               Integer Options::*field,
               IntegerRange range,
               std::string_view unit,
               std::string_view doc) {
    Key& key = add(name, unit, allowed_text(range), doc);
    key.read = [get = get_, field, range](Config& config, const Node& node) {
      int64_t value = 0;
      Problem problem = read_integer(node, range, value);
      if (!problem) get(config).*field = static_cast<Integer>(value);
      return problem;
    };
    key.write = [get = get_, field, range](Config& config) -> nlohmann::ordered_json {
      const auto value = static_cast<int64_t>(get(config).*field);
      if (!range.word.empty() && value == range.word_value) return range.word;
      return value;
    };
  }

  void number(std::string_view name,
              double Options::*field,
              NumberRange range,
              std::string_view unit,
              std::string_view doc) {
    add_read_by(name, field, allowed_text(range), unit, doc, [range](const Node& node, double& v) {
      return read_number(node, range, v);
    });
  }

  void number_pair(std::string_view name,
                   std::array<double, 2> Options::*field,
                   NumberRange range,
                   std::string_view unit,
                   std::string_view doc) {
    add_read_by(name,
                field,
                fmt::format("a list of two values, each {}", allowed_text(range)),
                unit,
                doc,
                [range](const Node& node, std::array<double, 2>& v) {
                  return read_number_pair(node, range, v);
                });
  }

  void on_off(std::string_view name, bool Options::*field, std::string_view doc) {
    add_read_by(name, field, "true or false", "", doc, read_switch);
  }

  void text(std::string_view name,
            std::string Options::*field,
            std::string_view allowed,
            std::string_view doc) {
    add_read_by(name, field, std::string(allowed), "", doc, read_text);
    keys_.back().is_text = true;
  }

  /// A text of which only one value exists so far.
  void only(std::string_view name,
            std::string Options::*field,
            std::string_view value,
            std::string_view doc) {
    add_read_by(name,
                field,
                fmt::format("one of {}", value),
                "",
                doc,
                [value](const Node& node, std::string& v) -> Problem {
                  if (Problem problem = read_text(node, v)) return problem;
                  if (v != value) return describe_value(node) + " is not allowed";
                  return {};
                });
  }

  template <NamedEnum E>
  void choice(std::string_view name, E Options::*field, std::string_view doc) {
    Key& key = add(name, "", allowed_names<E>(), doc);
    key.read = [get = get_, field](Config& config, const Node& node) {
      return read_enum(node, get(config).*field);
    };
    key.write = [get = get_, field](Config& config) -> nlohmann::ordered_json {
      return to_string(get(config).*field);
    };
  }

 private:
  Key& add(std::string_view name,
           std::string_view unit,
           std::string allowed,
           std::string_view doc) {
    Key& key = keys_.emplace_back();
    key.path = prefix_ + std::string(name);
    key.unit = unit;
    key.allowed = std::move(allowed);
    key.doc = doc;
    return key;
  }

  template <typename T, typename Read>
  void add_read_by(std::string_view name,
                   T Options::*field,
                   std::string allowed,
                   std::string_view unit,
                   std::string_view doc,
                   Read read) {
    Key& key = add(name, unit, std::move(allowed), doc);
    key.read = [get = get_, field, read](Config& config, const Node& node) {
      return Problem(read(node, get(config).*field));
    };
    key.write = [get = get_, field](Config& config) -> nlohmann::ordered_json {
      return get(config).*field;
    };
  }

  std::vector<Key>& keys_;
  std::string prefix_;
  Get get_;
};

}  // namespace subring::config
