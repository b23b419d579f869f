#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "subring/train/metrics.hpp"

namespace spdlog {
class logger;
}

namespace subring::train {

/// What a person sees of a run on stderr. Only rank 0 shows progress; warnings come from all ranks.
/// On a terminal one live line (step, loss, tokens/s, share of waiting, time left); elsewhere a
/// plain line every `log_interval` steps.
class Progress {
 public:
  Progress(int rank, int64_t num_steps, int64_t log_interval);
  ~Progress();

  void info(const std::string& line);
  void warn(const std::string& line);
  void step(const StepMetrics& metrics);
  void eval(const EvalMetrics& metrics);

 private:
  std::string describe(const StepMetrics& metrics) const;
  void end_live_line();

  bool shown_;
  bool terminal_;
  bool live_line_ = false;
  int64_t num_steps_;
  int64_t log_interval_;
  std::chrono::steady_clock::time_point start_;
  std::shared_ptr<spdlog::logger> log_;
};

/// Seconds as people say them: "42s", "3m20s", "5h07m".
std::string format_duration(double seconds);

}  // namespace subring::train
