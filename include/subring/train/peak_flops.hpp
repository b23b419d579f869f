#pragma once

#include "subring/backend/backend.hpp"

namespace subring::train {

/// What this rank's matrix products reach while all ranks compute: best of a few products of
/// 2048 x 2048 x 512, in flop/s. The denominator of model_flops_utilization. Takes about 0.3 s and
/// 24 MiB.
double measure_peak_flops(Backend& backend, Stream& stream);

}  // namespace subring::train
