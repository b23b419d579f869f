#include <fmt/format.h>

#include <algorithm>

#include "subring/core/units.hpp"
#include "subring/report/plan.hpp"

namespace subring::report {
namespace {

using wire::TrafficKind;

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string device_text(const DeviceProfile& device) {
  if (device.measured()) return "cpu, " + device.source;
  return fmt::format(
      "{}, not measured: {:.0f} TFLOP/s bf16 and {:.0f} GB/s by its data sheet ({}), of which "
      "{:.0f} "
      "% and {:.0f} % are assumed, and {:.0f} us an operation; this program has no GPU backend yet",
      device.name,
      device.peak_flops / 1e12,
      device.memory_bytes_per_second / 1e9,
      device.source,
      100 * device.utilization,
      100 * device.memory_utilization,
      1e6 * device.operation_seconds);
}

double tokens_per_second(const PlanInputs& inputs, const StepPlan& plan) {
  return static_cast<double>(inputs.batch_size * inputs.seq_len) / plan.seconds;
}

int64_t bytes_of(const StepPlan& plan, TrafficKind kind) {
  return plan.bytes[static_cast<size_t>(kind)];
}

int64_t kv_bytes(const StepPlan& plan) {
  return bytes_of(plan, TrafficKind::kv_forward) + bytes_of(plan, TrafficKind::kv_backward);
}

/// Memory under the heads that people ask for.
std::map<std::string, int64_t> memory_groups(const StepPlan& plan) {
  const std::map<std::string, std::string> group_of = {{"weights", "weights"},
                                                       {"gradients", "gradients"},
                                                       {"first moments", "moments"},
                                                       {"second moments", "moments"},
                                                       {"kv blocks", "wire slots"},
                                                       {"gradient blocks", "wire slots"},
                                                       {"weight sync", "weight sync"}};
  std::map<std::string, int64_t> groups;
  for (const auto& [name, bytes] : plan.memory) {
    const auto group = group_of.find(name);
    groups[group == group_of.end() ? "activations" : group->second] += bytes;
  }
  return groups;
}

class Table {
 public:
  explicit Table(std::string& text) : text_(text) {}

  template <typename Number>
  void row(std::string_view name, std::string_view format, Number own, Number plain) {
    text_ += fmt::format("{:<26}{:>16}{:>16}",
                         name,
                         fmt::format(fmt::runtime(format), own),
                         fmt::format(fmt::runtime(format), plain));
    const auto a = static_cast<double>(own), b = static_cast<double>(plain);
    text_ += b != 0 ? fmt::format("{:>9.3f}\n", a / b) : "\n";
  }

 private:
  std::string& text_;
};

}  // namespace

std::string plan_text(Planner& planner) {
  const PlanInputs& inputs = planner.inputs();
  const StepPlan own = planner.step(inputs.compression, inputs.network);
  const StepPlan plain = planner.step(planner.uncompressed(), inputs.network);
  planner.end_measuring();

  std::string text = fmt::format("device: {}\nnetwork: {}\nranks: {}\n\n",
                                 device_text(inputs.device),
                                 inputs.network.emulated()
                                     ? wire::describe(inputs.network)
                                     : "unlimited (set network.bandwidth and network.latency)",
                                 inputs.num_ranks);
  text += fmt::format("{:<26}{:>16}{:>16}{:>9}\n",
                      "a step",
                      to_string(inputs.compression.codec),
                      "none, bf16",
                      "ratio");
  Table table(text);
  table.row("seconds", "{:.4g}", own.seconds, plain.seconds);
  table.row("  compute, forward", "{:.4g}", own.forward_seconds, plain.forward_seconds);
  table.row("  compute, backward", "{:.4g}", own.backward_seconds, plain.backward_seconds);
  table.row("  compute, update", "{:.4g}", own.update_seconds, plain.update_seconds);
  table.row("  wait, forward", "{:.4g}", own.forward_wait, plain.forward_wait);
  table.row("  wait, backward", "{:.4g}", own.backward_wait, plain.backward_wait);
  table.row("  wait, weights", "{:.4g}", own.sync_wait, plain.sync_wait);
  table.row("tokens/s", "{:.0f}", tokens_per_second(inputs, own), tokens_per_second(inputs, plain));
  for (const auto kind : {TrafficKind::kv_forward,
                          TrafficKind::kv_backward,
                          TrafficKind::weights,
                          TrafficKind::other}) {
    static constexpr std::array<std::string_view, wire::kNumTrafficKinds> kNames = {
        "bytes kv_forward", "bytes kv_backward", "bytes weights", "bytes other"};
    table.row(kNames[static_cast<size_t>(kind)], "{}", bytes_of(own, kind), bytes_of(plain, kind));
  }
  const auto own_memory = memory_groups(own);
  auto plain_memory = memory_groups(plain);
  for (const auto& [name, bytes] : own_memory) {
    table.row("MiB " + name, "{:.1f}", mib(bytes), mib(plain_memory[name]));
  }
  table.row("MiB of rank 0", "{:.1f}", mib(own.memory_bytes()), mib(plain.memory_bytes()));
  text += fmt::format("\nlimit: {} ({} has {:.0f} MiB a rank)\n",
                      planner.limit(own),
                      inputs.device.name,
                      inputs.device.memory_bytes / (1 << 20));
  if (inputs.num_ranks == 1 || kv_bytes(own) == 0) return text;
  const HiddenCost hidden = planner.hidden_cost(inputs.network);
  text += fmt::format(
      "K and V hide behind computation up to {:.0f} bits a token and layer (now {:.0f}, bf16 {})\n"
      "that is: {}\n",
      hidden.bits,
      8 * static_cast<double>(own.block_bytes) / static_cast<double>(own.chunk_tokens),
      32 * inputs.model.kv_width(),
      hidden.proposal);
  if (hidden.latency_seconds > 0.02 * own.compute_seconds()) {
    text += fmt::format("latency alone, which no codec hides, makes a step {:.3g} s longer\n",
                        hidden.latency_seconds);
  }
  return text;
}

std::string sweep_text(Planner& planner, const std::vector<double>& bandwidths) {
  const PlanInputs& inputs = planner.inputs();
  std::string text =
      fmt::format("device: {}\nranks: {}\n\n{:>10}{:>10}{:>7}{:>12}{:>7}{:>9}{:>12}  {}\n",
                  device_text(inputs.device),
                  inputs.num_ranks,
                  "bandwidth",
                  "seconds",
                  "wait",
                  "none, bf16",
                  "wait",
                  "speedup",
                  "hidden bits",
                  "what would hide");
  const auto wait_share = [](const StepPlan& plan) {
    return 100 * plan.wait_seconds() / plan.seconds;
  };
  for (const double bandwidth : bandwidths) {
    wire::NetworkOptions network = inputs.network;
    network.bandwidth = bandwidth;
    const StepPlan own = planner.step(inputs.compression, network);
    const StepPlan plain = planner.step(planner.uncompressed(), network);
    planner.end_measuring();
    const HiddenCost hidden = planner.hidden_cost(network);
    text += fmt::format("{:>10}{:>10.4g}{:>6.0f}%{:>12.4g}{:>6.0f}%{:>8.2f}x{:>12.0f}  {}\n",
                        format_bandwidth(bandwidth),
                        own.seconds,
                        wait_share(own),
                        plain.seconds,
                        wait_share(plain),
                        plain.seconds / own.seconds,
                        hidden.bits,
                        hidden.proposal);
  }
  text +=
      "hidden bits: the most that K and V of a token and layer may take for a step to be 2 % "
      "longer "
      "than with free K and V\n";
  return text;
}

}  // namespace subring::report
