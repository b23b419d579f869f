#include "subring/report/run_summary.hpp"

#include <cmath>

#include "report/sample_run.hpp"
#include "support/catch.hpp"

using namespace subring;
using namespace subring::report;
using namespace subring::test;

TEST_CASE("a run is summed up from its metrics") {
  const SampleRun files("good",
                        {run_line("subspace", 3),
                         step_line(1, 5, "warm_start", 250),
                         step_line(2, 4, "compressed", 10),
                         R"({"step":2,"val_loss":4.5,"val_tokens":10,"phase":"compressed"})",
                         spectrum_line(3, 0, "q"),
                         step_line(3, 3, "compressed", 20),
                         R"({"step":3,"val_loss":3.5,"val_tokens":10,"phase":"compressed"})"});
  const RunSummary run = summarize(read_run(files.directory()));
  CHECK(run.name == "good");
  CHECK(run.codec == "subspace");
  CHECK(run.steps == 3);
  CHECK(run.train_loss == 3);
  CHECK(run.val_loss == 3.5);
  CHECK(run.tokens_per_second == 200);
  CHECK(run.wait_share == Approx(0.25));
  CHECK(run.bytes.kv() == 560);
  CHECK(run.saved() == Approx(1 - 560.0 / 3000));
  CHECK(run.saved_in_last_phase() == Approx(1 - 60.0 / 2000));
  CHECK(summary_table({run, run}).find("97.0%") != std::string::npos);
}
