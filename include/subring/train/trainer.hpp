#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "subring/backend/backend.hpp"
#include "subring/config/config.hpp"
#include "subring/data/loader.hpp"
#include "subring/mesh/mesh.hpp"
#include "subring/model/spectra.hpp"
#include "subring/model/transformer.hpp"
#include "subring/model/warm_start.hpp"
#include "subring/sync/weight_sync.hpp"
#include "subring/train/description.hpp"
#include "subring/train/metrics.hpp"
#include "subring/train/optimizer.hpp"
#include "subring/train/progress.hpp"
#include "subring/wire/metered.hpp"

namespace subring::train {

/// What travels in a part of a run (method.md section 4).
enum class Phase { uncompressed, warm_start, compressed, unplugged };
constexpr EnumNames<Phase, 4> enum_names(Phase) {
  return {{{Phase::uncompressed, "uncompressed"},
           {Phase::warm_start, "warm_start"},
           {Phase::compressed, "compressed"},
           {Phase::unplugged, "unplugged"}}};
}

/// Phase of step `step`, counted from 0.
Phase phase_of_step(const codec::CompressionOptions& compression, int64_t step);

/// One rank of a training run. Every rank of the transport makes one with the same config, and all
/// call the same functions in the same order.
class Trainer {
 public:
  /// @param run_directory  gets metrics.jsonl (from rank 0); empty: nothing is written
  Trainer(const config::Config& config,
          wire::Transport& transport,
          const std::filesystem::path& run_directory);

  /// Trains from the first step to the last. @throws Error{non_finite, wire, data, io}
  void run();
  /// Logs sizes, memory and predicted bytes; trains nothing.
  void describe();

  /// One step: forward and backward of this rank's part of the batch, gradients over all ranks,
  /// update. The metrics are those of the whole group, on every rank.
  StepMetrics train_step(int64_t step);
  /// Mean loss over the first `eval_batches` batches of the validation data.
  EvalMetrics evaluate(int64_t step);

  model::Transformer& transformer() { return *transformer_; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  struct BatchResult {
    double loss_sum = 0;
    int64_t valid_tokens = 0;  ///< of the whole batch
  };
  /// Of the step, summed over ranks before the update.
  struct StepSums {
    double loss_sum = 0;
    double squared_norms = 0;
  };

  /// Lets all transfers under way proceed.
  void poll();
  void assign_chunks(int64_t step);
  void read_chunks(const data::Loader& loader, int64_t index);
  void enter_phase(int64_t step);
  void start_compression(int64_t step);
  void unplug(int64_t step);
  /// In the last steps of the warm start: second moments of K and V are collected. In steps of the
  /// rank study: those of attention's inputs.
  void observe_kv(int64_t step);
  bool is_study_step(int64_t step) const;
  /// Writes the spectra of the batch; neither its time nor its bytes are the step's.
  void study_ranks(int64_t step);
  BatchResult forward_backward(int64_t step);
  StepSums check_finite(int64_t step, double loss_sum, double squared_norm);
  void update(int64_t step, double lr, double grad_norm);
  /// All weights, as the host sees them.
  std::span<float> weights();
  /// Makes all replicas' weights the same, if they are not.
  void settle_weights();
  void collect(StepMetrics& metrics, double seconds);
  /// After work that counts in no step. An average that travelled meanwhile does count.
  void put_back_counts(const wire::TrafficBytes& of_step);
  RunFacts facts();
  void run_steps();

  config::Config config_;
  wire::MeteredTransport transport_;
  mesh::Mesh mesh_;
  std::unique_ptr<Trace> trace_;  // metrics.trace; outlives all transfers
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<model::Transformer> transformer_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<sync::WeightSync> sync_;
  std::unique_ptr<model::WarmStart> warm_start_;
  std::unique_ptr<model::SpectraStudy> spectra_;
  std::unique_ptr<data::Loader> train_data_;
  std::unique_ptr<data::Loader> validation_data_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::filesystem::path run_directory_;
  Progress progress_;
  Phase phase_ = Phase::uncompressed;
  ring::ChunkMap chunks_;
  std::vector<int32_t> tokens_;    // [n] of this rank's chunks
  std::vector<int32_t> labels_;    // [n]
  int64_t step_ = 0;               // the one under way, for messages
  double evaluation_seconds_ = 0;  // of evaluations and studies within a step
  double peak_flops_ = 0;          // measured, summed over ranks
};

}  // namespace subring::train
