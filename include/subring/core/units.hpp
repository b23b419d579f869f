#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace subring {

/// What parse_bandwidth takes; for messages and docs, after "must be".
constexpr std::string_view kBandwidthForm =
    "a rate above 0 in bits per second, such as 300Mbps or 1.5Gbps (units bps, kbps, Mbps, Gbps, "
    "Tbps)";
/// What parse_duration takes; for messages and docs, after "must be".
constexpr std::string_view kDurationForm =
    "a duration from 0 up, such as 20ms or 1.5s (units ns, us, ms, s)";

/// Bits per second of "300Mbps", "1.5Gbps", "100 Gbps"; decimal units, as links are sold. Units are
/// case-sensitive (MBps would be bytes). Nothing when `text` is not of kBandwidthForm.
std::optional<double> parse_bandwidth(std::string_view text);
/// The same with the largest unit that leaves a number of at least 1, e.g. "300Mbps"; parses back
/// to within an ulp. Above 0.
std::string format_bandwidth(double bits_per_second);

/// Seconds of "20ms", "1.5s", "200us". Nothing when `text` is not of kDurationForm.
std::optional<double> parse_duration(std::string_view text);
/// The same with the largest unit that leaves a number of at least 1, e.g. "20ms", "0s"; parses
/// back to within an ulp. At least 0.
std::string format_duration(double seconds);

}  // namespace subring
