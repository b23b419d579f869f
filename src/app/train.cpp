#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "commands.hpp"
#include "subring/config/config.hpp"
#include "subring/train/launch.hpp"

namespace subring::app {
namespace {

struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string out;
  int local_ranks = 0;
  bool dry_run = false;
};

void train(const TrainArguments& arguments) {
  const config::Config config = config::load_config(arguments.config, arguments.overrides);
  train::LaunchOptions options;
  options.run_directory = arguments.out.empty() ? std::filesystem::path("runs") /
                                                      std::filesystem::path(arguments.config).stem()
                                                : std::filesystem::path(arguments.out);
  options.local_ranks = arguments.local_ranks;
  options.mode = arguments.dry_run ? train::LaunchMode::dry_run : train::LaunchMode::train;
  train::launch(config, options);
}

}  // namespace

void add_train_command(CLI::App& program) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = program.add_subcommand(
      "train", "Train a model; under mpirun or srun one rank a process, else see --local-ranks");
  command->add_option("CONFIG", arguments->config, "YAML file (see configs/reference.yaml)")
      ->required();
  command->add_option("--set", arguments->overrides, "key.path=value; changes one key, repeatable")
      ->allow_extra_args(false);
  command->add_option("--out", arguments->out, "run directory (default runs/<name of CONFIG>)");
  command->add_option("--local-ranks", arguments->local_ranks, "ranks as threads of this process")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--dry-run",
                    arguments->dry_run,
                    "check everything and print sizes and memory; train nothing");
  command->callback([arguments] { train(*arguments); });
}

}  // namespace subring::app
