#include "subring/sync/weight_sync.hpp"

#include <algorithm>
#include <utility>

#include "formats.hpp"
#include "subring/sync/anchored_average.hpp"

namespace subring::sync {

namespace {

class AllReduceSync : public WeightSync {
 public:
  explicit AllReduceSync(wire::Group group) : group_(std::move(group)) {}

  void reduce_gradients(std::span<float> gradients) override {
    wire::all_reduce_sum(group_, gradients, wire::TrafficKind::weights);
  }

  bool synchronize(int64_t, std::span<float>, std::span<const MomentBuffer>) override {
    return false;
  }
  bool settle(std::span<float>, std::span<const MomentBuffer>) override { return false; }

  bool replicas_always_equal() const override { return true; }

 private:
  wire::Group group_;
};

/// all_reduce over a narrow wire, with error feedback.
class FramedAllReduceSync : public WeightSync {
 public:
  FramedAllReduceSync(const SyncOptions& options, wire::Group group, size_t num_weights)
      : format_(frame_format(options.wire_dtype)), ring_(std::move(group), 1) {
    arena_ = make_arena("weight sync", *std::pmr::new_delete_resource(), [&](Arena& arena) {
      const View view =
          arena.allocate("gradients, residual", DType::f32, {static_cast<int64_t>(num_weights)});
      residual_ = {static_cast<float*>(view.data), num_weights};
    });
    std::ranges::fill(residual_, 0.0F);
  }

  void reduce_gradients(std::span<float> gradients) override {
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i] += residual_[i];
    ring_.start({{.values = gradients, .residual = residual_, .format = format_}}, 0);
    ring_.finish();
  }

  bool synchronize(int64_t, std::span<float>, std::span<const MomentBuffer>) override {
    return false;
  }
  bool settle(std::span<float>, std::span<const MomentBuffer>) override { return false; }

  const Arena* arena() const override { return arena_.get(); }
  bool replicas_always_equal() const override { return true; }

 private:
  FrameFormat format_;
  FrameRing ring_;
  std::unique_ptr<Arena> arena_;
  std::span<float> residual_;
};

/// Averages the weights themselves, in fp32, while all wait.
class AverageSync : public WeightSync {
 public:
  AverageSync(const SyncOptions& options, wire::Group group)
      : options_(options), group_(std::move(group)) {}

  void reduce_gradients(std::span<float> gradients) override {
    if (group_.size() == 1) return;
    equal_ = false;
    const auto scale = static_cast<float>(group_.size());
    for (float& gradient : gradients) gradient *= scale;
  }

  bool synchronize(int64_t step,
                   std::span<float> weights,
                   std::span<const MomentBuffer> moments) override {
    return step % options_.every == 0 && settle(weights, moments);
  }

  bool settle(std::span<float> weights, std::span<const MomentBuffer> moments) override {
    if (equal_) return false;
    average(weights);
    if (options_.average_moments) {
      for (const MomentBuffer& moment : moments) average(moment.values);
    }
    equal_ = true;
    return true;
  }

  bool replicas_always_equal() const override { return group_.size() == 1; }

 private:
  /// The sum has the same bits everywhere, so its quotient has too.
  void average(std::span<float> values) {
    wire::all_reduce_sum(group_, values, wire::TrafficKind::weights);
    const auto num_replicas = static_cast<float>(group_.size());
    for (float& value : values) value /= num_replicas;
  }

  SyncOptions options_;
  wire::Group group_;
  bool equal_ = true;  // all replicas have the same weights
};

}  // namespace

std::unique_ptr<WeightSync> make_weight_sync(const SyncOptions& options,
                                             wire::Group group,
                                             std::span<const float> weights,
                                             int num_moments) {
  SUBRING_CHECK(options.every >= 1,
                ErrorKind::config,
                "weight_sync.every is {}, allowed: 1 or more",
                options.every);
  SUBRING_CHECK(!options.overlap || options.method == SyncMethod::average,
                ErrorKind::config,
                "weight_sync.overlap needs weight_sync.method average");
  const bool plain =
      group.size() == 1 || (options.wire_dtype == WeightDtype::fp32 && !options.overlap);
  switch (options.method) {
    case SyncMethod::all_reduce:
      if (plain) return std::make_unique<AllReduceSync>(std::move(group));
      return std::make_unique<FramedAllReduceSync>(options, std::move(group), weights.size());
    case SyncMethod::average:
      if (plain) return std::make_unique<AverageSync>(options, std::move(group));
      return std::make_unique<AnchoredAverage>(options, std::move(group), weights, num_moments);
  }
  throw Error(ErrorKind::config, "unknown method", "weight_sync.method");
}

int64_t weight_bytes_of_sync(const SyncOptions& options,
                             int num_replicas,
                             int64_t num_weights,
                             int num_moments) {
  const int64_t weights =
      frame_ring_bytes(frame_format(options.wire_dtype), num_weights, num_replicas);
  if (options.method == SyncMethod::all_reduce || !options.average_moments) return weights;
  return weights + num_moments * frame_ring_bytes(
                                     moment_format(options.wire_dtype), num_weights, num_replicas);
}

}  // namespace subring::sync
