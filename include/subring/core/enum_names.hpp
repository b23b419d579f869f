#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <string_view>
#include <utility>

namespace subring {

/// Names of an enum's values. Each enum that users can write declares, beside itself,
///   constexpr EnumNames<E, N> enum_names(E) { return {{{E::a, "a"}, ...}}; }
template <typename E, size_t N>
using EnumNames = std::array<std::pair<E, std::string_view>, N>;

template <typename E>
concept NamedEnum = requires(E e) {
  enum_names(e);
};

template <NamedEnum E>
constexpr std::string_view to_string(E value) {
  for (const auto& [candidate, name] : enum_names(value)) {
    if (candidate == value) return name;
  }
  return "unknown";
}

/// The value called `name`; nothing when there is none.
template <NamedEnum E>
constexpr std::optional<E> parse_enum(std::string_view name) {
  for (const auto& [value, candidate] : enum_names(E{})) {
    if (candidate == name) return value;
  }
  return std::nullopt;
}

}  // namespace subring
