#pragma once

#include "subring/backend/shapes.hpp"
#include "subring/sync/options.hpp"

namespace subring::sync {

inline FrameFormat frame_format(WeightDtype dtype) {
  switch (dtype) {
    case WeightDtype::fp32: return FrameFormat::fp32;
    case WeightDtype::bf16: return FrameFormat::bf16;
    case WeightDtype::int8: return FrameFormat::int8;
  }
  return FrameFormat::fp32;
}

/// Moments keep a relative precision: never less than bf16.
inline FrameFormat moment_format(WeightDtype dtype) {
  return dtype == WeightDtype::fp32 ? FrameFormat::fp32 : FrameFormat::bf16;
}

}  // namespace subring::sync
