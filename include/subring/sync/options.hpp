#pragma once

#include <cstdint>

#include "subring/core/enum_names.hpp"

namespace subring::sync {

enum class SyncMethod { all_reduce, average };
constexpr EnumNames<SyncMethod, 2> enum_names(SyncMethod) {
  return {{{SyncMethod::all_reduce, "all_reduce"}, {SyncMethod::average, "average"}}};
}

/// Section `weight_sync`.
struct SyncOptions {
  SyncMethod method = SyncMethod::all_reduce;
  int64_t every = 1;             ///< steps between averages (method average)
  bool average_moments = false;  ///< average AdamW's moments too
  bool rotate_chunks = false;    ///< move each rank's chunks on by one rank each step
};

}  // namespace subring::sync
