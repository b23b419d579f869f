#include "subring/core/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace subring {

namespace {

/// `scale` is a whole number, so that scaling rounds once.
struct Unit {
  std::string_view name;
  double scale;
};

// Largest first; each is so many bits per second.
constexpr std::array<Unit, 5> kBandwidthUnits{
    {{"Tbps", 1e12}, {"Gbps", 1e9}, {"Mbps", 1e6}, {"kbps", 1e3}, {"bps", 1}}};
// Largest first; so many of each are one second.
constexpr std::array<Unit, 4> kDurationUnits{{{"s", 1}, {"ms", 1e3}, {"us", 1e6}, {"ns", 1e9}}};

struct Quantity {
  double number = 0;
  std::string_view unit;
};

/// Splits "1.5 Gbps"; nothing when it does not start with a finite number from 0 up.
std::optional<Quantity> split(std::string_view text) {
  Quantity quantity;
  const char* const end_of_text = text.data() + text.size();
  const auto [end, status] = std::from_chars(text.data(), end_of_text, quantity.number);
  if (status != std::errc() || !std::isfinite(quantity.number) || std::signbit(quantity.number)) {
    return std::nullopt;
  }
  quantity.unit = text.substr(static_cast<size_t>(end - text.data()));
  if (quantity.unit.starts_with(' ')) quantity.unit.remove_prefix(1);
  return quantity;
}

template <size_t N>
std::optional<double> scale_of(const std::array<Unit, N>& units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return unit.scale;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> parse_bandwidth(std::string_view text) {
  const auto quantity = split(text);
  if (!quantity) return std::nullopt;
  const auto scale = scale_of(kBandwidthUnits, quantity->unit);
  if (!scale) return std::nullopt;
  const double rate = quantity->number * *scale;
  if (!(rate > 0) || !std::isfinite(rate)) return std::nullopt;
  return rate;
}

std::string format_bandwidth(double bits_per_second) {
  for (const Unit& unit : kBandwidthUnits) {
    const double number = bits_per_second / unit.scale;
    if (number >= 1 || unit.scale == 1) return fmt::format("{}{}", number, unit.name);
  }
  return {};
}

std::optional<double> parse_duration(std::string_view text) {
  const auto quantity = split(text);
  if (!quantity) return std::nullopt;
  const auto scale = scale_of(kDurationUnits, quantity->unit);
  if (!scale) return std::nullopt;
  return quantity->number / *scale;
}

std::string format_duration(double seconds) {
  if (seconds == 0) return "0s";
  for (const Unit& unit : kDurationUnits) {
    const double number = seconds * unit.scale;
    if (number >= 1 || unit.name == kDurationUnits.back().name) {
      return fmt::format("{}{}", number, unit.name);
    }
  }
  return {};
}

}  // namespace subring
