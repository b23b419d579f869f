#include "subring/train/metrics.hpp"

#include <nlohmann/json.hpp>

#include "subring/core/error.hpp"

namespace subring::train {

using nlohmann::ordered_json;

namespace {

int64_t bytes_of(const StepMetrics& m, wire::TrafficKind kind) {
  return m.bytes[static_cast<size_t>(kind)];
}

void write_events(report::EventFile& events, const StepMetrics& m) {
  const auto sent = [&](wire::TrafficKind kind) { return static_cast<double>(bytes_of(m, kind)); };
  const report::Scalar scalars[] = {
      {"train/loss", m.loss},
      {"train/lr", m.lr},
      {"train/grad_norm", m.grad_norm},
      {"speed/tokens_per_second", m.tokens_per_second()},
      {"speed/step_seconds", m.step_seconds},
      {"speed/wait_share", m.wait_seconds / m.step_seconds},
      {"bytes/kv_forward", sent(wire::TrafficKind::kv_forward)},
      {"bytes/kv_backward", sent(wire::TrafficKind::kv_backward)},
      {"bytes/weights", sent(wire::TrafficKind::weights)},
      {"bytes/other", sent(wire::TrafficKind::other)},
      {"bytes/kv_uncompressed", static_cast<double>(m.kv_uncompressed_bytes)}};
  events.write(m.step, scalars);
}

}  // namespace

MetricsWriter::MetricsWriter(const std::filesystem::path& run_directory,
                             const MetricsOptions& options)
    : path_(run_directory / "metrics.jsonl") {
  std::error_code error;
  std::filesystem::create_directories(run_directory, error);
  SUBRING_CHECK(!error,
                ErrorKind::io,
                "{}: cannot create the run directory: {}",
                run_directory.string(),
                error.message());
  SUBRING_CHECK(!std::filesystem::exists(path_),
                ErrorKind::config,
                "{} exists: a run has been written there; name another directory with --out",
                path_.string());
  file_.open(path_, std::ios::app);
  SUBRING_CHECK(file_.good(), ErrorKind::io, "{}: cannot be opened for writing", path_.string());
  if (options.tensorboard) events_ = std::make_unique<report::EventFile>(run_directory);
}

void MetricsWriter::write_line(const std::string& line) {
  file_ << line << '\n' << std::flush;
  SUBRING_CHECK(file_.good(), ErrorKind::io, "{}: write failed (disk full?)", path_.string());
}

void MetricsWriter::write_run(const std::string& run_json) {
  write_line("{\"run\":" + run_json + "}");
}

void MetricsWriter::write(const StepMetrics& m) {
  const ordered_json line = {{"step", m.step},
                             {"loss", m.loss},
                             {"lr", m.lr},
                             {"grad_norm", m.grad_norm},
                             {"tokens", m.tokens},
                             {"tokens_per_second", m.tokens_per_second()},
                             {"step_seconds", m.step_seconds},
                             {"compute_seconds", m.compute_seconds},
                             {"wait_seconds", m.wait_seconds},
                             {"model_flops_utilization", m.model_flops_utilization},
                             {"phase", m.phase},
                             {"bytes",
                              {{"kv_forward", bytes_of(m, wire::TrafficKind::kv_forward)},
                               {"kv_backward", bytes_of(m, wire::TrafficKind::kv_backward)},
                               {"weights", bytes_of(m, wire::TrafficKind::weights)},
                               {"other", bytes_of(m, wire::TrafficKind::other)},
                               {"kv_uncompressed", m.kv_uncompressed_bytes}}}};
  write_line(line.dump());
  if (events_ != nullptr) write_events(*events_, m);
}

void MetricsWriter::write(const EvalMetrics& m) {
  const ordered_json line = {{"step", m.step},
                             {"val_loss", m.val_loss},
                             {"val_tokens", m.val_tokens},
                             {"kv_bytes", m.kv_bytes},
                             {"phase", m.phase}};
  write_line(line.dump());
  const report::Scalar scalars[] = {{"eval/val_loss", m.val_loss}};
  if (events_ != nullptr) events_->write(m.step, scalars);
}

void MetricsWriter::write(const model::Spectrum& s, int64_t step) {
  const ordered_json line = {{"spectrum",
                              {{"step", step},
                               {"layer", s.layer},
                               {"tensor", s.tensor},
                               {"width", s.width},
                               {"stable_rank", s.stable_rank},
                               {"components_90", s.components_90},
                               {"components_95", s.components_95},
                               {"components_99", s.components_99},
                               {"components", s.components},
                               {"energy", s.energy}}}};
  write_line(line.dump());
}

}  // namespace subring::train
