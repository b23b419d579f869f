#include "values.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace subring::config {

namespace {

/// YAML allows a leading plus, from_chars does not.
std::string_view without_plus(std::string_view text) {
  return text.size() > 1 && text[0] == '+' && text[1] != '-' ? text.substr(1) : text;
}

std::string integer_text(int64_t value) {
  return value == std::numeric_limits<int64_t>::max() ? "2^63 - 1" : fmt::format("{}", value);
}

}  // namespace

bool NumberRange::contains(double value) const {
  const bool above = ends == Ends::open_below ? value > min : value >= min;
  const bool below = ends == Ends::open_above ? value < max : value <= max;
  return above && below;
}

std::string allowed_text(const IntegerRange& range) {
  std::string text =
      fmt::format("an integer from {} to {}", integer_text(range.min), integer_text(range.max));
  if (!range.word.empty()) text += fmt::format(", or {}", range.word);
  return text;
}

std::string allowed_text(const NumberRange& range) {
  const bool open_below = range.ends == NumberRange::Ends::open_below;
  std::string text = fmt::format("a number {} {}", open_below ? "above" : "from", range.min);
  if (range.max < std::numeric_limits<double>::max()) {
    const bool open_above = range.ends == NumberRange::Ends::open_above;
    text += fmt::format(" {} {}", open_above ? "to below" : "to", range.max);
  } else if (!open_below) {
    text += " up";
  }
  return text;
}

std::string describe_value(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null: return "nothing (null)";
    case Node::Kind::sequence: return "a list";
    case Node::Kind::map: return "a section (key: value)";
    case Node::Kind::scalar: break;
  }
  return in_quotes(node.text);
}

Problem read_integer(const Node& node, const IntegerRange& range, int64_t& value) {
  const bool is_scalar = node.kind == Node::Kind::scalar;
  if (is_scalar && !range.word.empty() && node.text == range.word) {
    value = range.word_value;
    return {};
  }
  if (!is_scalar || node.quoted) {
    return describe_value(node) + (is_scalar ? " in quotes is text" : " is no integer");
  }
  const std::string_view text = without_plus(node.text);
  int64_t parsed = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  const bool is_integer = end == text.data() + text.size();
  if (is_integer && status == std::errc::result_out_of_range) {
    return describe_value(node) + " is out of range";
  }
  if (!is_integer || status != std::errc()) return describe_value(node) + " is no integer";
  const bool is_word = !range.word.empty() && parsed == range.word_value;
  if (!is_word && (parsed < range.min || parsed > range.max)) {
    return describe_value(node) + " is out of range";
  }
  value = parsed;
  return {};
}

Problem read_number(const Node& node, const NumberRange& range, double& value) {
  const bool is_scalar = node.kind == Node::Kind::scalar;
  if (!is_scalar || node.quoted) {
    return describe_value(node) + (is_scalar ? " in quotes is text" : " is no number");
  }
  const std::string_view text = without_plus(node.text);
  double parsed = 0.0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  const bool is_number = end == text.data() + text.size();
  if (is_number && status == std::errc::result_out_of_range) {
    return describe_value(node) + " is out of range";
  }
  if (!is_number || status != std::errc()) return describe_value(node) + " is no number";
  if (!std::isfinite(parsed)) return describe_value(node) + " is not finite";
  if (!range.contains(parsed)) return describe_value(node) + " is out of range";
  value = parsed;
  return {};
}

Problem read_number_pair(const Node& node, const NumberRange& range, std::array<double, 2>& value) {
  if (node.kind != Node::Kind::sequence) return describe_value(node) + " is no list";
  if (node.items.size() != 2) return fmt::format("a list of {} values", node.items.size());
  std::array<double, 2> parsed{};
  for (size_t i = 0; i < 2; ++i) {
    if (Problem problem = read_number(node.items[i], range, parsed[i])) return problem;
  }
  value = parsed;
  return {};
}

Problem read_switch(const Node& node, bool& value) {
  const bool is_plain = node.kind == Node::Kind::scalar && !node.quoted;
  if (!is_plain || (node.text != "true" && node.text != "false")) {
    const bool is_quoted = node.kind == Node::Kind::scalar && node.quoted;
    return describe_value(node) + (is_quoted ? " in quotes is text" : " is no switch");
  }
  value = node.text == "true";
  return {};
}

Problem read_text(const Node& node, std::string& value) {
  if (node.kind != Node::Kind::scalar) return describe_value(node) + " is no text";
  value = node.text;
  return {};
}

}  // namespace subring::config
