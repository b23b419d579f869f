#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "subring/backend/options.hpp"
#include "subring/codec/options.hpp"
#include "subring/mesh/options.hpp"
#include "subring/model/options.hpp"
#include "subring/report/device_profile.hpp"
#include "subring/sync/options.hpp"
#include "subring/wire/metered.hpp"
#include "subring/wire/options.hpp"

namespace subring::report {

/// A run to plan: the sections of its configuration that its speed depends on.
struct PlanInputs {
  model::ModelOptions model;
  codec::CompressionOptions compression;
  mesh::ParallelismOptions parallelism;
  sync::SyncOptions weight_sync;
  wire::NetworkOptions network;
  BackendOptions backend;
  int64_t seq_len = 0;
  int64_t batch_size = 1;  ///< sequences of one step
  int num_ranks = 1;
  DeviceProfile device;
};

/// One step in its last phase (compressed, unless the codec is none), predicted.
struct StepPlan {
  double seconds = 0;           ///< of the whole step, the slowest rank's
  double forward_seconds = 0;   ///< computing, mean over ranks: forward and loss
  double backward_seconds = 0;  ///< computing, mean over ranks
  double update_seconds = 0;    ///< computing, mean over ranks: optimizer, frames of weights
  double forward_wait = 0;      ///< mean over ranks, blocked on blocks of K and V
  double backward_wait = 0;     ///< mean over ranks, blocked on their gradients
  double sync_wait = 0;         ///< mean over ranks, blocked on weights and on the other ranks
  wire::TrafficBytes bytes{};   ///< sent by a step, by kind, all ranks (a mean where weights are
                                ///< averaged every so many steps)
  int64_t block_bytes = 0;      ///< of one chunk and layer on the wire
  int64_t chunk_tokens = 0;
  std::map<std::string, int64_t> memory;  ///< bytes of rank 0 by name, as --dry-run has them

  double compute_seconds() const { return forward_seconds + backward_seconds + update_seconds; }
  double wait_seconds() const { return forward_wait + backward_wait + sync_wait; }
  int64_t memory_bytes() const;
};

/// The largest wire cost of K and V that hides behind computation, and what fits into it.
struct HiddenCost {
  double bits = 0;  ///< a token and layer, K and V together
  /// What to set: "codec none, wire_dtype bf16", "key_rank 10, value_rank 20, wire_dtype int8" ...
  std::string proposal;
  double latency_seconds = 0;  ///< of a step: what latency adds where K and V have no bytes
};

/// Predicts by rehearsal: the trainer's own Transformer runs on every rank, with a backend that
/// computes nothing but lets a virtual clock go on by what each operation costs, over the link
/// model of the emulation (docs/plan.md). So schedule, overlap and bytes are those of the program.
class Planner {
 public:
  /// Under the profile "cpu" the first step() times operations on this machine, a few seconds.
  /// @throws Error{config}  ranks, chunks or sequence do not fit one another; more than 64 ranks
  explicit Planner(const PlanInputs& inputs);
  ~Planner();

  const PlanInputs& inputs() const { return inputs_; }
  /// @param kv_scale  K and V cost so many times their bytes on the links
  StepPlan step(const codec::CompressionOptions& compression,
                const wire::NetworkOptions& network,
                double kv_scale = 1);
  /// The run beside which a plan is put: the same with K and V in bf16.
  codec::CompressionOptions uncompressed() const;
  /// To be called when the costs of all operations are known.
  void end_measuring();

  /// What bounds `plan`, a step of the inputs: "compute", "uplink", "downlink", "latency" or
  /// "memory"; found by rehearsals without each of them.
  std::string limit(const StepPlan& plan);
  /// The most that K and V may cost: a step then takes longer than with K and V of no bytes, by 2 %
  /// of its computation.
  HiddenCost hidden_cost(const wire::NetworkOptions& network);

 private:
  struct Costs;
  PlanInputs inputs_;
  std::unique_ptr<Costs> costs_;
};

/// Everything about the run as people read it. @param planner  gets the rehearsals to make
std::string plan_text(Planner& planner);
/// One line for each bandwidth, bits per second (every link's, up and down).
std::string sweep_text(Planner& planner, const std::vector<double>& bandwidths);
/// 1, 3, 10, ... times powers of ten within [first, last], with both ends.
std::vector<double> bandwidth_grid(double first, double last);

}  // namespace subring::report
