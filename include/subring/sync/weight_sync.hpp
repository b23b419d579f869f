#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "subring/core/arena.hpp"
#include "subring/sync/options.hpp"
#include "subring/wire/group.hpp"

namespace subring::sync {

/// One of the optimizer's running means.
struct MomentBuffer {
  std::span<float> values;
  double decay = 0;  ///< new = decay * old + (1 - decay) * what comes in, each step
};

/// How the replicas of a group agree on their weights. Called by every replica, in this order, once
/// a step: reduce_gradients, the optimiser's step, synchronize (or settle). A strategy may keep
/// state from step to step. All spans are host memory, of the same lengths on every replica, and
/// the same memory at each call. Traffic kind: weights.
class WeightSync {
 public:
  virtual ~WeightSync() = default;

  /// Makes the local gradient the one that the local optimiser is to use.
  /// @param gradients  in: the gradient of this replica's share of the loss, whose sum over the
  ///                   replicas is the full gradient
  /// @throws Error{wire}
  virtual void reduce_gradients(std::span<float> gradients) = 0;

  /// After the optimiser's step.
  /// @param step     number of steps done, this one included: 1 after the first
  /// @param moments  of the optimiser
  /// @return whether weights have changed (bases then need their retraction)
  /// @throws Error{wire}
  virtual bool synchronize(int64_t step,
                           std::span<float> weights,
                           std::span<const MomentBuffer> moments) = 0;

  /// Ends what is under way and leaves the same weights on every replica, by one more average
  /// unless they are the same already. In place of synchronize after the last step, and before
  /// weights are rewritten as a whole. @return as synchronize. @throws Error{wire}
  virtual bool settle(std::span<float> weights, std::span<const MomentBuffer> moments) = 0;

  /// After settle: the weights have been rewritten, to the same bits on every replica (bases at the
  /// end of the warm start, projections folded).
  virtual void weights_rewritten(std::span<const float>) {}

  /// Moves transfers on that go beside the computation; never blocks. To be called every
  /// millisecond or so, also from within the backend's operations. @throws Error{wire}
  virtual void poll() {}

  /// Memory of its state; null: none.
  virtual const Arena* arena() const { return nullptr; }

  /// False when replicas differ between calls of synchronize: a norm or a checkpoint of one is then
  /// not that of all.
  virtual bool replicas_always_equal() const = 0;
};

/// all_reduce: reduce_gradients sums over the group, every step; the others do nothing. With
/// wire_dtype bf16 or int8 by FrameRing, and what its roundings leave behind is added to the next
/// step's gradient (error feedback; Karimireddy et al., arXiv:1901.09847).
///
/// average: reduce_gradients sends nothing and scales the local gradient by the group's size m.
/// Each replica's share is about 1 / m of the full gradient, so that m times it has the full
/// gradient as its expectation (over which replica holds which tokens) and clipping and weight
/// decay mean the same as under all_reduce. synchronize replaces weights, and with average_moments
/// the moments, by their mean over the replicas in steps that are multiples of `every`: the same
/// bits on every replica. (A mean of second moments stays non-negative.) With wire_dtype bf16 or
/// int8, or overlap: see AnchoredAverage.
///
/// A group of one: all do nothing, and synchronize returns false.
/// @param weights      at the start, the same on all replicas; read, not kept
/// @param num_moments  that synchronize will get
/// @throws Error{config}  every < 1, or overlap without method average
std::unique_ptr<WeightSync> make_weight_sync(const SyncOptions& options,
                                             wire::Group group,
                                             std::span<const float> weights,
                                             int num_moments);

/// Bytes that all replicas together send at one synchronisation (all_reduce: each step; average:
/// every `every` steps, and when settle averages).
int64_t weight_bytes_of_sync(const SyncOptions& options,
                             int num_replicas,
                             int64_t num_weights,
                             int num_moments);

}  // namespace subring::sync
