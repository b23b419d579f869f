#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "subring/model/spectra.hpp"
#include "subring/report/event_file.hpp"
#include "subring/train/options.hpp"
#include "subring/wire/metered.hpp"

namespace subring::train {

/// One step, summed over ranks where it is a sum (a line of metrics.jsonl).
struct StepMetrics {
  int64_t step = 0;  ///< counted from 1: the state after this many steps
  double loss = 0;   ///< nats per valid token
  double lr = 0;
  double grad_norm = 0;  ///< before clipping
  int64_t tokens = 0;
  double step_seconds = 0;
  double compute_seconds = 0;  ///< mean over ranks: step_seconds - wait_seconds
  double wait_seconds = 0;     ///< mean over ranks: blocked on transfers
  double model_flops_utilization = 0;
  std::string_view phase;
  wire::TrafficBytes bytes{};         ///< sent by this step, by kind, all ranks
  int64_t kv_uncompressed_bytes = 0;  ///< what codec none in bf16 would have sent as K and V

  double tokens_per_second() const { return static_cast<double>(tokens) / step_seconds; }
};

struct EvalMetrics {
  int64_t step = 0;
  double val_loss = 0;
  int64_t val_tokens = 0;
  int64_t kv_bytes = 0;  ///< K and V sent by this evaluation, all ranks; not part of any step
  std::string_view phase;
};

/// Appends JSON lines to metrics.jsonl of a run's directory, and with metrics.tensorboard scalars
/// to an event file beside it (docs/report.md lists them). Every line is flushed at once.
class MetricsWriter {
 public:
  /// @throws Error{config}  the directory holds a run already
  /// @throws Error{io}      it cannot be created or written
  MetricsWriter(const std::filesystem::path& run_directory, const MetricsOptions& options);

  /// @param run_json  a JSON object with version, config, mesh, host
  void write_run(const std::string& run_json);
  void write(const StepMetrics& metrics);
  void write(const EvalMetrics& metrics);
  /// {"spectrum": {...}}. @param step  counted from 1: of the weights before its update
  void write(const model::Spectrum& spectrum, int64_t step);

 private:
  void write_line(const std::string& line);

  std::filesystem::path path_;
  std::ofstream file_;
  std::unique_ptr<report::EventFile> events_;  // null without metrics.tensorboard
};

}  // namespace subring::train
