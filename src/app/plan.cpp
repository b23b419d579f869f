#include "subring/report/plan.hpp"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "commands.hpp"
#include "subring/config/config.hpp"
#include "subring/core/error.hpp"
#include "subring/core/units.hpp"

namespace subring::app {
namespace {

struct PlanArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string device = "cpu";
  std::string sweep;
  int num_ranks = 0;
};

/// Without --ranks as many as the degrees say.
int ranks_of(const config::Config& config, int num_ranks) {
  if (num_ranks > 0) return num_ranks;
  const mesh::ParallelismOptions& parallelism = config.parallelism;
  SUBRING_CHECK(parallelism.context_parallel_degree > 0,
                ErrorKind::config,
                "how many ranks? give --ranks, or parallelism.context_parallel_degree in the "
                "configuration");
  return static_cast<int>(parallelism.context_parallel_degree * parallelism.data_parallel_degree);
}

/// "network.bandwidth=30Mbps..100Gbps"
std::vector<double> parse_sweep(const std::string& text) {
  const std::string key = "network.bandwidth=";
  const size_t dots = text.find("..");
  if (text.starts_with(key) && dots != std::string::npos) {
    const auto first = parse_bandwidth(text.substr(key.size(), dots - key.size()));
    const auto last = parse_bandwidth(text.substr(dots + 2));
    if (first && last && *first <= *last) return report::bandwidth_grid(*first, *last);
  }
  throw Error(
      ErrorKind::config,
      fmt::format("--sweep is '{}', allowed: network.bandwidth=A..B with A up to B, such as "
                  "network.bandwidth=30Mbps..100Gbps",
                  text));
}

void plan(const PlanArguments& arguments) {
  const config::Config config = config::load_config(arguments.config, arguments.overrides);
  std::vector<double> bandwidths;
  if (!arguments.sweep.empty()) bandwidths = parse_sweep(arguments.sweep);
  const int num_ranks = ranks_of(config, arguments.num_ranks);
  config::check_config_for_ranks(config, num_ranks);
  report::Planner planner({.model = config.model,
                           .compression = config.compression,
                           .parallelism = config.parallelism,
                           .weight_sync = config.weight_sync,
                           .network = config.network,
                           .backend = config.backend,
                           .seq_len = config.data.seq_len,
                           .batch_size = config.data.batch_size,
                           .num_ranks = num_ranks,
                           .device = report::device_profile(arguments.device, num_ranks)});
  const std::string text =
      bandwidths.empty() ? report::plan_text(planner) : report::sweep_text(planner, bandwidths);
  std::fputs(text.c_str(), stdout);
}

}  // namespace

void add_plan_command(CLI::App& program) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = program.add_subcommand(
      "plan", "Predict seconds, bytes and memory of a step, and what limits it (docs/plan.md)");
  command->add_option("CONFIG", arguments->config, "YAML file (see configs/reference.yaml)")
      ->required();
  command->add_option("--set", arguments->overrides, "key.path=value; changes one key, repeatable")
      ->allow_extra_args(false);
  command->add_option("--ranks", arguments->num_ranks, "number of ranks")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--device",
                   arguments->device,
                   "what a rank computes on: cpu (timed on this machine), or the data sheet of a "
                   "GPU: a100, h100, h200, rtx4090")
      ->capture_default_str();
  command->add_option(
      "--sweep", arguments->sweep, "network.bandwidth=A..B: a table over a grid of link speeds");
  command->callback([arguments] { plan(*arguments); });
}

}  // namespace subring::app
