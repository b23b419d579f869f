#include "subring/report/run_log.hpp"

#include "report/sample_run.hpp"
#include "support/catch.hpp"

using namespace subring;
using namespace subring::report;
using namespace subring::test;

namespace {

std::string message_of(const std::filesystem::path& directory) {
  try {
    read_run(directory);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::data);
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a run is read from its metrics") {
  const SampleRun files("good",
                        {run_line("subspace", 3),
                         step_line(1, 5, "warm_start", 250),
                         spectrum_line(2, 1, "k"),
                         step_line(2, 4, "compressed", 20),
                         eval_line(2, 4.5)});
  const RunLog run = read_run(files.directory());
  CHECK(run.name == "good");
  CHECK(run.settings.at("compression.codec") == "subspace");
  CHECK(run.settings.at("training.steps") == "3");
  CHECK(run.settings.at("mesh.ranks") == "4");
  REQUIRE(run.steps.size() == 2);
  CHECK(run.steps[1].loss == 4);
  CHECK(run.steps[1].grad_norm == 2.5);
  CHECK(run.steps[1].tokens == 10);
  CHECK(run.steps[0].bytes.all() == 503);
  REQUIRE(run.evals.size() == 1);
  CHECK(run.evals[0].val_loss == 4.5);
  REQUIRE(run.spectra.size() == 1);
  CHECK(run.spectra[0].tensor == "k");
  CHECK(run.spectra[0].components_99 == 4);
}

TEST_CASE("what is no run is named") {
  CHECK(contains(message_of("/nowhere"), "/nowhere/metrics.jsonl"));
  const std::string run = run_line("none", 1);
  const SampleRun broken("broken", {run, "{\"step\": 1,", step_line(2, 1, "compressed", 1)});
  CHECK(contains(message_of(broken.directory()), "metrics.jsonl:2"));
  const SampleRun number("number", {"5"});
  CHECK(contains(message_of(number.directory()), "metrics.jsonl:1"));
  const SampleRun fields("fields", {run, "{\"step\": 1}"});
  CHECK(contains(message_of(fields.directory()), "metrics.jsonl:2"));
  const SampleRun empty("empty", {run});
  CHECK(contains(message_of(empty.directory()), "no training step"));
}

TEST_CASE("a run that is writing its last line can be read") {
  const SampleRun files("live", {run_line("none", 9), step_line(1, 5, "uncompressed", 1)});
  std::ofstream(files.directory() / "metrics.jsonl", std::ios::app) << "{\"step\": 2, \"lo";
  CHECK(read_run(files.directory()).steps.size() == 1);
}

TEST_CASE("equal names of runs are told apart by their parents") {
  const std::string step = step_line(1, 5, "uncompressed", 1);
  const SampleRun files("slow/seed1", {step});
  const auto parent = files.directory().parent_path().parent_path();
  for (const char* other : {"fast/seed1", "fast/seed2"}) {
    std::filesystem::create_directories(parent / other);
    std::ofstream(parent / other / "metrics.jsonl") << step << '\n';
  }
  const std::vector<std::string> directories = {(parent / "slow/seed1").string(),
                                                (parent / "fast/seed1/").string(),
                                                (parent / "fast/seed2").string(),
                                                (parent / "fast/../fast/seed2").string()};
  std::vector<std::string> names;
  for (const RunLog& run : read_runs(directories)) names.push_back(run.name);
  CHECK(names == std::vector<std::string>{"slow/seed1", "fast/seed1", "seed2", "seed2 (2)"});
}
