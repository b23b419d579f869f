#pragma once

#include <cstdint>

#include "subring/core/enum_names.hpp"

namespace subring::sync {

enum class SyncMethod { all_reduce, average };
constexpr EnumNames<SyncMethod, 2> enum_names(SyncMethod) {
  return {{{SyncMethod::all_reduce, "all_reduce"}, {SyncMethod::average, "average"}}};
}

/// What a weight, or a gradient, is on the wire.
enum class WeightDtype { fp32, bf16, int8 };
constexpr EnumNames<WeightDtype, 3> enum_names(WeightDtype) {
  return {{{WeightDtype::fp32, "fp32"}, {WeightDtype::bf16, "bf16"}, {WeightDtype::int8, "int8"}}};
}

/// Section `weight_sync`.
struct SyncOptions {
  SyncMethod method = SyncMethod::all_reduce;
  int64_t every = 1;             ///< steps between averages (method average)
  bool average_moments = false;  ///< average AdamW's moments too
  bool rotate_chunks = false;    ///< move each rank's chunks on by one rank each step
  WeightDtype wire_dtype = WeightDtype::fp32;
  bool overlap = false;  ///< averages travel during the next `every` steps (method average)
};

}  // namespace subring::sync
