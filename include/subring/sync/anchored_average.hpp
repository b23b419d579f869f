#pragma once

#include <memory>
#include <vector>

#include "subring/sync/frame_ring.hpp"
#include "subring/sync/weight_sync.hpp"

namespace subring::sync {

/// Method average over a narrow wire, or beside the computation, or both.
///
/// All replicas keep the same *anchor* a, the mean model of the last average, and each keeps its
/// *residual* e, what its own roundings have left unsent. At step t (a multiple of `every`)
/// replica i contributes  d_i = w_i(t) - a + e_i;  FrameRing makes the mean D of what the wire
/// carried, the same bits everywhere, and the new e_i; then a <- a + D. Nothing is lost: the sum of
/// all d_i is m D plus the sum of the new e_i (Karimireddy et al., arXiv:1901.09847).
///
/// Without overlap  w_i <- a  at once. With overlap D travels during the next steps and is applied
/// at the following multiple of `every`, t' = t + every:
///     w_i <- a + D + (w_i(t') - w_i(t))
/// the mean of all replicas as of step t, and on top what this replica has done since. A replica
/// thus sees the others' work `every` to 2 `every` steps late; between two settles replicas are
/// never equal. (Delayed averaging, as in arXiv:2501.18512, streaming DiLoCo.) The step of the
/// application is fixed, so a run gives the same bits each time.
///
/// Moments (average_moments) travel as values, in bf16 where weights are int8: one scale a group
/// would round small second moments to 0, by whose root AdamW divides. Rounded at random, hence
/// unbiased, and never below 0; no residual. With overlap a moment v becomes
///     v(t') + decay^every (mean(t) - v(t)),
/// exactly what it would be had the mean been there at step t; so second moments stay positive.
///
/// State, for a checkpoint: anchor and residual (after settle only the residual: the anchor is the
/// weights), number of averages (seed of the rounding); with overlap settle first.
/// Memory, in f32 numbers a weight: anchor, residual (not fp32) and the average on its way; with
/// overlap also w_i(t), and 2 for each moment.
class AnchoredAverage : public WeightSync {
 public:
  /// @param group  of two or more
  AnchoredAverage(const SyncOptions& options,
                  wire::Group group,
                  std::span<const float> weights,
                  int num_moments);

  void reduce_gradients(std::span<float> gradients) override;
  bool synchronize(int64_t step,
                   std::span<float> weights,
                   std::span<const MomentBuffer> moments) override;
  bool settle(std::span<float> weights, std::span<const MomentBuffer> moments) override;
  void weights_rewritten(std::span<const float> weights) override;
  void poll() override { ring_.poll(); }
  const Arena* arena() const override { return arena_.get(); }
  bool replicas_always_equal() const override { return false; }

  /// This replica's share of what has not been sent; empty for fp32.
  std::span<const float> residual() const { return residual_; }

 private:
  enum class State { idle, under_way };

  void begin(std::span<float> weights, std::span<const MomentBuffer> moments);
  void complete(std::span<float> weights, std::span<const MomentBuffer> moments);
  void average_now(std::span<float> weights, std::span<const MomentBuffer> moments);

  SyncOptions options_;
  int num_replicas_;
  FrameRing ring_;
  std::unique_ptr<Arena> arena_;
  std::span<float> anchor_;
  std::span<float> residual_;  // empty for fp32
  std::span<float> travelling_;
  std::span<float> snapshot_;  // empty without overlap
  std::vector<std::span<float>> travelling_moments_;
  std::vector<std::span<float>> moment_snapshots_;
  State state_ = State::idle;
  bool equal_ = true;              // all replicas have the same weights
  int64_t steps_since_begin_ = 0;  // of the optimizer
  uint64_t num_averages_ = 0;
};

}  // namespace subring::sync
