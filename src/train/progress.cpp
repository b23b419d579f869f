#include "subring/train/progress.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace subring::train {

std::string format_duration(double seconds) {
  const auto total = static_cast<int64_t>(seconds + 0.5);
  if (total < 60) return fmt::format("{}s", total);
  if (total < 3600) return fmt::format("{}m{:02}s", total / 60, total % 60);
  return fmt::format("{}h{:02}m", total / 3600, total / 60 % 60);
}

namespace {

int terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(int rank, int64_t num_steps, int64_t log_interval)
    : shown_(rank == 0),
      terminal_(isatty(STDERR_FILENO) != 0),
      num_steps_(num_steps),
      log_interval_(log_interval),
      start_(std::chrono::steady_clock::now()) {
  log_ = std::make_shared<spdlog::logger>(fmt::format("rank {}", rank),
                                          std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log_->set_pattern("[%H:%M:%S] [%n] %v");
}

Progress::~Progress() { end_live_line(); }

void Progress::end_live_line() {
  if (!live_line_) return;
  std::fputc('\n', stderr);
  live_line_ = false;
}

void Progress::info(const std::string& line) {
  if (!shown_) return;
  end_live_line();
  log_->info(line);
}

void Progress::warn(const std::string& line) {
  end_live_line();
  log_->warn("warning: {}", line);
}

std::string Progress::describe(const StepMetrics& m) const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  const double left =
      elapsed.count() / static_cast<double>(m.step) * static_cast<double>(num_steps_ - m.step);
  return fmt::format("step {}/{}  loss {:.4f}  {:.0f} tok/s  wait {:.0f}%  {}  ETA {}",
                     m.step,
                     num_steps_,
                     m.loss,
                     m.tokens_per_second(),
                     100 * m.wait_seconds / m.step_seconds,
                     m.phase,
                     format_duration(left));
}

void Progress::step(const StepMetrics& m) {
  if (!shown_) return;
  if (terminal_) {
    // One row: what wraps cannot be replaced.
    fmt::print(stderr, "\r\033[K{:.{}}", describe(m), terminal_columns() - 1);
    std::fflush(stderr);
    live_line_ = true;
    return;
  }
  if (m.step % log_interval_ == 0 || m.step == num_steps_ || m.step == 1) log_->info(describe(m));
}

void Progress::eval(const EvalMetrics& m) {
  info(fmt::format("step {}  validation loss {:.4f} over {} tokens ({})",
                   m.step,
                   m.val_loss,
                   m.val_tokens,
                   m.phase));
}

}  // namespace subring::train
