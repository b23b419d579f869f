#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "subring/core/error.hpp"

namespace subring::test {

/// Lines of metrics.jsonl with the fields that train::MetricsWriter writes.
inline std::string run_line(const std::string& codec, int planned_steps) {
  return fmt::format(R"({{"run":{{"version":"1","config":{{"compression":{{"codec":"{}"}},)"
                     R"("training":{{"steps":{}}}}},"mesh":{{"ranks":4}},"peak_flops":{}}}}})",
                     codec,
                     planned_steps,
                     planned_steps);
}

/// 10 tokens in 2 s, half a second of them waiting; `kv` bytes each way, 1 of weights, 2 of other.
inline std::string step_line(int step, double loss, const std::string& phase, int64_t kv) {
  return fmt::format(R"({{"step":{0},"loss":{1},"lr":0.5,"grad_norm":{0}.5,"tokens":10,)"
                     R"("tokens_per_second":{2},"step_seconds":2.0,"wait_seconds":0.5,)"
                     R"("phase":"{3}","bytes":{{"kv_forward":{4},"kv_backward":{4},"weights":1,)"
                     R"("other":2,"kv_uncompressed":1000}}}})",
                     step,
                     loss,
                     100 * step,
                     phase,
                     kv);
}

inline std::string eval_line(int step, double loss) {
  return fmt::format(
      R"({{"step":{},"val_loss":{},"val_tokens":10,"kv_bytes":5,"phase":"compressed"}})",
      step,
      loss);
}

inline std::string spectrum_line(int step, int layer, const std::string& tensor) {
  return fmt::format(R"({{"spectrum":{{"step":{},"layer":{},"tensor":"{}","width":8,)"
                     R"("stable_rank":1.5,"components_90":2,"components_95":3,"components_99":4,)"
                     R"("components":[1,8],"energy":[0.5,1.0]}}}})",
                     step,
                     layer,
                     tensor);
}

/// A run's directory with these lines, for as long as it lives.
class SampleRun {
 public:
  SampleRun(const std::string& name, const std::vector<std::string>& lines) {
    std::string parent = (std::filesystem::temp_directory_path() / "subring_run_XXXXXX").string();
    SUBRING_CHECK(mkdtemp(parent.data()) != nullptr, ErrorKind::io, "mkdtemp {} failed", parent);
    parent_ = parent;
    std::filesystem::create_directories(directory_ = parent_ / name);
    std::ofstream file(directory_ / "metrics.jsonl");
    for (const std::string& line : lines) file << line << '\n';
  }
  ~SampleRun() {
    std::error_code ignored;
    std::filesystem::remove_all(parent_, ignored);
  }
  SampleRun(const SampleRun&) = delete;
  SampleRun& operator=(const SampleRun&) = delete;

  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path parent_;
  std::filesystem::path directory_;
};

}  // namespace subring::test
