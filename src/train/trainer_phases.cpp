// What changes from step to step of a run: phases, and what is observed of K and V.

#include <chrono>

#include "subring/train/trainer.hpp"

namespace subring::train {

Phase phase_of_step(const codec::CompressionOptions& compression, int64_t step) {
  if (compression.codec == codec::Codec::none) return Phase::uncompressed;
  if (step < compression.warmup_steps) return Phase::warm_start;
  if (compression.unplug_at_step >= 0 && step >= compression.unplug_at_step) {
    return Phase::unplugged;
  }
  return Phase::compressed;
}

void Trainer::enter_phase(int64_t step) {
  const Phase next = phase_of_step(config_.compression, step);
  if (next == phase_) return;
  settle_weights();
  if (next == Phase::compressed) start_compression(step);
  if (next == Phase::unplugged) unplug(step);
  stream_->synchronize();
  sync_->weights_rewritten(weights());
  phase_ = next;
}

void Trainer::start_compression(int64_t step) {
  transformer_->set_kv_form(model::KvForm::subspace);
  if (warm_start_ == nullptr) {
    progress_.info(fmt::format("step {}: warm start ends, K and V travel by codec {}",
                               step,
                               to_string(config_.compression.codec)));
    return;
  }
  const auto reports = warm_start_->finish(mesh_.world, transformer_->parameters(), *stream_);
  warm_start_.reset();
  progress_.info(fmt::format("step {}: warm start ends, K and V travel as coordinates", step));
  for (const model::BasisReport& report : reports) {
    progress_.info(fmt::format("  {}: basis holds {:.2f} % of the energy, stable rank {:.1f}",
                               report.name,
                               100 * report.captured_energy,
                               report.stable_rank));
  }
}

void Trainer::unplug(int64_t step) {
  const auto report = [&](std::string_view what) {
    if (validation_data_ == nullptr) return;
    EvalMetrics eval = evaluate(step);
    eval.phase = what;
    if (metrics_ != nullptr) metrics_->write(eval);
    progress_.eval(eval);
  };
  report("before_unplug");
  // The other codecs have nothing to fold: their K and V are the plain ones, rounded or thinned.
  if (config_.compression.codec == codec::Codec::subspace && !config_.compression.exact_local) {
    model::fold_subspaces(*backend_, transformer_->parameters(), *stream_);
  }
  transformer_->set_kv_form(model::KvForm::plain);
  report("after_unplug");
}

void Trainer::observe_kv(int64_t step) {
  const codec::CompressionOptions& compression = config_.compression;
  const bool for_bases =
      warm_start_ != nullptr && step >= compression.warmup_steps - compression.covariance_steps;
  const bool for_study = is_study_step(step);
  if (!for_bases && !for_study) return;
  if (for_study) spectra_->begin(*stream_);
  transformer_->set_kv_observer([=, this](int64_t layer, ConstView x, ConstView k, ConstView v) {
    if (for_bases) warm_start_->accumulate(layer, k, v, *stream_);
    if (for_study) spectra_->accumulate(layer, x, *stream_);
  });
}

bool Trainer::is_study_step(int64_t step) const {
  return spectra_ != nullptr && (step + 1) % config_.metrics.spectra_interval == 0;
}

void Trainer::study_ranks(int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  const wire::TrafficBytes of_step = transport_.take();
  const double waited = transport_.take_wait_seconds();
  for (const model::Spectrum& spectrum : spectra_->finish(mesh_.world, *stream_)) {
    if (metrics_ != nullptr) metrics_->write(spectrum, step + 1);
  }
  put_back_counts(of_step);
  transport_.take_wait_seconds();
  transport_.add_wait_seconds(waited);
  evaluation_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace subring::train
