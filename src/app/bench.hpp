#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "subring/backend/backend.hpp"

namespace subring::bench {

/// A float tensor with its own host memory, filled with small values that are no denormals.
struct Buffer {
  std::vector<float> values;
  Shape shape;

  explicit Buffer(Shape extents);
  operator View() { return {values.data(), DType::f32, shape}; }
  operator ConstView() const { return {values.data(), DType::f32, shape}; }
};

/// Wall time, or the processor time of this process: that of one thread on a machine that others
/// use too, where wall time says more about them.
enum class Clock { wall, processor };

/// What every bench runs on.
struct Session {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Stream> stream;
  int repetitions = 7;
  Clock clock = Clock::wall;
};

/// Median seconds of `body` and of `ceiling`, run in turn, so that both see the same machine.
struct Timing {
  double seconds = 0;
  double ceiling_seconds = 0;
};
Timing time_against(const Session& session,
                    const std::function<void()>& ceiling,
                    const std::function<void()>& body);

/// The ceilings: a matrix product 2048 x 2048 x 512, and a copy of memory larger than any cache.
class Ceilings {
 public:
  explicit Ceilings(Session& session);
  void product();
  void copy();
  static constexpr double kProductFlops = 2.0 * 2048 * 2048 * 512;
  double copy_bytes() const;

 private:
  Session& session_;
  Buffer a_, b_, c_;
  Buffer from_, to_;
};

/// Prints one row: what ran, milliseconds, rate and percent of the ceiling in the same run.
void print_header(const Session& session);
void print_flops(const std::string& what, double flops, const Timing& timing);
void print_bytes(const std::string& what, double bytes, const Timing& timing, double ceiling_bytes);

/// Each adds one subcommand.
void add_gemm_bench(CLI::App& program, Session& session);
void add_attention_bench(CLI::App& program, Session& session);
void add_ops_bench(CLI::App& program, Session& session);
void add_frames_bench(CLI::App& program, Session& session);
void add_step_bench(CLI::App& program, Session& session);

}  // namespace subring::bench
