#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "subring/core/enum_names.hpp"

namespace subring::train {

/// Section `training`.
struct TrainingOptions {
  int64_t steps = 1000;
  uint64_t seed = 1;
  double max_norm = 1.0;        ///< gradients are clipped to this global norm; 0: not clipped
  int64_t eval_interval = 100;  ///< steps between evaluations; 0: only after the last step
  int64_t eval_batches = 8;     ///< batches of one evaluation
};

/// Section `optimizer`: AdamW (Loshchilov and Hutter, arXiv:1711.05101).
struct OptimizerOptions {
  std::string name = "adamw";
  double lr = 3e-4;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;  ///< of matrices; never of norms, biases, angle heads and bases
};

enum class LrDecay { cosine, linear, none };
constexpr EnumNames<LrDecay, 3> enum_names(LrDecay) {
  return {{{LrDecay::cosine, "cosine"}, {LrDecay::linear, "linear"}, {LrDecay::none, "none"}}};
}

/// Section `lr_scheduler`.
struct LrSchedulerOptions {
  int64_t warmup_steps = 50;
  LrDecay decay = LrDecay::cosine;
  double min_lr_factor = 0.1;  ///< learning rate at the last step, relative to optimizer.lr
};

/// Section `metrics`.
struct MetricsOptions {
  int64_t log_interval = 10;     ///< steps between progress lines where stderr is no terminal
  int64_t spectra_interval = 0;  ///< steps between spectra of Q, K and V (rank study); 0: never
  bool tensorboard = false;      ///< TensorBoard event files beside metrics.jsonl
  bool trace = false;            ///< writes trace.json, a timeline of the last steps of all ranks
  int64_t trace_steps = 3;       ///< steps of that timeline
};

}  // namespace subring::train
