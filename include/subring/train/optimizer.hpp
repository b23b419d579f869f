#pragma once

#include <array>
#include <memory>
#include <span>

#include "subring/backend/backend.hpp"
#include "subring/core/arena.hpp"
#include "subring/model/parameters.hpp"
#include "subring/sync/weight_sync.hpp"
#include "subring/train/options.hpp"

namespace subring::train {

/// Which parameters a step moves. The codec's rest while plain K and V travel.
enum class OptimizerScope { plain, with_codec };

/// AdamW over all parameters; bases move on the Stiefel manifold: the gradient's tangent part goes
/// through Adam's moments, then a QR retraction with positive diagonal (method.md section 2c).
class Optimizer {
 public:
  /// Memory: two numbers a parameter.
  Optimizer(Backend& backend,
            const OptimizerOptions& options,
            double basis_lr_factor,
            const model::ParameterSet& parameters);

  /// Replaces each basis's gradient G by its part tangent to the manifold at U,
  /// G - U (U^T G + G^T U) / 2. To be called before the norm of the gradients is taken: the rest of
  /// G moves nothing.
  void project_gradients(Stream& stream);

  /// One update from the gradients, multiplied by `gradient_scale` first (clipping).
  void step(double lr, double gradient_scale, OptimizerScope scope, Stream& stream);

  /// Makes the columns of all bases orthonormal again (after replicas were averaged).
  void retract_bases(Stream& stream);

  /// The memory of moments and scratch.
  std::vector<const Arena*> arenas() const { return {first_.get(), second_.get(), scratch_.get()}; }
  /// First and second moments, flat, in the order of the parameters.
  std::array<View, 2> moments() const { return {first_->contents(), second_->contents()}; }
  /// The same for the replicas' synchronisation.
  std::array<sync::MomentBuffer, 2> moment_buffers() const;

 private:
  Backend& backend_;
  OptimizerOptions options_;
  double basis_lr_factor_;
  const model::ParameterSet& parameters_;
  std::unique_ptr<Arena> first_;
  std::unique_ptr<Arena> second_;
  std::unique_ptr<Arena> scratch_;
  std::vector<View> first_moments_;
  std::vector<View> second_moments_;
  View normal_;  // [largest e * r]
  View gram_;    // [largest r * r]
  int64_t num_steps_ = 0;
  int64_t num_codec_steps_ = 0;
};

}  // namespace subring::train
