#include "subring/train/metrics.hpp"

#include <filesystem>
#include <iterator>

#include "subring/core/error.hpp"
#include "support/catch.hpp"
#include "support/temporary_directory.hpp"

using namespace subring;
using namespace subring::train;
using subring::test::TemporaryDirectory;

namespace {

/// Content of the only event file in `directory`; "" when there is none.
std::string read_events(const std::filesystem::path& directory) {
  std::string content;
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().filename().string().find("events.out.tfevents.") != 0) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(file), {});
    ++num_files;
  }
  CHECK(num_files <= 1);
  return content;
}

}  // namespace

TEST_CASE("event files are written beside metrics.jsonl where they are asked for") {
  const TemporaryDirectory temporary;
  const std::filesystem::path directory = temporary / "run";
  const bool asked_for = GENERATE(false, true);
  MetricsWriter writer(directory, {.tensorboard = asked_for});
  writer.write(StepMetrics{.step = 7, .loss = 1.5, .step_seconds = 2, .phase = "compressed"});
  writer.write(EvalMetrics{.step = 7, .val_loss = 2.5, .phase = "compressed"});
  const std::string events = read_events(directory);
  CHECK(events.empty() == !asked_for);
  for (const std::string tag : {"train/loss",
                                "train/lr",
                                "train/grad_norm",
                                "speed/step_seconds",
                                "speed/tokens_per_second",
                                "speed/wait_share",
                                "bytes/kv_forward",
                                "bytes/kv_backward",
                                "bytes/weights",
                                "bytes/other",
                                "bytes/kv_uncompressed",
                                "eval/val_loss"}) {
    CAPTURE(tag);
    CHECK((events.find(tag) != std::string::npos) == asked_for);
  }
}

TEST_CASE("a directory that holds a run is refused") {
  const TemporaryDirectory temporary;
  const std::filesystem::path directory = temporary / "run";
  const MetricsWriter first(directory, {});
  try {
    MetricsWriter second(directory, {.tensorboard = true});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    CHECK(std::string(error.what()).find("metrics.jsonl exists") != std::string::npos);
  }
  CHECK(read_events(directory).empty());
}
