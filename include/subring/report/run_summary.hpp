#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "subring/report/run_log.hpp"

namespace subring::report {

/// What a run came to.
struct RunSummary {
  std::string name;
  std::string codec;                 ///< compression.codec of its configuration
  int64_t steps = 0;                 ///< done
  double train_loss = 0;             ///< mean of the last tenth of the steps
  double val_loss = 0;               ///< last evaluation; NaN when there was none
  double tokens_per_second = 0;      ///< median step
  double wait_share = 0;             ///< waiting / step time, over all steps
  StepBytes bytes;                   ///< of all steps
  StepBytes last_phase;              ///< of the steps in the phase of the last one
  double compressed_step_bytes = 0;  ///< K, V and gradients, mean step; of the compressed phase,
                                     ///< where the run has one, else of the last

  /// Share of the bytes of bf16 K and V that was not sent.
  double saved() const;
  double saved_in_last_phase() const;
};

RunSummary summarize(const RunLog& run);

/// A table for people, a run a row; losses also relative to the first run.
std::string summary_table(const std::vector<RunSummary>& runs);

}  // namespace subring::report
