#include "subring/train/trainer.hpp"

#include <atomic>
#include <cmath>

#include "subring/train/lr_schedule.hpp"
#include "subring/train/optimizer.hpp"
#include "subring/wire/local.hpp"
#include "support/catch.hpp"
#include "train/tiny_run.hpp"

using namespace subring;
using namespace subring::test;

namespace {

int64_t bytes_of(const train::StepMetrics& metrics, wire::TrafficKind kind) {
  return metrics.bytes[static_cast<size_t>(kind)];
}

}  // namespace

TEST_CASE("counted K and V bytes are the predicted ones, to the byte, in every phase") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.compression.wire_dtype = FrameFormat::int4;
  config.compression.key_rank = 5;
  config.compression.warmup_wire_dtype = FrameFormat::int8;
  config.compression.unplug_at_step = 6;
  config.parallelism.load_balancer =
      GENERATE(mesh::LoadBalancer::contiguous, mesh::LoadBalancer::zigzag);
  const bool zigzag = config.parallelism.load_balancer == mesh::LoadBalancer::zigzag;
  const RunResult run = run_steps(config, 4, 8);

  // By hand, 4 ranks. Contiguous, 4 chunks of 16 tokens: 1 + 2 + 3 blocks leave. Zigzag, 8 chunks
  // of 8: each but the last goes round 3 hops, chunks 0 to 3 as well as 4 to 6.
  const int64_t blocks = zigzag ? 7 * 3 : 6;
  const int64_t tokens = zigzag ? 8 : 16;
  const int64_t passes = 2 * 2;  // layers x sequences
  const int64_t plain = blocks * tokens * (2 * 32 + 2) * passes;
  const int64_t compressed = blocks * (tokens * (3 + 5 + 2) + 2 * 4) * passes;
  for (const train::StepMetrics& step : run.steps) {
    CAPTURE(step.step, step.phase);
    const int64_t expected = step.phase == "compressed" ? compressed : plain;
    CHECK(bytes_of(step, wire::TrafficKind::kv_forward) == expected);
    CHECK(bytes_of(step, wire::TrafficKind::kv_backward) == expected);
    CHECK(step.kv_uncompressed_bytes == 2 * blocks * tokens * 2 * 32 * 2 * passes);
  }
  CHECK(run.steps[2].phase == "warm_start");
  CHECK(run.steps[3].phase == "compressed");
  CHECK(run.steps[6].phase == "unplugged");
}

TEST_CASE("the paper's comparisons: phases, bytes to the byte, and a loss that falls") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.compression.codec = GENERATE(codec::Codec::topk, codec::Codec::quantize);
  config.compression.exact_local = GENERATE(true, false);
  config.compression.wire_dtype = GENERATE(FrameFormat::int8, FrameFormat::int4);
  config.compression.warmup_wire_dtype = FrameFormat::bf16;
  config.compression.unplug_at_step = 8;
  const RunResult run = run_steps(config, 4, 10);

  // By hand: 6 blocks of 16 tokens, 2 layers x 2 sequences; K and V have 32 numbers a token, of
  // which topk keeps 3, each with a column of 2 bytes.
  const int64_t rows = 6 * 16 * 2 * 2 * 2;
  const bool is_int4 = config.compression.wire_dtype == FrameFormat::int4;
  const int64_t row = config.compression.codec == codec::Codec::topk ? 3 * 2 + (is_int4 ? 2 : 3) + 1
                                                                     : (is_int4 ? 16 : 32) + 1;
  for (const train::StepMetrics& step : run.steps) {
    CAPTURE(step.step, step.phase);
    const int64_t expected = rows * (step.phase == "compressed" ? row : 2 * 32);
    CHECK(bytes_of(step, wire::TrafficKind::kv_forward) == expected);
    CHECK(bytes_of(step, wire::TrafficKind::kv_backward) == expected);
  }
  CHECK(run.steps[2].phase == "warm_start");
  CHECK(run.steps[3].phase == "compressed");
  CHECK(run.steps[8].phase == "unplugged");
  CHECK(run.steps.back().loss < run.steps.front().loss);
}

