// The model depends on the chunks, not on the ranks: one process with C chunks = m ranks.

#include <algorithm>

#include "subring/train/trainer.hpp"
#include "subring/wire/local.hpp"
#include "support/catch.hpp"
#include "train/tiny_run.hpp"

using namespace subring;
using namespace subring::test;

namespace {

/// Losses of all steps, gradients and weights agree to the rounding of f32.
void require_equal(const RunResult& result, const RunResult& expected) {
  REQUIRE(result.steps.size() == expected.steps.size());
  for (size_t i = 0; i < expected.steps.size(); ++i) {
    CAPTURE(i);
    CHECK(result.steps[i].loss == Approx(expected.steps[i].loss).epsilon(1e-5));
    CHECK(result.steps[i].grad_norm == Approx(expected.steps[i].grad_norm).epsilon(1e-4));
  }
  CHECK(relative_distance(result.gradients, expected.gradients) < 1e-4);
  CHECK(relative_distance(result.weights, expected.weights) < 1e-4);
}

/// Weights and biases of all angle heads after `steps` steps on one rank.
std::vector<float> angle_heads_after(const config::Config& config, int64_t steps) {
  std::vector<float> heads;
  wire::run_local_ranks(1, [&](wire::Transport& transport) {
    train::Trainer trainer(config, transport, {});
    for (int64_t step = 0; step < steps; ++step) trainer.train_step(step);
    for (const model::Parameter& parameter : trainer.transformer().parameters().list()) {
      if (parameter.name.find(".angle_") == std::string::npos) continue;
      const float* values = parameter.value.f32();
      heads.insert(heads.end(), values, values + parameter.value.num_elements());
    }
  });
  return heads;
}

}  // namespace

TEST_CASE("losses, gradients and weights do not depend on the number of ranks") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.parallelism.chunks = 16;

  const auto balancer = GENERATE(mesh::LoadBalancer::contiguous, mesh::LoadBalancer::zigzag);
  config.parallelism.load_balancer = balancer;
  SECTION("codec none") { config.compression.codec = codec::Codec::none; }
  SECTION("subspace, defaults") {}
  SECTION("latent") { config.compression.codec = codec::Codec::latent; }
  SECTION("latent from a random start, also at home") {
    config.compression.codec = codec::Codec::latent;
    config.compression.warmup_steps = 0;
    config.compression.exact_local = false;
  }
  SECTION("subspace, grouped-query heads, tied head") {
    config.model.num_key_value_heads = 2;
    config.model.tie_word_embeddings = true;
  }
  SECTION("subspace as in the paper") {
    config.compression.exact_local = false;
    config.compression.learned_basis = false;
    config.compression.rotation.kind = codec::RotationKind::taylor2;
  }
  SECTION("subspace, angles of the previous chunk, two generators") {
    config.compression.rotation.source = codec::RotationSource::previous_chunk;
    config.compression.rotation.generators = 2;
  }
  SECTION("subspace, rotation none, recomputation") {
    config.compression.rotation.kind = codec::RotationKind::none;
    config.model.activation_recomputation = true;
  }
  SECTION("subspace, random rotation") {
    config.compression.rotation.kind = codec::RotationKind::random;
  }
  SECTION("subspace without warm start, chunks that move") {
    config.compression.warmup_steps = 0;
    config.compression.covariance_steps = 0;
    config.weight_sync.rotate_chunks = true;
  }
  SECTION("subspace, unplugged at step 7") { config.compression.unplug_at_step = 7; }

  const RunResult expected = run_steps(config, 1, 10);
  REQUIRE(expected.steps.back().loss < expected.steps.front().loss);
  for (int num_ranks : {2, 4, 8}) {
    CAPTURE(num_ranks);
    require_equal(run_steps(config, num_ranks, 10), expected);
  }
}

TEST_CASE("rotation expm trains as exact does") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.compression.rotation.generators = 2;
  const RunResult expected = run_steps(config, 2, 8);
  config.compression.rotation.kind = codec::RotationKind::expm;
  require_equal(run_steps(config, 2, 8), expected);
}

TEST_CASE(
    "a random rotation turns by other angles than a learned one, which it leaves as they are") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.compression.warmup_steps = 2;
  config.compression.rotation.kind = codec::RotationKind::none;
  const RunResult fixed = run_steps(config, 2, 4);
  config.compression.rotation.kind = codec::RotationKind::random;
  const RunResult random = run_steps(config, 2, 4);
  CHECK(random.steps[1].loss == fixed.steps[1].loss);
  CHECK(random.steps[2].loss != fixed.steps[2].loss);
  const std::vector<float> before = angle_heads_after(config, 0);
  CHECK(*std::max_element(before.begin(), before.end()) > 1);
  CHECK(angle_heads_after(config, 4) == before);
}

TEST_CASE("losses do not depend on data-parallel replicas") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.parallelism.chunks = 4;
  const RunResult expected = run_steps(config, 1, 6);
  config.parallelism.data_parallel_degree = 2;
  require_equal(run_steps(config, 4, 6), expected);
}

TEST_CASE("codec none does not depend on the chunks either") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.compression.codec = codec::Codec::none;
  config.parallelism.chunks = 1;
  const RunResult expected = run_steps(config, 1, 10);
  for (int64_t chunks : {2, 4, 8}) {
    config.parallelism.chunks = chunks;
    require_equal(run_steps(config, 1, 10), expected);
    require_equal(run_steps(config, static_cast<int>(chunks), 10), expected);
  }
}

TEST_CASE("a subspace of full rank is no compression") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.parallelism.chunks = 4;
  config.compression.codec = codec::Codec::none;
  const RunResult expected = run_steps(config, 1, 10);

  config.compression.codec = codec::Codec::subspace;
  config.compression.key_rank = config.compression.value_rank = config.model.kv_width();
  config.compression.exact_local = GENERATE(true, false);
  config.compression.rotation.kind =
      GENERATE(codec::RotationKind::none, codec::RotationKind::exact);
  const RunResult full = run_steps(config, 2, 10);
  for (size_t i = 0; i < expected.steps.size(); ++i) {
    CAPTURE(i);
    CHECK(full.steps[i].loss == Approx(expected.steps[i].loss).epsilon(1e-5));
    CHECK(full.steps[i].grad_norm == Approx(expected.steps[i].grad_norm).epsilon(1e-4));
  }
}

TEST_CASE("top-k of everything, and an exact quantize, are no compression") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.parallelism.chunks = 8;
  config.compression.codec = codec::Codec::none;
  const RunResult expected = run_steps(config, 1, 10);
  config.compression.codec = GENERATE(codec::Codec::topk, codec::Codec::quantize);
  config.compression.topk_fraction = 1;
  config.compression.exact_local = GENERATE(true, false);
  config.parallelism.load_balancer =
      GENERATE(mesh::LoadBalancer::contiguous, mesh::LoadBalancer::zigzag);
  for (int num_ranks : {1, 2, 4}) require_equal(run_steps(config, num_ranks, 10), expected);
}

TEST_CASE("the same run twice gives the same bits") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.compression.codec = GENERATE(
      codec::Codec::subspace, codec::Codec::latent, codec::Codec::topk, codec::Codec::quantize);
  config.compression.wire_dtype = FrameFormat::int4;
  config.compression.warmup_wire_dtype = FrameFormat::int8;
  const RunResult first = run_steps(config, 4, 8);
  const RunResult second = run_steps(config, 4, 8);
  CHECK(first.weights == second.weights);
}
