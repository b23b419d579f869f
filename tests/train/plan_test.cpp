// A plan (report/plan.hpp) against the trainer itself: bytes and memory.

#include "subring/report/plan.hpp"

#include "subring/train/trainer.hpp"
#include "subring/wire/local.hpp"
#include "support/catch.hpp"
#include "train/tiny_run.hpp"

using namespace subring;
using namespace subring::test;

namespace {

report::PlanInputs inputs_of(const config::Config& config, int num_ranks) {
  return {.model = config.model,
          .compression = config.compression,
          .parallelism = config.parallelism,
          .weight_sync = config.weight_sync,
          .network = config.network,
          .backend = config.backend,
          .seq_len = config.data.seq_len,
          .batch_size = config.data.batch_size,
          .num_ranks = num_ranks,
          .device = report::device_profile("h100", num_ranks)};
}

std::map<std::string, int64_t> memory_of(train::Trainer& trainer) {
  std::map<std::string, int64_t> memory;
  const auto add = [&](const std::vector<const Arena*>& arenas) {
    for (const Arena* arena : arenas) {
      for (const auto& [name, bytes] : arena->report()) memory[name] += bytes;
    }
  };
  add(trainer.transformer().parameters().arenas());
  add(trainer.transformer().arenas());
  add(trainer.optimizer().arenas());
  memory.erase("basis step");
  return memory;
}

}  // namespace

TEST_CASE("a plan's bytes and memory are those of a training step") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.compression.warmup_steps = 0;
  config.compression.codec = GENERATE(
      codec::Codec::none, codec::Codec::subspace, codec::Codec::topk, codec::Codec::quantize);
  config.parallelism.load_balancer =
      GENERATE(mesh::LoadBalancer::contiguous, mesh::LoadBalancer::zigzag);
  config.compression.rotation.source =
      GENERATE(codec::RotationSource::chunk, codec::RotationSource::previous_chunk);
  config.compression.wire_dtype = FrameFormat::int4;
  config.weight_sync.wire_dtype = GENERATE(sync::WeightDtype::fp32, sync::WeightDtype::int8);
  config.data.batch_size = 6;
  config.parallelism.data_parallel_degree = GENERATE(1, 2);
  CAPTURE(to_string(config.compression.codec), config.parallelism.data_parallel_degree);
  report::Planner planner(inputs_of(config, 4));
  const report::StepPlan plan = planner.step(config.compression, config.network);
  std::map<std::string, int64_t> memory;
  train::StepMetrics metrics;
  wire::run_local_ranks(4, [&](wire::Transport& transport) {
    train::Trainer trainer(config, transport, {});
    const train::StepMetrics step = trainer.train_step(0);
    if (transport.rank() != 0) return;
    metrics = step;
    memory = memory_of(trainer);
  });
  CHECK(plan.bytes == metrics.bytes);
  std::map<std::string, int64_t> planned = plan.memory;
  planned.erase("weight sync");
  CHECK(planned == memory);
}

TEST_CASE("a plan times the operations of this machine") {
  const TinyData data;
  config::Config config = tiny_config(data);
  report::PlanInputs inputs = inputs_of(config, 2);
  inputs.device = report::device_profile("cpu", 2);
  report::Planner planner(inputs);
  const report::StepPlan plan = planner.step(config.compression, config.network);
  CHECK(plan.forward_seconds > 0);
  CHECK(plan.backward_seconds > 0);
  CHECK(plan.seconds < 1);
  // Timed once: from then on the same.
  CHECK(planner.step(config.compression, config.network).seconds == plan.seconds);
}
