#include "subring/train/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "subring/core/random.hpp"
#include "subring/mesh/context.hpp"
#include "subring/train/agreement.hpp"
#include "subring/train/description.hpp"
#include "subring/train/lr_schedule.hpp"
#include "subring/train/peak_flops.hpp"
#include "subring/train/trace_file.hpp"

namespace subring::train {
namespace {

constexpr uint64_t kWeightSeed = 1;
constexpr uint64_t kDataSeed = 2;
constexpr uint64_t kRoundingSeed = 3;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Trainer::Trainer(const config::Config& config,
                 wire::Transport& transport,
                 const std::filesystem::path& run_directory)
    : config_(config),
      transport_(transport),
      mesh_(mesh::make_mesh(config.parallelism,
                            transport_,
                            std::chrono::duration<double>(config.wire.timeout_seconds))),
      run_directory_(run_directory),
      progress_(transport.rank(), config.training.steps, config.metrics.log_interval) {
  const uint64_t seed = config.training.seed;
  train_data_ = std::make_unique<data::Loader>(config.data.train,
                                               config.model.vocab_size,
                                               config.data.seq_len,
                                               config.data.shuffle,
                                               derive_seed(seed, kDataSeed));
  if (!config.data.validation.empty()) {
    validation_data_ = std::make_unique<data::Loader>(
        config.data.validation, config.model.vocab_size, config.data.seq_len, false, 0);
  }
  check_agreement(mesh_.world, config, train_data_->num_tokens());
  backend_ = make_backend(config.backend, transport.num_local_ranks());
  stream_ = backend_->make_stream();
  if (config.metrics.trace && !run_directory.empty()) {
    trace_ = std::make_unique<Trace>(config.metrics.trace_steps);
    stream_->set_trace(trace_.get());
    transport_.set_trace(trace_.get());
  }
  transformer_ = std::make_unique<model::Transformer>(*backend_,
                                                      config.model,
                                                      config.compression,
                                                      mesh::context_shape(config.model,
                                                                          config.compression,
                                                                          config.parallelism,
                                                                          mesh_.cp.size(),
                                                                          config.data.seq_len),
                                                      seed);
  transformer_->parameters().initialize(*backend_, derive_seed(seed, kWeightSeed), *stream_);
  optimizer_ = std::make_unique<Optimizer>(
      *backend_, config.optimizer, config.compression.basis_lr_factor, transformer_->parameters());
  stream_->synchronize();
  sync_ = sync::make_weight_sync(
      config.weight_sync, mesh_.world, weights(), static_cast<int>(optimizer_->moments().size()));
  // Transfers proceed while this rank computes, and while it waits for another one.
  backend_->set_poll([this] { poll(); });
  transport_.set_idle([this] { poll(); });
  assign_chunks(0);
  phase_ = phase_of_step(config_.compression, 0);
  if (phase_ == Phase::compressed) transformer_->set_kv_form(model::KvForm::subspace);
  if (phase_ == Phase::warm_start && config.compression.has_parameters()) {
    const auto make = config.compression.codec == codec::Codec::latent
                          ? model::make_latent_warm_start
                          : model::make_subspace_warm_start;
    warm_start_ = make(*backend_, config.model.num_hidden_layers, config.model.kv_width());
  }
  if (config.metrics.spectra_interval > 0) {
    spectra_ = std::make_unique<model::SpectraStudy>(*backend_, transformer_->parameters());
  }
  transport_.reset();
  // Last: a run that cannot start leaves no trace.
  if (transport.rank() == 0 && !run_directory.empty()) {
    metrics_ = std::make_unique<MetricsWriter>(run_directory, config.metrics);
  }
}

void Trainer::poll() {
  transformer_->poll();
  sync_->poll();
}

void Trainer::assign_chunks(int64_t step) {
  const int64_t rotation = config_.weight_sync.rotate_chunks ? step : 0;
  chunks_ =
      mesh::make_chunk_map(config_.parallelism, mesh_.cp.size(), config_.data.seq_len, rotation);
  transformer_->set_chunks(mesh_.cp, chunks_);
  const auto num_tokens = static_cast<size_t>(config_.data.seq_len / mesh_.cp.size());
  tokens_.resize(num_tokens);
  labels_.resize(num_tokens);
}

void Trainer::read_chunks(const data::Loader& loader, int64_t index) {
  const auto chunk_tokens = static_cast<size_t>(chunks_.chunk_tokens);
  size_t first = 0;
  for (int chunk : chunks_.chunks_of(mesh_.cp.index)) {
    loader.read(index,
                chunks_.first_position(chunk),
                std::span(tokens_).subspan(first, chunk_tokens),
                std::span(labels_).subspan(first, chunk_tokens));
    first += chunk_tokens;
  }
}

Trainer::BatchResult Trainer::forward_backward(int64_t step) {
  observe_kv(step);
  const int64_t batch = config_.data.batch_size;
  const int64_t local = batch / mesh_.degrees.dp;
  BatchResult result;
  for (int64_t i = 0; i < batch; ++i) {
    result.valid_tokens += train_data_->num_valid_labels(step * batch + i);
  }
  // A batch without a single label has no loss and no gradient.
  const float scale = 1.0F / static_cast<float>(std::max<int64_t>(result.valid_tokens, 1));
  backend_->fill(transformer_->parameters().flat_gradients(), 0, *stream_);
  for (int64_t i = 0; i < local; ++i) {
    const int64_t in_batch = mesh_.coordinates.dp * local + i;
    read_chunks(*train_data_, step * batch + in_batch);
    transformer_->forward(tokens_, *stream_);
    result.loss_sum += transformer_->loss_and_gradient(labels_, scale, *stream_);
    sync_->poll();
    transformer_->backward(derive_seed(config_.training.seed,
                                       kRoundingSeed,
                                       static_cast<uint64_t>(step),
                                       static_cast<uint64_t>(in_batch)),
                           *stream_);
  }
  stream_->synchronize();
  // Evaluations are not to be seen.
  transformer_->set_kv_observer({});
  return result;
}

Trainer::StepSums Trainer::check_finite(int64_t step, double loss_sum, double squared_norm) {
  const bool finite = std::isfinite(loss_sum) && std::isfinite(squared_norm);
  double sums[] = {finite ? loss_sum : 0, finite ? 0.0 : 1.0, finite ? squared_norm : 0};
  wire::all_reduce_sum(mesh_.world, std::span<double>(sums), wire::TrafficKind::other);
  if (sums[1] > 0) {
    throw Error(ErrorKind::non_finite,
                fmt::format("loss or gradient is not finite on {:.0f} of {} ranks; stopped before "
                            "the update (lower optimizer.lr, or see docs/numerics.md)",
                            sums[1],
                            mesh_.world.size()),
                fmt::format("step {}", step + 1));
  }
  return {.loss_sum = sums[0], .squared_norms = sums[2]};
}

std::span<float> Trainer::weights() {
  const View values = transformer_->parameters().flat_values();
  return {values.f32(), static_cast<size_t>(values.num_elements())};
}

void Trainer::settle_weights() {
  const auto moments = optimizer_->moment_buffers();
  if (sync_->settle(weights(), moments)) {
    optimizer_->retract_bases(*stream_);
  }
}

void Trainer::update(int64_t step, double lr, double grad_norm) {
  const TraceSpan span(trace_.get(), "update");
  const double max_norm = config_.training.max_norm;
  const double scale = max_norm > 0 && grad_norm > max_norm ? max_norm / grad_norm : 1;
  optimizer_->step(lr,
                   scale,
                   phase_ == Phase::compressed ? OptimizerScope::with_codec : OptimizerScope::plain,
                   *stream_);
  stream_->synchronize();
  const auto moments = optimizer_->moment_buffers();
  if (step + 1 == config_.training.steps) {
    settle_weights();
  } else if (sync_->synchronize(step + 1, weights(), moments)) {
    optimizer_->retract_bases(*stream_);
  }
}

StepMetrics Trainer::train_step(int64_t step) {
  transport_.take_wait_seconds();
  step_ = step;
  evaluation_seconds_ = 0;
  if (trace_ != nullptr) trace_->begin_step();
  const TraceSpan span(trace_.get(), "step");
  const auto start = Clock::now();
  enter_phase(step);
  if (config_.weight_sync.rotate_chunks) assign_chunks(step);

  const BatchResult batch = forward_backward(step);
  if (is_study_step(step)) study_ranks(step);
  const View gradients = transformer_->parameters().flat_gradients();
  {
    const TraceSpan exchange(trace_.get(), "gradients of weights");
    sync_->reduce_gradients({gradients.f32(), static_cast<size_t>(gradients.num_elements())});
  }
  optimizer_->project_gradients(*stream_);
  const double squared_norm = backend_->squared_norm(gradients, *stream_);
  const StepSums sums = check_finite(step, batch.loss_sum, squared_norm);

  StepMetrics metrics;
  metrics.lr = learning_rate(config_.optimizer, config_.lr_scheduler, step, config_.training.steps);
  update(step, metrics.lr, std::sqrt(squared_norm));

  metrics.step = step + 1;
  metrics.loss = sums.loss_sum / static_cast<double>(std::max<int64_t>(batch.valid_tokens, 1));
  metrics.grad_norm = std::sqrt(sums.squared_norms / mesh_.world.size());
  metrics.tokens = config_.data.batch_size * config_.data.seq_len;
  metrics.phase = to_string(phase_);
  collect(metrics, seconds_since(start) - evaluation_seconds_);
  return metrics;
}

void Trainer::collect(StepMetrics& metrics, double seconds) {
  const wire::TrafficBytes sent = transport_.take();
  double sums[1 + wire::kNumTrafficKinds] = {transport_.take_wait_seconds()};
  for (size_t kind = 0; kind < sent.size(); ++kind)
    sums[1 + kind] = static_cast<double>(sent[kind]);
  wire::all_reduce_sum(mesh_.world, std::span<double>(sums), wire::TrafficKind::other);
  put_back_counts({});

  metrics.step_seconds = seconds;
  metrics.wait_seconds = std::min(seconds, sums[0] / mesh_.world.size());
  metrics.compute_seconds = seconds - metrics.wait_seconds;
  for (size_t kind = 0; kind < sent.size(); ++kind) {
    metrics.bytes[kind] = static_cast<int64_t>(sums[1 + kind]);
  }
  // This message itself: a ring all-reduce sends 2 (m - 1) times its buffer in all.
  metrics.bytes[static_cast<size_t>(wire::TrafficKind::other)] +=
      2 * (mesh_.world.size() - 1) * static_cast<int64_t>(sizeof sums);
  metrics.kv_uncompressed_bytes = uncompressed_kv_bytes_of_step(config_, chunks_);
  if (peak_flops_ > 0) {
    const double flops =
        model_flops_of_step(config_, transformer_->parameters().num_matmul_parameters());
    metrics.model_flops_utilization = flops / seconds / peak_flops_;
  }
}

void Trainer::put_back_counts(const wire::TrafficBytes& of_step) {
  constexpr auto kWeights = static_cast<size_t>(wire::TrafficKind::weights);
  wire::TrafficBytes kept{};
  kept[kWeights] = transport_.take()[kWeights];
  transport_.put_back(kept);
  transport_.put_back(of_step);
}

EvalMetrics Trainer::evaluate(int64_t step) {
  const TraceSpan span(trace_.get(), "evaluation");
  const auto start = Clock::now();
  const wire::TrafficBytes of_step = transport_.take();
  const int64_t num_sequences = std::min(config_.training.eval_batches * config_.data.batch_size,
                                         validation_data_->num_sequences());
  double loss_sum = 0, num_labels = 0;
  for (int64_t index = mesh_.coordinates.dp; index < num_sequences; index += mesh_.degrees.dp) {
    read_chunks(*validation_data_, index);
    transformer_->forward(tokens_, *stream_);
    loss_sum += transformer_->loss(labels_, *stream_);
    sync_->poll();
    num_labels += static_cast<double>(
        std::count_if(labels_.begin(), labels_.end(), [](int32_t label) { return label >= 0; }));
  }
  const auto kv_bytes = static_cast<double>(
      transport_.sent_bytes()[static_cast<size_t>(wire::TrafficKind::kv_forward)]);
  double sums[] = {loss_sum, num_labels, kv_bytes};
  wire::all_reduce_sum(mesh_.world, std::span<double>(sums), wire::TrafficKind::other);
  put_back_counts(of_step);
  SUBRING_CHECK(std::isfinite(sums[0]),
                ErrorKind::non_finite,
                "step {}: the validation loss is not finite, so the weights are not (lower "
                "optimizer.lr)",
                step);
  evaluation_seconds_ += seconds_since(start);
  return {.step = step,
          .val_loss = sums[0] / std::max(sums[1], 1.0),
          .val_tokens = static_cast<int64_t>(sums[1]),
          .kv_bytes = static_cast<int64_t>(sums[2]),
          .phase = to_string(phase_)};
}

RunFacts Trainer::facts() {
  RunFacts facts{.config = config_,
                 .mesh = mesh_,
                 .chunks = chunks_,
                 .backend = *backend_,
                 .transformer = *transformer_,
                 .num_sequences = train_data_->num_sequences(),
                 .peak_flops = peak_flops_};
  const auto add = [&](const std::vector<const Arena*>& arenas) {
    facts.arenas.insert(facts.arenas.end(), arenas.begin(), arenas.end());
  };
  add(transformer_->parameters().arenas());
  add(optimizer_->arenas());
  add(transformer_->arenas());
  if (warm_start_ != nullptr) add({&warm_start_->arena()});
  if (sync_->arena() != nullptr) add({sync_->arena()});
  if (spectra_ != nullptr) add({&spectra_->arena()});
  return facts;
}

void Trainer::describe() {
  for (const std::string& line : describe_run(facts())) progress_.info(line);
  if (mesh_.world.index != 0) return;
  for (const std::string& warning : config::config_warnings(config_)) progress_.warn(warning);
}

void Trainer::run() {
  try {
    run_steps();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::wire) throw;
    throw Error(e.kind(), e.what(), fmt::format("step {}", step_ + 1));
  }
}

void Trainer::run_steps() {
  describe();
  double peak = measure_peak_flops(*backend_, *stream_);
  wire::all_reduce_sum(mesh_.world, std::span<double>(&peak, 1), wire::TrafficKind::other);
  peak_flops_ = peak;
  transport_.reset();
  if (metrics_ != nullptr) metrics_->write_run(run_json(facts()));
  const int64_t steps = config_.training.steps;
  if (trace_ != nullptr) {
    wire::barrier(mesh_.world);
    trace_->set_epoch();
  }
  for (int64_t step = 0; step < steps; ++step) {
    const StepMetrics metrics = train_step(step);
    const bool last = metrics.step == steps;
    if (metrics_ != nullptr) metrics_->write(metrics);
    progress_.step(metrics);
    const int64_t interval = config_.training.eval_interval;
    if (validation_data_ == nullptr) continue;
    if (last || (interval > 0 && metrics.step % interval == 0)) {
      const EvalMetrics eval = evaluate(metrics.step);
      if (metrics_ != nullptr) metrics_->write(eval);
      progress_.eval(eval);
    }
  }
  if (trace_ != nullptr) write_trace(mesh_.world, *trace_, run_directory_ / "trace.json");
  progress_.info(fmt::format("done; peak resident memory of this process {:.0f} MiB",
                             static_cast<double>(peak_resident_bytes()) / (1 << 20)));
}

}  // namespace subring::train
