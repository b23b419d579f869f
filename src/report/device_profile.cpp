#include "subring/report/device_profile.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "subring/core/error.hpp"

namespace subring::report {
namespace {

// Nobody has run this program on any of these.
constexpr double kUtilization = 0.5;
constexpr double kMemoryUtilization = 0.8;
constexpr double kOperationSeconds = 5e-6;

struct DataSheet {
  std::string_view name;
  double peak_tflops;  // dense bf16 with f32 accumulation
  double memory_gb;
  double memory_gb_per_second;
  std::string_view source;
};

constexpr std::array<DataSheet, 4> kDataSheets{
    {{"a100", 312, 80, 2039, "NVIDIA A100 80GB SXM data sheet"},
     {"h100", 989.4, 80, 3350, "NVIDIA H100 SXM data sheet, without sparsity"},
     {"h200", 989.4, 141, 4800, "NVIDIA H200 SXM data sheet, without sparsity"},
     {"rtx4090", 165.2, 24, 1008, "NVIDIA Ada GPU architecture paper, dense, f32 accumulation"}}};

double host_memory_bytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

std::vector<std::string> device_names() {
  std::vector<std::string> names{"cpu"};
  for (const DataSheet& sheet : kDataSheets) names.emplace_back(sheet.name);
  return names;
}

DeviceProfile device_profile(std::string_view name, int num_ranks) {
  if (name == "cpu") {
    return {.name = "cpu",
            .memory_bytes = host_memory_bytes() / num_ranks,
            .source = "operations timed on this machine"};
  }
  const auto* sheet = std::find_if(
      kDataSheets.begin(), kDataSheets.end(), [&](const DataSheet& s) { return s.name == name; });
  SUBRING_CHECK(sheet != kDataSheets.end(),
                ErrorKind::config,
                "--device is '{}', allowed: cpu, a100, h100, h200, rtx4090",
                name);
  return {.name = std::string(sheet->name),
          .peak_flops = sheet->peak_tflops * 1e12,
          .memory_bytes = sheet->memory_gb * 1e9,
          .memory_bytes_per_second = sheet->memory_gb_per_second * 1e9,
          .utilization = kUtilization,
          .memory_utilization = kMemoryUtilization,
          .operation_seconds = kOperationSeconds,
          .source = std::string(sheet->source)};
}

}  // namespace subring::report
