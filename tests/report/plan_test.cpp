#include "subring/report/plan.hpp"

#include "subring/core/error.hpp"
#include "support/catch.hpp"

using namespace subring;
using namespace subring::report;

namespace {

/// A device of round numbers; 4 ranks, zigzag.
PlanInputs sample_inputs() {
  PlanInputs inputs;
  inputs.model = {.hidden_size = 128,
                  .num_hidden_layers = 3,
                  .num_attention_heads = 4,
                  .num_key_value_heads = 4,
                  .intermediate_size = 256,
                  .vocab_size = 500};
  inputs.compression.key_rank = 8;
  inputs.compression.value_rank = 16;
  inputs.parallelism.load_balancer = mesh::LoadBalancer::zigzag;
  inputs.weight_sync.method = sync::SyncMethod::average;
  inputs.weight_sync.every = 1000000;
  inputs.seq_len = 4096;
  inputs.num_ranks = 4;
  inputs.device = {.name = "sample",
                   .peak_flops = 2e11,
                   .memory_bytes = 1e12,
                   .memory_bytes_per_second = 1e12,
                   .utilization = 0.5,
                   .memory_utilization = 1};
  return inputs;
}

wire::NetworkOptions network_of(double bandwidth, double latency) {
  wire::NetworkOptions network;
  network.bandwidth = bandwidth;
  network.latency_seconds = latency;
  return network;
}

std::string limit_of(const PlanInputs& inputs) {
  Planner planner(inputs);
  return planner.limit(planner.step(inputs.compression, inputs.network));
}

}  // namespace

TEST_CASE("without a network a planned step is its computation, by what the device promises") {
  const PlanInputs inputs = sample_inputs();
  Planner planner(inputs);
  const StepPlan plan = planner.step(planner.uncompressed(), {});
  CHECK(plan.seconds == Approx(plan.compute_seconds()).epsilon(0.02));
  CHECK(plan.wait_seconds() < 0.02 * plan.seconds);
  // Matrix products and causal attention, at 1e11 flop/s and on 4 ranks: 2 flops forward and 4
  // backward a weight and token; 4 and 10 a pair of positions and channel.
  const double layers = 3, width = 128, tokens = 4096;
  const double products = layers * (4 * width * width + 3 * width * 256) + 500 * width;
  const double pairs = layers * width * tokens * tokens / 2;
  CHECK(plan.forward_seconds + plan.backward_seconds > (6 * products * tokens + 14 * pairs) / 4e11);
  CHECK(plan.forward_seconds + plan.backward_seconds <
        1.15 * (6 * products * tokens + 14 * pairs) / 4e11);
  CHECK(planner.step(planner.uncompressed(), {}).seconds == plan.seconds);
}

TEST_CASE("a planned step waits for slow links as much as they are slow") {
  const PlanInputs inputs = sample_inputs();
  Planner planner(inputs);
  const auto seconds = [&](double bandwidth) {
    return planner.step(planner.uncompressed(), network_of(bandwidth, 0)).seconds;
  };
  const double slow = seconds(1e6);
  CHECK(slow == Approx(2 * seconds(2e6)).epsilon(0.05));
  CHECK(seconds(2e6) > seconds(1e8));
  // The busiest uplink forward, then the busiest one backward; bytes over payload bits a second.
  const StepPlan plan = planner.step(planner.uncompressed(), network_of(1e6, 0));
  const auto bytes = static_cast<double>(plan.bytes[0] + plan.bytes[1]);
  CHECK(slow > bytes / 4 * 8 / 0.95e6);
  CHECK(slow < 1.6 * bytes / 4 * 8 / 0.95e6);
  // Half the bytes, half the time.
  CHECK(planner.step(planner.uncompressed(), network_of(1e6, 0), 0.5).seconds ==
        Approx(slow / 2).epsilon(0.05));
}

