#pragma once

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "document.hpp"
#include "subring/core/enum_names.hpp"

namespace subring::config {

/// Allowed integers, and one word that stands for a special value (such as auto for 0).
struct IntegerRange {
  int64_t min = 0;
  int64_t max = std::numeric_limits<int64_t>::max();
  std::string_view word = {};  ///< empty: none
  int64_t word_value = 0;      ///< may lie outside [min, max]; may also be written as a number
};

/// Allowed real numbers.
struct NumberRange {
  enum class Ends { closed, open_below, open_above };

  double min = 0.0;
  double max = std::numeric_limits<double>::max();
  Ends ends = Ends::closed;

  bool contains(double value) const;
};

/// For messages and docs: "an integer from 1 to 8, or auto".
std::string allowed_text(const IntegerRange& range);
std::string allowed_text(const NumberRange& range);

/// Each stores the value of `node` and returns nothing, or returns what is wrong with it.
using Problem = std::optional<std::string>;
Problem read_integer(const Node& node, const IntegerRange& range, int64_t& value);
Problem read_number(const Node& node, const NumberRange& range, double& value);
Problem read_number_pair(const Node& node, const NumberRange& range, std::array<double, 2>& value);
Problem read_switch(const Node& node, bool& value);
Problem read_text(const Node& node, std::string& value);

/// "a list", "nothing", "the text "a"", ...
std::string describe_value(const Node& node);

template <NamedEnum E>
std::string allowed_names() {
  std::string names;
  for (const auto& [value, name] : enum_names(E{})) {
    names += (names.empty() ? "" : ", ");
    names += name;
  }
  return "one of " + names;
}

template <NamedEnum E>
Problem read_enum(const Node& node, E& value) {
  std::optional<E> parsed;
  if (node.kind == Node::Kind::scalar) parsed = parse_enum<E>(node.text);
  if (!parsed) return describe_value(node) + " is not allowed";
  value = *parsed;
  return {};
}

}  // namespace subring::config
