#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <mutex>

#include "subring/core/random.hpp"
#include "subring/data/shard_writer.hpp"
#include "subring/train/trainer.hpp"
#include "subring/wire/local.hpp"
#include "train/tiny_run.hpp"

namespace subring::test {

TinyData::TinyData() {
  std::string name = (std::filesystem::temp_directory_path() / "subring_test_XXXXXX").string();
  SUBRING_CHECK(mkdtemp(name.data()) != nullptr, ErrorKind::io, "mkdtemp {} failed", name);
  directory_ = name;
  data::ShardWriter writer({.directory = directory_, .split = "train", .vocab_size = 61});
  // A walk with small steps: enough structure to be learned.
  Random random(11);
  std::vector<int32_t> tokens;
  int64_t token = 0;
  for (int i = 0; i < 4000; ++i) {
    token = (token + 1 + static_cast<int64_t>(random.below(3))) % 61;
    tokens.push_back(static_cast<int32_t>(token));
  }
  writer.append(tokens);
  writer.finish();
  writer.commit();
}

TinyData::~TinyData() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string TinyData::pattern() const { return directory_ + "/train_*.bin"; }

config::Config tiny_config(const TinyData& data) {
  config::Config config;
  config.model = {.hidden_size = 32,
                  .num_hidden_layers = 2,
                  .num_attention_heads = 4,
                  .num_key_value_heads = 4,
                  .intermediate_size = 48,
                  .vocab_size = 61};
  config.data.train = data.pattern();
  config.data.seq_len = 64;
  config.data.batch_size = 2;
  config.training.steps = 10;
  config.training.seed = 5;
  config.optimizer.lr = 3e-3;
  config.lr_scheduler.warmup_steps = 2;
  config.compression.key_rank = 6;
  config.compression.value_rank = 10;
  config.compression.latent_rank = 12;
  config.compression.warmup_steps = 3;
  config.compression.covariance_steps = 2;
  config.compression.wire_dtype = FrameFormat::fp32;
  config.compression.warmup_wire_dtype = FrameFormat::fp32;
  config.backend.threads = 1;
  return config;
}

RunResult run_steps(const config::Config& config, wire::Transport& transport, int64_t steps) {
  train::Trainer trainer(config, transport, {});
  RunResult result;
  for (int64_t step = 0; step < steps; ++step) result.steps.push_back(trainer.train_step(step));
  const auto copy = [](View view) {
    return std::vector<float>(view.f32(), view.f32() + view.num_elements());
  };
  result.weights = copy(trainer.transformer().parameters().flat_values());
  result.gradients = copy(trainer.transformer().parameters().flat_gradients());
  return result;
}

RunResult run_steps(const config::Config& config, int num_ranks, int64_t steps) {
  std::vector<RunResult> results(static_cast<size_t>(num_ranks));
  wire::run_local_ranks(num_ranks, [&](wire::Transport& transport) {
    results[static_cast<size_t>(transport.rank())] = run_steps(config, transport, steps);
  });
  if (config.weight_sync.method == sync::SyncMethod::all_reduce) {
    for (const RunResult& result : results) {
      SUBRING_CHECK(result.weights == results.front().weights,
                    ErrorKind::shape,
                    "ranks have different weights");
    }
  }
  return results.front();
}

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  SUBRING_CHECK(a.size() == b.size(), ErrorKind::shape, "{} and {} numbers", a.size(), b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return std::sqrt(difference / norm);
}

}  // namespace subring::test