TEST_CASE("angles of the previous chunk cost their own bytes") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.compression.warmup_steps = config.compression.covariance_steps = 0;
  const RunResult chunk = run_steps(config, 4, 1);
  config.compression.rotation.source = codec::RotationSource::previous_chunk;
  const RunResult previous = run_steps(config, 4, 1);
  // Three of the four chunks follow one of another rank: 2 numbers each, 2 layers, 2 sequences.
  CHECK(bytes_of(previous.steps[0], wire::TrafficKind::kv_forward) -
            bytes_of(chunk.steps[0], wire::TrafficKind::kv_forward) ==
        3 * 2 * 4 * 4);
}

TEST_CASE("one rank sends nothing") {
  const TinyData data;
  const RunResult run = run_steps(tiny_config(data), 1, 5);
  for (int64_t bytes : run.steps.back().bytes) CHECK(bytes == 0);
}

TEST_CASE("a value that is not finite stops all ranks before the update") {
  const TinyData data;
  const config::Config config = tiny_config(data);
  std::atomic<int> stopped = 0;
  wire::run_local_ranks(4, [&](wire::Transport& transport) {
    train::Trainer trainer(config, transport, {});
    trainer.train_step(0);
    const View weights = trainer.transformer().parameters().flat_values();
    // Only rank 2 is broken.
    if (transport.rank() == 2) weights.f32()[weights.num_elements() / 2] = NAN;
    const std::vector<float> before(weights.f32(), weights.f32() + weights.num_elements());
    try {
      trainer.train_step(1);
    } catch (const Error& error) {
      SUBRING_CHECK(error.kind() == ErrorKind::non_finite, ErrorKind::shape, "{}", error.what());
      SUBRING_CHECK(std::string(error.what()).find("step 2") != std::string::npos,
                    ErrorKind::shape,
                    "no step in '{}'",
                    error.what());
      ++stopped;
    }
    for (size_t i = 0; i < before.size(); ++i) {
      const float now = weights.f32()[i];
      SUBRING_CHECK(now == before[i] || (std::isnan(now) && std::isnan(before[i])),
                    ErrorKind::shape,
                    "weight {} moved",
                    i);
    }
  });
  CHECK(stopped == 4);
}

TEST_CASE("averaging trains, and all replicas agree after an average") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.training.steps = 20;
  config.weight_sync.method = sync::SyncMethod::average;
  config.weight_sync.every = 4;
  config.weight_sync.average_moments = GENERATE(false, true);
  config.weight_sync.rotate_chunks = true;
  std::vector<RunResult> results(4);
  wire::run_local_ranks(4, [&](wire::Transport& transport) {
    results[static_cast<size_t>(transport.rank())] = run_steps(config, transport, 20);
  });
  for (const RunResult& result : results) CHECK(result.weights == results[0].weights);
  CHECK(results[0].steps.back().loss < 0.9 * results[0].steps.front().loss);
  for (const train::StepMetrics& step : results[0].steps) {
    CAPTURE(step.step);
    CHECK((bytes_of(step, wire::TrafficKind::weights) > 0) == (step.step % 4 == 0));
  }
  wire::run_local_ranks(4, [&](wire::Transport& transport) {
    results[static_cast<size_t>(transport.rank())] = run_steps(config, transport, 19);
  });
  CHECK(results[1].weights != results[0].weights);
}

TEST_CASE("the learning rate warms up, decays, and ends at its floor") {
  const train::OptimizerOptions optimizer{.lr = 0.5};
  train::LrSchedulerOptions schedule{.warmup_steps = 10, .min_lr_factor = 0.1};
  CHECK(train::learning_rate(optimizer, schedule, 0, 100) == Approx(0.05));
  CHECK(train::learning_rate(optimizer, schedule, 9, 100) == Approx(0.5));
  CHECK(train::learning_rate(optimizer, schedule, 10, 100) == Approx(0.5));
  CHECK(train::learning_rate(optimizer, schedule, 99, 100) == Approx(0.05));
  schedule.decay = train::LrDecay::none;
  CHECK(train::learning_rate(optimizer, schedule, 99, 100) == Approx(0.5));
  schedule.decay = train::LrDecay::linear;
  schedule.warmup_steps = 0;
  CHECK(train::learning_rate(optimizer, schedule, 0, 101) == Approx(0.5));
  CHECK(train::learning_rate(optimizer, schedule, 50, 101) == Approx(0.5 * (0.1 + 0.9 * 0.5)));
}

