// metrics.trace within training.

#include "subring/train/trace_file.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "subring/train/trainer.hpp"
#include "subring/wire/local.hpp"
#include "support/catch.hpp"
#include "support/temporary_directory.hpp"
#include "train/tiny_run.hpp"

using namespace subring;
using namespace subring::test;

namespace {

nlohmann::json trace_of_run(const config::Config& config, int num_ranks) {
  const TemporaryDirectory directory;
  wire::run_local_ranks(num_ranks, [&](wire::Transport& transport) {
    train::Trainer(config, transport, directory.path()).run();
  });
  std::ifstream file(directory / "trace.json");
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("trace.json holds the last steps of every rank: computation nested, transfers paired") {
  const TinyData data;
  config::Config config = tiny_config(data);
  config.training.steps = 6;
  config.metrics.trace = true;
  config.metrics.trace_steps = 2;
  const nlohmann::json trace = trace_of_run(config, 4);

  std::map<int, int> steps_of_rank;
  std::map<int, std::pair<double, double>> last_step_of_rank;
  std::set<std::string> names;
  std::map<std::pair<int, std::string>, double> begun;
  int num_transfers = 0;
  for (const auto& event : trace.at("traceEvents")) {
    const int rank = event.at("pid");
    const std::string name = event.at("name"), kind = event.at("ph");
    names.insert(name);
    if (kind == "X" && name == "step") {
      ++steps_of_rank[rank];
      const double start = event.at("ts"), length = event.at("dur");
      last_step_of_rank[rank] = {start, start + length};
    }
    if (kind == "X") CHECK(event.at("dur").get<double>() >= 0);
    if (kind == "b") {
      CHECK(event.at("args").at("bytes").get<int64_t>() > 0);
      CHECK(event.at("args").at("peer").get<int>() != rank);
      begun[{rank, event.at("id2").at("local")}] = event.at("ts");
    }
    if (kind == "e") {
      ++num_transfers;
      const auto begin = begun.find({rank, event.at("id2").at("local")});
      REQUIRE(begin != begun.end());
      CHECK(event.at("ts").get<double>() >= begin->second);
      begun.erase(begin);
    }
  }
  CHECK(begun.empty());
  CHECK(num_transfers > 0);
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(steps_of_rank[rank] == 2);
    // One clock: the last steps of all ranks overlap.
    CHECK(last_step_of_rank[rank].first < last_step_of_rank[0].second);
    CHECK(last_step_of_rank[rank].second > last_step_of_rank[0].first);
  }
  for (const char* name : {"encode",
                           "attend block",
                           "attend block backward",
                           "output, MLP",
                           "update",
                           "send kv block",
                           "receive kv gradient"}) {
    CAPTURE(name);
    CHECK(names.count(name) == 1);
  }
}
