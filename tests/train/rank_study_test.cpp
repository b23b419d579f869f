// metrics.spectra_interval within training.

#include <filesystem>
#include <fstream>
#include <string>

#include "subring/report/run_log.hpp"
#include "subring/train/trainer.hpp"
#include "subring/wire/local.hpp"
#include "support/catch.hpp"
#include "support/temporary_directory.hpp"
#include "train/tiny_run.hpp"

using namespace subring;
using namespace subring::test;

TEST_CASE("the rank study writes its lines, and changes neither training nor its bytes") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.training.steps = 6;
  config.model.activation_recomputation = GENERATE(false, true);
  config.weight_sync.method = sync::SyncMethod::average;
  config.weight_sync.every = 2;
  config.weight_sync.overlap = true;
  const RunResult without = run_steps(config, 4, 6);
  config.metrics.spectra_interval = 3;  // the second is of the compressed phase
  const RunResult with = run_steps(config, 4, 6);
  CHECK(with.weights == without.weights);
  constexpr auto kOther = static_cast<size_t>(wire::TrafficKind::other);
  for (size_t i = 0; i < without.steps.size(); ++i) {
    CAPTURE(i);
    CHECK(with.steps[i].loss == without.steps[i].loss);
    CHECK(with.steps[i].bytes[kOther] == without.steps[i].bytes[kOther]);
  }

  const TemporaryDirectory directory;
  wire::run_local_ranks(4, [&](wire::Transport& transport) {
    train::Trainer(config, transport, directory.path()).run();
  });
  std::ifstream file(directory / "metrics.jsonl");
  std::string line;
  int num_lines = 0, num_queries = 0, num_of_step_6 = 0;
  while (std::getline(file, line)) {
    if (line.find("{\"spectrum\":") != 0) continue;
    ++num_lines;
    num_queries += line.find("\"tensor\":\"q\"") != std::string::npos;
    num_of_step_6 += line.find("\"step\":6,") != std::string::npos;
    CHECK(line.find("\"stable_rank\":") != std::string::npos);
    CHECK(line.find("\"components_95\":") != std::string::npos);
    CHECK(line.find("\"energy\":[") != std::string::npos);
  }
  CHECK(num_lines == 2 * 2 * 3);
  CHECK(num_queries == 2 * 2);
  CHECK(num_of_step_6 == 2 * 3);
  CHECK(report::read_run(directory.path()).steps.size() == 6);
}