TEST_CASE("what a plan says can hide does hide, and not much more does") {
  PlanInputs inputs = sample_inputs();
  inputs.network = network_of(4e6, 0);
  Planner planner(inputs);
  const HiddenCost hidden = planner.hidden_cost(inputs.network);
  const StepPlan now = planner.step(inputs.compression, inputs.network);
  const double scale = hidden.bits * static_cast<double>(now.chunk_tokens) / 8 /
                       static_cast<double>(now.block_bytes);
  const double free = planner.step(inputs.compression, inputs.network, 0).seconds;
  const auto seconds = [&](double times) {
    return planner.step(inputs.compression, inputs.network, times * scale).seconds;
  };
  CHECK(seconds(1) < 1.021 * free);
  CHECK(seconds(1.3) > 1.021 * free);
  CHECK(hidden.latency_seconds == 0);
  CHECK(planner.hidden_cost(network_of(1e12, 0)).proposal.starts_with("codec none"));
  CHECK(planner.hidden_cost(network_of(1e2, 0)).proposal.starts_with("none: not even"));
  CHECK(planner.hidden_cost(network_of(1e12, 0.05)).latency_seconds > 0.1);
}

TEST_CASE("a plan names what limits the step") {
  PlanInputs inputs = sample_inputs();
  CHECK(limit_of(inputs) == "compute");
  inputs.network = network_of(1e5, 0);
  CHECK(limit_of(inputs) == "uplink and downlink alike");
  inputs.network = network_of(1e9, 0);
  inputs.network.ranks = {{.rank = 2, .up = 1e5, .down = {}}};
  CHECK(limit_of(inputs) == "uplink");
  inputs.network.ranks = {{.rank = 2, .up = {}, .down = 1e5}};
  CHECK(limit_of(inputs) == "downlink");
  inputs.network = network_of(1e9, 0.5);
  CHECK(limit_of(inputs) == "latency");
  inputs.device.memory_bytes = 1e6;
  CHECK(limit_of(inputs) == "memory");
}

TEST_CASE("exchanges of weights show in a plan: each step, seldom, or beside the computation") {
  PlanInputs inputs = sample_inputs();
  inputs.network = network_of(2e7, 0);
  const auto plan_of = [&](sync::SyncMethod method, int64_t every, bool overlap) {
    inputs.weight_sync = {.method = method, .every = every, .overlap = overlap};
    return Planner(inputs).step(inputs.compression, inputs.network);
  };
  const StepPlan reduced = plan_of(sync::SyncMethod::all_reduce, 1, false);
  const StepPlan averaged = plan_of(sync::SyncMethod::average, 4, false);
  const StepPlan overlapped = plan_of(sync::SyncMethod::average, 4, true);
  CHECK(reduced.bytes[2] == 4 * averaged.bytes[2]);
  const double exchange = static_cast<double>(reduced.bytes[2]) / 4 * 8 / 0.95 / 2e7;
  CHECK(reduced.seconds - averaged.seconds == Approx(0.75 * exchange).epsilon(0.1));
  CHECK(overlapped.seconds < averaged.seconds);
  CHECK(overlapped.seconds > 0.9 * exchange / 4);
}

TEST_CASE("a plan's grid of bandwidths holds both ends and 1, 3, 10 between") {
  CHECK(bandwidth_grid(3e7, 1e9) == std::vector<double>{3e7, 1e8, 3e8, 1e9});
  CHECK(bandwidth_grid(5e6, 2e7) == std::vector<double>{5e6, 1e7, 2e7});
  CHECK(bandwidth_grid(5e6, 5e6) == std::vector<double>{5e6});
}

TEST_CASE("plans refuse devices and meshes that there are not") {
  CHECK_THROWS_AS(device_profile("v100", 2), Error);
  CHECK(device_profile("h100", 2).peak_flops > 9e14);
  PlanInputs inputs = sample_inputs();
  inputs.num_ranks = 65;
  CHECK_THROWS_AS(Planner(inputs), Error);
  inputs.num_ranks = 3;
  CHECK_THROWS_AS(Planner(inputs), Error);  // 4096 tokens in 6 chunks
}
