#include "subring/sync/weight_sync.hpp"

#include <utility>

namespace subring::sync {

namespace {

class AllReduceSync : public WeightSync {
 public:
  explicit AllReduceSync(wire::Group group) : group_(std::move(group)) {}

  void reduce_gradients(std::span<float> gradients) override {
    wire::all_reduce_sum(group_, gradients, wire::TrafficKind::weights);
  }

  bool synchronize(int64_t, std::span<float>, std::span<std::span<float>>) override {
    return false;
  }

  bool replicas_always_equal() const override { return true; }

 private:
  wire::Group group_;
};

class AverageSync : public WeightSync {
 public:
  AverageSync(const SyncOptions& options, wire::Group group)
      : options_(options), group_(std::move(group)) {}

  void reduce_gradients(std::span<float> gradients) override {
    if (group_.size() == 1) return;
    const auto scale = static_cast<float>(group_.size());
    for (float& gradient : gradients) gradient *= scale;
  }

  bool synchronize(int64_t step,
                   std::span<float> weights,
                   std::span<std::span<float>> moments) override {
    if (group_.size() == 1 || step % options_.every != 0) return false;
    average(weights);
    if (options_.average_moments) {
      for (std::span<float> moment : moments) average(moment);
    }
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
};

}  // namespace

std::unique_ptr<WeightSync> make_weight_sync(const SyncOptions& options, wire::Group group) {
  SUBRING_CHECK(options.every >= 1,
                ErrorKind::config,
                "weight_sync.every is {}, allowed: 1 or more",
                options.every);
  switch (options.method) {
    case SyncMethod::all_reduce: return std::make_unique<AllReduceSync>(std::move(group));
    case SyncMethod::average: return std::make_unique<AverageSync>(options, std::move(group));
  }
  throw Error(ErrorKind::config, "unknown method", "weight_sync.method");
}

}  // namespace subring::sync
