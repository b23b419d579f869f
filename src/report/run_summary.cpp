#include "subring/report/run_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "subring/core/error.hpp"

namespace subring::report {
namespace {

using nlohmann::json;

struct StepLine {
  double loss, tokens_per_second, step_seconds, wait_seconds;
  std::string phase;
  int64_t kv_bytes, kv_uncompressed_bytes;
};

StepLine parse_step(const json& line) {
  const json& bytes = line.at("bytes");
  return {
      .loss = line.at("loss"),
      .tokens_per_second = line.at("tokens_per_second"),
      .step_seconds = line.at("step_seconds"),
      .wait_seconds = line.at("wait_seconds"),
      .phase = line.at("phase"),
      .kv_bytes = bytes.at("kv_forward").get<int64_t>() + bytes.at("kv_backward").get<int64_t>(),
      .kv_uncompressed_bytes = bytes.at("kv_uncompressed")};
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void add_up(RunSummary& summary, const std::vector<StepLine>& steps) {
  const size_t tail = std::max<size_t>(steps.size() / 10, 1);
  double step_seconds = 0, wait_seconds = 0;
  std::vector<double> rates;
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepLine& step = steps[i];
    if (i + tail >= steps.size()) summary.train_loss += step.loss / static_cast<double>(tail);
    rates.push_back(step.tokens_per_second);
    step_seconds += step.step_seconds;
    wait_seconds += step.wait_seconds;
    summary.kv_bytes += step.kv_bytes;
    summary.kv_uncompressed_bytes += step.kv_uncompressed_bytes;
    if (step.phase == steps.back().phase) {
      summary.phase_kv_bytes += step.kv_bytes;
      summary.phase_kv_uncompressed_bytes += step.kv_uncompressed_bytes;
    }
  }
  summary.tokens_per_second = median(std::move(rates));
  summary.wait_share = step_seconds > 0 ? wait_seconds / step_seconds : 0;
}

double share_saved(int64_t sent, int64_t uncompressed) {
  return uncompressed > 0 ? 1 - static_cast<double>(sent) / static_cast<double>(uncompressed) : 0;
}

}  // namespace

double RunSummary::saved() const { return share_saved(kv_bytes, kv_uncompressed_bytes); }

double RunSummary::saved_in_last_phase() const {
  return share_saved(phase_kv_bytes, phase_kv_uncompressed_bytes);
}

RunSummary summarize_run(const std::filesystem::path& run_directory) {
  const std::filesystem::path path = run_directory / "metrics.jsonl";
  std::ifstream file(path);
  SUBRING_CHECK(file.good(),
                ErrorKind::data,
                "{}: cannot be read; a run's directory holds that file",
                path.string());
  RunSummary summary;
  summary.name = std::filesystem::absolute(run_directory).lexically_normal().filename().string();
  if (summary.name.empty()) summary.name = run_directory.parent_path().filename().string();
  summary.val_loss = std::numeric_limits<double>::quiet_NaN();
  std::vector<StepLine> steps;
  std::string text;
  for (int64_t number = 1; std::getline(file, text); ++number) {
    try {
      const json line = json::parse(text);
      if (line.contains("run")) {
        summary.codec = line.at("run").at("config").at("compression").at("codec");
      } else if (line.contains("val_loss")) {
        summary.val_loss = line.at("val_loss");
      } else if (line.contains("spectrum")) {
        continue;  // of the rank study
      } else {
        steps.push_back(parse_step(line));
        summary.steps = line.at("step");
      }
    } catch (const json::exception& e) {
      throw Error(ErrorKind::data,
                  fmt::format("not a line of metrics ({})", e.what()),
                  fmt::format("{}:{}", path.string(), number));
    }
  }
  SUBRING_CHECK(!steps.empty(), ErrorKind::data, "{}: holds no training step", path.string());
  add_up(summary, steps);
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
        static_cast<double>(run.kv_bytes) / 1e6,
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
