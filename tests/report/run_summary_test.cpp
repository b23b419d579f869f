#include "subring/report/run_summary.hpp"

#include <cmath>
#include <fstream>

#include "subring/core/error.hpp"
#include "support/catch.hpp"

using namespace subring;
using namespace subring::report;

namespace {

const std::string kRun = R"({"run":{"config":{"compression":{"codec":"subspace"}}}})";

std::string step_line(int step, double loss, const std::string& phase, int64_t kv) {
  return fmt::format(R"({{"step":{},"loss":{},"tokens_per_second":{},"step_seconds":2.0,)"
                     R"("wait_seconds":0.5,"phase":"{}","bytes":{{"kv_forward":{},)"
                     R"("kv_backward":{},"weights":1,"other":2,"kv_uncompressed":1000}}}})",
                     step,
                     loss,
                     100 * step,
                     phase,
                     kv,
                     kv);
}

/// A run's directory with these lines.
std::filesystem::path write_run(const std::string& name, const std::vector<std::string>& lines) {
  const auto directory = std::filesystem::temp_directory_path() / ("subring_summary_" + name);
  std::filesystem::create_directories(directory);
  std::ofstream file(directory / "metrics.jsonl");
  for (const std::string& line : lines) file << line << '\n';
  return directory;
}

}  // namespace

TEST_CASE("a run is summed up from its metrics") {
  const auto directory =
      write_run("good",
                {kRun,
                 step_line(1, 5, "warm_start", 250),
                 step_line(2, 4, "compressed", 10),
                 R"({"step":2,"val_loss":4.5,"val_tokens":10,"phase":"compressed"})",
                 R"({"spectrum":{"step":3,"layer":0,"tensor":"q","width":8}})",
                 step_line(3, 3, "compressed", 20),
                 R"({"step":3,"val_loss":3.5,"val_tokens":10,"phase":"compressed"})"});
  const RunSummary run = summarize_run(directory);
  CHECK(run.name == "subring_summary_good");
  CHECK(run.codec == "subspace");
  CHECK(run.steps == 3);
  CHECK(run.train_loss == 3);
  CHECK(run.val_loss == 3.5);
  CHECK(run.tokens_per_second == 200);
  CHECK(run.wait_share == Approx(0.25));
  CHECK(run.kv_bytes == 560);
  CHECK(run.saved() == Approx(1 - 560.0 / 3000));
  CHECK(run.saved_in_last_phase() == Approx(1 - 60.0 / 2000));
  CHECK(summarize_run(directory / "").name == "subring_summary_good");
  CHECK(summary_table({run, run}).find("97.0%") != std::string::npos);
}

TEST_CASE("what is no run is named") {
  const auto message_of = [](const std::filesystem::path& directory) -> std::string {
    try {
      summarize_run(directory);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::data);
      return error.what();
    }
    return "no error";
  };
  CHECK(message_of("/nowhere").find("/nowhere/metrics.jsonl") != std::string::npos);
  CHECK(message_of(write_run("broken", {kRun, "{\"step\": 1,"})).find("metrics.jsonl:2") !=
        std::string::npos);
  CHECK(message_of(write_run("short", {"{\"step\": 1}"})).find("metrics.jsonl:1") !=
        std::string::npos);
  CHECK(message_of(write_run("empty", {kRun})).find("no training step") != std::string::npos);
}
