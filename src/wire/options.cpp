#include "subring/wire/options.hpp"

#include <fmt/format.h>

#include "subring/core/units.hpp"

namespace subring::wire {

namespace {

std::string rate_text(double bits_per_second) {
  return bits_per_second == kUnlimited ? "unlimited" : format_bandwidth(bits_per_second);
}

}  // namespace

std::string describe(const NetworkOptions& network) {
  if (!network.emulated()) return "as it is";
  std::string text = fmt::format("{} up and down, {} one way",
                                 rate_text(network.bandwidth),
                                 format_duration(network.latency_seconds));
  if (network.jitter_seconds > 0) {
    text += fmt::format(", jitter up to {}", format_duration(network.jitter_seconds));
  }
  for (const RankBandwidth& entry : network.ranks) {
    text += fmt::format("; rank {}:", entry.rank);
    if (entry.up) text += fmt::format(" {} up", rate_text(*entry.up));
    if (entry.down) text += fmt::format(" {} down", rate_text(*entry.down));
  }
  for (const LinkOverride& link : network.links) {
    text += fmt::format("; {} to {}:", link.from, link.to);
    if (link.bandwidth) text += fmt::format(" {}", rate_text(*link.bandwidth));
    if (link.latency_seconds) text += fmt::format(" {}", format_duration(*link.latency_seconds));
  }
  return text;
}

}  // namespace subring::wire
