#pragma once

#include <cstdint>

#include "subring/train/options.hpp"

namespace subring::train {

/// Learning rate of step `step` (counted from 0) of `num_steps`: linear warm-up from lr /
/// warmup_steps to lr, then decay to min_lr_factor * lr at the last step.
double learning_rate(const OptimizerOptions& optimizer,
                     const LrSchedulerOptions& schedule,
                     int64_t step,
                     int64_t num_steps);

}  // namespace subring::train
