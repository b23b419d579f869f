// weight_sync within training: bytes, phases, bases, repeatability.

#include <cmath>

#include "subring/train/trainer.hpp"
#include "subring/wire/local.hpp"
#include "support/catch.hpp"
#include "train/tiny_run.hpp"

using namespace subring;
using namespace subring::test;

namespace {

config::Config averaging_config(const TinyData& data, sync::WeightDtype dtype, bool overlap) {
  config::Config config = tiny_config(data);
  config.training.steps = 21;
  config.compression.unplug_at_step = 18;
  config.weight_sync.method = sync::SyncMethod::average;
  config.weight_sync.every = 4;
  config.weight_sync.average_moments = true;
  config.weight_sync.wire_dtype = dtype;
  config.weight_sync.overlap = overlap;
  return config;
}

int64_t weight_bytes(const RunResult& run) {
  int64_t bytes = 0;
  for (const train::StepMetrics& step : run.steps) {
    bytes += step.bytes[static_cast<size_t>(wire::TrafficKind::weights)];
  }
  return bytes;
}

std::vector<RunResult> run_all(const config::Config& config, int num_ranks) {
  std::vector<RunResult> results(static_cast<size_t>(num_ranks));
  wire::run_local_ranks(num_ranks, [&](wire::Transport& transport) {
    results[static_cast<size_t>(transport.rank())] =
        run_steps(config, transport, config.training.steps);
  });
  return results;
}

double largest_distance_from_orthonormal(const model::ParameterSet& parameters) {
  double largest = 0;
  for (const model::Parameter& parameter : parameters.list()) {
    if (parameter.role != model::ParameterRole::basis) continue;
    const float* x = parameter.value.f32();
    const int64_t rank = parameter.value.shape[1];
    for (int64_t a = 0; a < rank; ++a) {
      for (int64_t b = 0; b < rank; ++b) {
        double dot = 0;
        for (int64_t row = 0; row < parameter.value.shape[0]; ++row) {
          dot += double{x[row * rank + a]} * x[row * rank + b];
        }
        largest = std::max(largest, std::abs(dot - (a == b ? 1 : 0)));
      }
    }
  }
  return largest;
}

}  // namespace

TEST_CASE(
    "averages in every form train, end equal, repeat to the bit, and send what is predicted") {
  const TinyData data;
  const int m = GENERATE(2, 3, 4);
  const auto dtype =
      GENERATE(sync::WeightDtype::fp32, sync::WeightDtype::bf16, sync::WeightDtype::int8);
  const bool overlap = GENERATE(false, true);
  CAPTURE(m, to_string(dtype), overlap);
  config::Config config = averaging_config(data, dtype, overlap);
  config.parallelism.chunks = m;
  config.data.seq_len = 60;  // divides by 3 and 4
  const auto results = run_all(config, m);
  for (const RunResult& result : results) CHECK(result.weights == results[0].weights);
  CHECK(results[0].steps.back().loss < 0.95 * results[0].steps.front().loss);
  CHECK(run_all(config, m)[0].weights == results[0].weights);
  // Averages: after steps 4, 8, ... 20, and by settle: after steps 3 and 18, where phases change,
  // and after the last.
  const int64_t num_weights = static_cast<int64_t>(results[0].weights.size());
  CHECK(weight_bytes(results[0]) ==
        (3 + 5) * sync::weight_bytes_of_sync(config.weight_sync, m, num_weights, 2));
}

TEST_CASE("bases stay orthonormal while averages travel, and evaluations lose no bytes") {
  const TinyData data;
  const auto dtype = GENERATE(sync::WeightDtype::fp32, sync::WeightDtype::int8);
  config::Config config = averaging_config(data, dtype, true);
  config.compression.unplug_at_step = -1;
  config.data.validation = data.pattern();
  config.training.eval_batches = 2;
  std::vector<int64_t> bytes(4);
  int64_t num_weights = 0;
  wire::run_local_ranks(4, [&](wire::Transport& transport) {
    train::Trainer trainer(config, transport, {});
    int64_t sent = 0;
    for (int64_t step = 0; step < config.training.steps; ++step) {
      const train::StepMetrics metrics = trainer.train_step(step);
      sent += metrics.bytes[static_cast<size_t>(wire::TrafficKind::weights)];
      if (step % 2 == 0) trainer.evaluate(step + 1);
      const double distance = largest_distance_from_orthonormal(trainer.transformer().parameters());
      SUBRING_CHECK(distance < 1e-5, ErrorKind::shape, "step {}: off by {}", step, distance);
    }
    bytes[static_cast<size_t>(transport.rank())] = sent;
    if (transport.rank() == 0) {
      num_weights = trainer.transformer().parameters().flat_values().num_elements();
    }
  });
  CHECK(bytes[0] == (2 + 5) * sync::weight_bytes_of_sync(config.weight_sync, 4, num_weights, 2));
}

TEST_CASE("gradients in bf16 and int8 keep replicas equal and train as well as fp32, nearly") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.training.steps = 20;
  const double fp32 = run_steps(config, 4, 20).steps.back().loss;
  config.weight_sync.wire_dtype = GENERATE(sync::WeightDtype::bf16, sync::WeightDtype::int8);
  // run_steps checks that all ranks have the same weights.
  const RunResult run = run_steps(config, 4, 20);
  CHECK(run.steps.back().loss == Approx(fp32).epsilon(0.02));
  CHECK(run.steps.back().loss != fp32);
  const auto num_weights = static_cast<int64_t>(run.weights.size());
  CHECK(weight_bytes(run) ==
        20 * sync::weight_bytes_of_sync(config.weight_sync, 4, num_weights, 2));
}
