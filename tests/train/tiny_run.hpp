#pragma once

#include <string>
#include <vector>

#include "subring/config/config.hpp"
#include "subring/train/metrics.hpp"
#include "subring/wire/transport.hpp"

namespace subring::test {

/// A token shard of text-like noise in a temporary directory that goes with the object.
class TinyData {
 public:
  TinyData();
  ~TinyData();
  TinyData(const TinyData&) = delete;
  TinyData& operator=(const TinyData&) = delete;
  /// Glob of the training shard.
  std::string pattern() const;

 private:
  std::string directory_;
};

/// A model of 2 layers, width 32, 64 tokens a sequence, in fp32 on the wire, that trains 10 steps:
/// plain for 3, then compressed.
config::Config tiny_config(const TinyData& data);

/// What one rank has after training.
struct RunResult {
  std::vector<train::StepMetrics> steps;
  std::vector<float> weights;
  std::vector<float> gradients;  ///< of the last step, as the optimizer saw them
};

RunResult run_steps(const config::Config& config, wire::Transport& transport, int64_t steps);
/// The same on threads; the result of rank 0, after a check that all ranks have equal weights.
RunResult run_steps(const config::Config& config, int num_ranks, int64_t steps);

/// |a - b| / |b|.
double relative_distance(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace subring::test
