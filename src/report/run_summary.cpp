#include "subring/report/run_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace subring::report {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double share_saved(const StepBytes& bytes) {
  if (bytes.kv_uncompressed == 0) return 0;
  return 1 - static_cast<double>(bytes.kv()) / static_cast<double>(bytes.kv_uncompressed);
}

StepBytes bytes_of_phase(const RunLog& run, std::string_view phase, int64_t& num_steps) {
  StepBytes bytes;
  num_steps = 0;
  for (const StepRecord& step : run.steps) {
    if (step.phase != phase) continue;
    bytes += step.bytes;
    ++num_steps;
  }
  return bytes;
}

}  // namespace

double RunSummary::saved() const { return share_saved(bytes); }

double RunSummary::saved_in_last_phase() const { return share_saved(last_phase); }

RunSummary summarize(const RunLog& run) {
  const std::vector<StepRecord>& steps = run.steps;
  RunSummary summary;
  summary.name = run.name;
  const auto codec = run.settings.find("compression.codec");
  if (codec != run.settings.end()) summary.codec = codec->second;
  summary.steps = steps.back().step;
  summary.val_loss =
      run.evals.empty() ? std::numeric_limits<double>::quiet_NaN() : run.evals.back().val_loss;
  const size_t tail = std::max<size_t>(steps.size() / 10, 1);
  double step_seconds = 0, wait_seconds = 0;
  std::vector<double> rates;
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepRecord& step = steps[i];
    if (i + tail >= steps.size()) summary.train_loss += step.loss / static_cast<double>(tail);
    rates.push_back(step.tokens_per_second);
    step_seconds += step.step_seconds;
    wait_seconds += step.wait_seconds;
    summary.bytes += step.bytes;
  }
  summary.tokens_per_second = median(std::move(rates));
  summary.wait_share = step_seconds > 0 ? wait_seconds / step_seconds : 0;
  int64_t last_steps = 0, compressed_steps = 0;
  summary.last_phase = bytes_of_phase(run, steps.back().phase, last_steps);
  const StepBytes compressed = bytes_of_phase(run, "compressed", compressed_steps);
  summary.compressed_step_bytes =
      compressed_steps > 0
          ? static_cast<double>(compressed.kv()) / static_cast<double>(compressed_steps)
          : static_cast<double>(summary.last_phase.kv()) / static_cast<double>(last_steps);
  return summary;
}

std::string summary_table(const std::vector<RunSummary>& runs) {
  size_t width = 3;
  for (const RunSummary& run : runs) width = std::max(width, run.name.size());
  std::string table =
      fmt::format("{:<{}}  {:>8} {:>6}  {:>8} {:>8}  {:>10} {:>7} {:>7}  {:>8} {:>5}\n",
                  "run",
                  width,
                  "codec",
                  "steps",
                  "val loss",
                  "vs first",
                  "KV MB sent",
                  "saved",
                  "(last)",
                  "tokens/s",
                  "wait");
  for (const RunSummary& run : runs) {
    table += fmt::format(
        "{:<{}}  {:>8} {:>6}  {:>8.4f} {:>+8.4f}  {:>10.1f} {:>6.1f}% {:>6.1f}%  {:>8.0f} "
        "{:>4.0f}%\n",
        run.name,
        width,
        run.codec,
        run.steps,
        run.val_loss,
        run.val_loss - runs.front().val_loss,
        static_cast<double>(run.bytes.kv()) / 1e6,
        100 * run.saved(),
        100 * run.saved_in_last_phase(),
        run.tokens_per_second,
        100 * run.wait_share);
  }
  table +=
      "KV: keys, values and their gradients, all ranks; saved: against bf16 without compression,\n"
      "over the whole run and (last) in its last phase; val loss in nats per token; tokens/s: "
      "median.\n";
  return table;
}

}  // namespace subring::report
