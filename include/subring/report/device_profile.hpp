#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace subring::report {

/// What a rank computes on. Those of GPUs are data sheets and an assumption, not measurements.
struct DeviceProfile {
  std::string name;
  double peak_flops = 0;    ///< dense bf16, flop/s; 0: operations are measured here
  double memory_bytes = 0;  ///< of one rank
  double memory_bytes_per_second = 0;
  double utilization = 0;         ///< assumed share of peak_flops that products reach
  double memory_utilization = 0;  ///< assumed share of memory_bytes_per_second
  double operation_seconds = 0;   ///< assumed, each operation: launch and tail
  std::string source;

  bool measured() const { return peak_flops == 0; }
};

/// Names that device_profile() knows.
std::vector<std::string> device_names();

/// @param num_ranks  of this host, which share its memory under "cpu"
/// @throws Error{config}  no such name
DeviceProfile device_profile(std::string_view name, int num_ranks);

}  // namespace subring::report