TEST_CASE("bases stay orthonormal, norms do not decay") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.optimizer.weight_decay = 10;  // would shrink what it touches by 3 % a step
  wire::run_local_ranks(2, [&](wire::Transport& transport) {
    train::Trainer trainer(config, transport, {});
    for (int64_t step = 0; step < 8; ++step) trainer.train_step(step);
    for (const model::Parameter& parameter : trainer.transformer().parameters().list()) {
      const float* x = parameter.value.f32();
      if (parameter.role == model::ParameterRole::norm) {
        SUBRING_CHECK(x[0] > 0.9F, ErrorKind::shape, "{} is {}", parameter.name, x[0]);
      }
      if (parameter.role != model::ParameterRole::basis) continue;
      const int64_t rank = parameter.value.shape[1];
      for (int64_t a = 0; a < rank; ++a) {
        for (int64_t b = 0; b < rank; ++b) {
          double dot = 0;
          for (int64_t row = 0; row < parameter.value.shape[0]; ++row) {
            dot += double(x[row * rank + a]) * x[row * rank + b];
          }
          SUBRING_CHECK(std::abs(dot - (a == b)) < 1e-5,
                        ErrorKind::shape,
                        "{}: <{}, {}> = {}",
                        parameter.name,
                        a,
                        b,
                        dot);
        }
      }
    }
  });
  SUCCEED("no rank threw");
}

TEST_CASE("codec none sends plain K and V in wire_dtype, and in bf16 what is the reference") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.compression.codec = codec::Codec::none;
  config.compression.warmup_wire_dtype = FrameFormat::int4;
  config.compression.wire_dtype = FrameFormat::bf16;
  const train::StepMetrics step = run_steps(config, 4, 1).steps[0];
  CHECK(bytes_of(step, wire::TrafficKind::kv_forward) +
            bytes_of(step, wire::TrafficKind::kv_backward) ==
        step.kv_uncompressed_bytes);
}

TEST_CASE("evaluations count in no step, also where a phase begins with them") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.compression.unplug_at_step = 5;
  const RunResult without = run_steps(config, 4, 7);
  config.data.validation = data.pattern();
  config.training.eval_batches = 2;
  const RunResult with = run_steps(config, 4, 7);
  for (size_t i = 0; i < without.steps.size(); ++i) {
    CAPTURE(i);
    CHECK(with.steps[i].bytes == without.steps[i].bytes);
  }
}

TEST_CASE("a basis that is not learned keeps its bits, a learned one moves") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.compression.learned_basis = GENERATE(false, true);
  wire::run_local_ranks(2, [&](wire::Transport& transport) {
    train::Trainer trainer(config, transport, {});
    const auto basis = [&] {
      const View view = trainer.transformer().parameters().layers[0].key_subspace.basis;
      return std::vector<float>(view.f32(), view.f32() + view.num_elements());
    };
    for (int64_t step = 0; step < 4; ++step) trainer.train_step(step);
    const std::vector<float> before = basis();
    for (int64_t step = 4; step < 8; ++step) trainer.train_step(step);
    SUBRING_CHECK((basis() == before) == !config.compression.learned_basis,
                  ErrorKind::shape,
                  "learned_basis {}",
                  config.compression.learned_basis);
  });
  SUCCEED("no rank threw");
}

TEST_CASE("a rank with another configuration is refused, and the key named") {
  const TinyData data;
  const config::Config config = tiny_config(data);
  config::Config other = config;
  other.optimizer.lr = 0.5;
  std::string message;
  try {
    wire::run_local_ranks(4, [&](wire::Transport& transport) {
      train::Trainer(transport.rank() == 2 ? other : config, transport, {});
      // The others come to a meeting that rank 2 does not reach.
      wire::barrier({&transport, {0, 1, 2, 3}, transport.rank(), std::chrono::seconds(20)});
    });
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    message = error.what();
  }
  CAPTURE(message);
  CHECK(message.find("optimizer.lr is 0.5 on rank 2 and 0.003 on rank 0") != std::string::npos);
}

TEST_CASE("an evaluation of broken weights ends the run") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.data.validation = data.pattern();
  wire::run_local_ranks(2, [&](wire::Transport& transport) {
    train::Trainer trainer(config, transport, {});
    trainer.transformer().parameters().flat_values().f32()[0] = NAN;
    bool stopped = false;
    try {
      trainer.evaluate(3);
    } catch (const Error& error) {
      stopped = error.kind() == ErrorKind::non_finite;
    }
    SUBRING_CHECK(stopped, ErrorKind::shape, "went on");
  });
  SUCCEED("both ranks stopped");
}
