#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace subring::report {

/// Sent by one step, all ranks.
struct StepBytes {
  int64_t kv_forward = 0, kv_backward = 0, weights = 0, other = 0;
  int64_t kv_uncompressed = 0;  ///< what bf16 K and V and their gradients would have been

  int64_t kv() const { return kv_forward + kv_backward; }
  int64_t all() const { return kv() + weights + other; }
  StepBytes& operator+=(const StepBytes& more);
};

/// A training line of metrics.jsonl (train::StepMetrics).
struct StepRecord {
  int64_t step = 0;  ///< counted from 1
  double loss = 0, lr = 0, grad_norm = 0;
  int64_t tokens = 0;
  double tokens_per_second = 0, step_seconds = 0, wait_seconds = 0;
  std::string phase;
  StepBytes bytes;
};

/// An evaluation line.
struct EvalRecord {
  int64_t step = 0;  ///< steps done before it
  double val_loss = 0;
};

/// A line of the rank study (model::Spectrum).
struct SpectrumRecord {
  int64_t step = 0, layer = 0;
  std::string tensor;  ///< "q", "k", "v"
  int64_t width = 0;
  double stable_rank = 0;
  int64_t components_90 = 0, components_95 = 0, components_99 = 0;
};

/// A run as its metrics.jsonl tells it.
struct RunLog {
  std::filesystem::path directory;
  std::string name;  ///< of the directory
  /// Configuration by key ("compression.codec"), and beside it version, mesh, host, backend, ... of
  /// the first line; values as in JSON, texts without quotes.
  std::map<std::string, std::string> settings;
  std::vector<StepRecord> steps;  ///< at least one
  std::vector<EvalRecord> evals;
  std::vector<SpectrumRecord> spectra;
};

/// Reads metrics.jsonl of a run, which may still be going on: a last line without its end is left
/// out. Cost: memory for every line.
/// @throws Error{data}  no metrics.jsonl there, a line that is not one (file:line), or no step
RunLog read_run(const std::filesystem::path& directory);

/// Several runs. Equal names are told apart by as many parent directories as it takes, and by a
/// number where the same directory comes twice.
std::vector<RunLog> read_runs(std::span<const std::string> directories);

}  // namespace subring::report
