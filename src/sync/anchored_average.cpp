#include "subring/sync/anchored_average.hpp"

#include <algorithm>
#include <cmath>

#include "formats.hpp"

namespace subring::sync {

AnchoredAverage::AnchoredAverage(const SyncOptions& options,
                                 wire::Group group,
                                 std::span<const float> weights,
                                 int num_moments)
    : options_(options), num_replicas_(group.size()), ring_(std::move(group), 1.0 / num_replicas_) {
  const auto size = static_cast<int64_t>(weights.size());
  arena_ = make_arena("weight sync", *std::pmr::new_delete_resource(), [&](Arena& arena) {
    const auto allocate = [&](const char* name) -> std::span<float> {
      return {static_cast<float*>(arena.allocate(name, DType::f32, {size}).data), weights.size()};
    };
    anchor_ = allocate("weights, anchor");
    travelling_ = allocate("weights, travelling");
    if (options_.wire_dtype != WeightDtype::fp32) residual_ = allocate("weights, residual");
    travelling_moments_.clear();
    moment_snapshots_.clear();
    if (!options_.overlap) return;
    snapshot_ = allocate("weights, snapshot");
    for (int i = 0; options_.average_moments && i < num_moments; ++i) {
      travelling_moments_.push_back(allocate("moments, travelling"));
      moment_snapshots_.push_back(allocate("moments, snapshot"));
    }
  });
  std::ranges::copy(weights, anchor_.begin());
  std::ranges::fill(residual_, 0.0F);
}

void AnchoredAverage::reduce_gradients(std::span<float> gradients) {
  equal_ = false;
  ++steps_since_begin_;
  const auto scale = static_cast<float>(num_replicas_);
  for (float& gradient : gradients) gradient *= scale;
}

bool AnchoredAverage::synchronize(int64_t step,
                                  std::span<float> weights,
                                  std::span<const MomentBuffer> moments) {
  ring_.poll();
  if (step % options_.every != 0) return false;
  if (!options_.overlap) {
    average_now(weights, moments);
    return true;
  }
  const bool applies = state_ == State::under_way;
  if (applies) complete(weights, moments);
  begin(weights, moments);
  return applies;
}

bool AnchoredAverage::settle(std::span<float> weights, std::span<const MomentBuffer> moments) {
  if (equal_) return false;
  if (state_ == State::under_way) complete(weights, moments);
  average_now(weights, moments);
  return true;
}

void AnchoredAverage::weights_rewritten(std::span<const float> weights) {
  SUBRING_CHECK(equal_, ErrorKind::shape, "weights rewritten while replicas differ");
  std::ranges::copy(weights, anchor_.begin());
}

void AnchoredAverage::begin(std::span<float> weights, std::span<const MomentBuffer> moments) {
  for (size_t i = 0; i < weights.size(); ++i) travelling_[i] = weights[i] - anchor_[i];
  for (size_t i = 0; i < residual_.size(); ++i) travelling_[i] += residual_[i];
  std::copy_n(weights.begin(), snapshot_.size(), snapshot_.begin());
  std::vector<RingBuffer> buffers = {
      {.values = travelling_, .residual = residual_, .format = frame_format(options_.wire_dtype)}};
  for (size_t i = 0; options_.average_moments && i < moments.size(); ++i) {
    // Without overlap in place.
    std::span<float> values = moments[i].values;
    if (options_.overlap) {
      std::ranges::copy(values, moment_snapshots_[i].begin());
      std::ranges::copy(values, travelling_moments_[i].begin());
      values = travelling_moments_[i];
    }
    buffers.push_back({.values = values,
                       .residual = {},
                       .format = moment_format(options_.wire_dtype),
                       .rounding = Rounding::stochastic});
  }
  ring_.start(std::move(buffers), ++num_averages_);
  steps_since_begin_ = 0;
  state_ = State::under_way;
}

void AnchoredAverage::complete(std::span<float> weights, std::span<const MomentBuffer> moments) {
  ring_.finish();
  state_ = State::idle;
  for (size_t i = 0; i < weights.size(); ++i) anchor_[i] += travelling_[i];
  if (!options_.overlap) {
    std::ranges::copy(anchor_, weights.begin());
    return;
  }
  // Where nothing has happened since, exactly the anchor.
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = anchor_[i] + (weights[i] - snapshot_[i]);
  }
  for (size_t k = 0; options_.average_moments && k < moments.size(); ++k) {
    const auto decay =
        static_cast<float>(std::pow(moments[k].decay, static_cast<double>(steps_since_begin_)));
    const std::span<float> values = moments[k].values;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] += decay * (travelling_moments_[k][i] - moment_snapshots_[k][i]);
    }
  }
}

void AnchoredAverage::average_now(std::span<float> weights, std::span<const MomentBuffer> moments) {
  begin(weights, moments);
  complete(weights, moments);
  equal_ = true;
}

}  // namespace subring::sync
