#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "subring/sync/options.hpp"
#include "subring/wire/group.hpp"

namespace subring::sync {

/// How the replicas of a group agree on their weights. Called by every replica, in this order, once
/// a step: reduce_gradients, the optimiser's step, synchronize. A strategy may keep state from step
/// to step (an outer optimiser's, for example). All spans are host memory, of the same lengths on
/// every replica. Traffic kind: weights.
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
  /// @param moments  of the optimiser, any number of buffers
  /// @return whether weights (and what is derived from them) have changed
  /// @throws Error{wire}
  virtual bool synchronize(int64_t step,
                           std::span<float> weights,
                           std::span<std::span<float>> moments) = 0;

  /// False when replicas differ between calls of synchronize: a norm or a checkpoint of one is then
  /// not that of all.
  virtual bool replicas_always_equal() const = 0;
};

/// all_reduce: reduce_gradients sums over the group, every step; synchronize does nothing.
///
/// average: reduce_gradients sends nothing and scales the local gradient by the group's size m.
/// Each replica's share is about 1 / m of the full gradient, so that m times it has the full
/// gradient as its expectation (over which replica holds which tokens) and clipping and weight
/// decay mean the same as under all_reduce. synchronize replaces weights, and with average_moments
/// the moments, by their mean over the replicas in steps that are multiples of `every`: the same
/// bits on every replica. (A mean of second moments stays non-negative.)
///
/// A group of one: both do nothing, and synchronize returns false.
/// @throws Error{config}  every < 1
std::unique_ptr<WeightSync> make_weight_sync(const SyncOptions& options, wire::Group group);

}  // namespace subring::sync
