#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace subring::report {

/// What a run came to, out of its metrics.jsonl.
struct RunSummary {
  std::string name;   ///< of the run's directory
  std::string codec;  ///< compression.codec of its configuration
  int64_t steps = 0;
  double train_loss = 0;         ///< mean of the last tenth of the steps
  double val_loss = 0;           ///< last evaluation; NaN when there was none
  double tokens_per_second = 0;  ///< median step
  double wait_share = 0;         ///< waiting / step time, over all steps
  int64_t kv_bytes = 0;          ///< K and V and their gradients, sent by all ranks in all steps
  int64_t kv_uncompressed_bytes = 0;  ///< the same in bf16 without compression
  int64_t phase_kv_bytes = 0;         ///< of the steps in the phase of the last one
  int64_t phase_kv_uncompressed_bytes = 0;

  /// Share of the bytes of bf16 K and V that was not sent.
  double saved() const;
  double saved_in_last_phase() const;
};

/// @throws Error{data}  no metrics.jsonl there, a line that is not JSON (file:line), or no step
RunSummary summarize_run(const std::filesystem::path& run_directory);

/// A table for people, a run a row; losses also relative to the first run.
std::string summary_table(const std::vector<RunSummary>& runs);

}  // namespace subring::report
