#include "subring/train/lr_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace subring::train {

double learning_rate(const OptimizerOptions& optimizer,
                     const LrSchedulerOptions& schedule,
                     int64_t step,
                     int64_t num_steps) {
  if (step < schedule.warmup_steps) {
    return optimizer.lr * static_cast<double>(step + 1) /
           static_cast<double>(schedule.warmup_steps);
  }
  const auto decay_steps =
      static_cast<double>(std::max<int64_t>(num_steps - 1 - schedule.warmup_steps, 1));
  const double progress =
      std::min(1.0, static_cast<double>(step - schedule.warmup_steps) / decay_steps);
  double remaining = 1;
  switch (schedule.decay) {
    case LrDecay::cosine: remaining = 0.5 * (1 + std::cos(std::numbers::pi * progress)); break;
    case LrDecay::linear: remaining = 1 - progress; break;
    case LrDecay::none: break;
  }
  return optimizer.lr * (schedule.min_lr_factor + (1 - schedule.min_lr_factor) * remaining);
}

}  // namespace subring::train
