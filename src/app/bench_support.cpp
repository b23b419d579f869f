#include <time.h>

#include <algorithm>
#include <cstdio>

#include "bench.hpp"

namespace subring::bench {
namespace {

double now_seconds(Clock clock) {
  timespec time{};
  clock_gettime(clock == Clock::wall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(Clock clock, const std::function<void()>& body) {
  const double start = now_seconds(clock);
  body();
  return now_seconds(clock) - start;
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

constexpr double kShortSeconds = 5e-3;
constexpr int64_t kCopyElements = int64_t{1} << 24;  // 64 MiB each way

}  // namespace

Buffer::Buffer(Shape extents)
    : values(static_cast<size_t>(extents.num_elements())), shape(extents) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (static_cast<float>((i * 2654435761U) % 1000U) - 499.5F) * 1e-3F;
  }
}

Timing time_against(const Session& session,
                    const std::function<void()>& ceiling,
                    const std::function<void()>& body) {
  ceiling();
  body();  // the first runs touch memory and build what is built once
  // Short bodies repeat for kShortSeconds, so that neither the clock nor the caches that the
  // ceiling left behind count.
  const double once = seconds_of(session.clock, body);
  const int count = 1 + static_cast<int>(std::min(1000.0, kShortSeconds / std::max(once, 1e-9)));
  const auto repeated = [&] {
    for (int i = 0; i < count; ++i) body();
  };
  std::vector<double> ceiling_seconds, seconds;
  for (int i = 0; i < session.repetitions; ++i) {
    ceiling_seconds.push_back(seconds_of(session.clock, ceiling));
    seconds.push_back(seconds_of(session.clock, repeated) / count);
  }
  return {median(seconds), median(ceiling_seconds)};
}

Ceilings::Ceilings(Session& session)
    : session_(session),
      a_({2048, 512}),
      b_({512, 2048}),
      c_({2048, 2048}),
      from_({kCopyElements}),
      to_({kCopyElements}) {}

void Ceilings::product() {
  session_.backend->matmul(
      a_, Transpose::no, b_, Transpose::no, c_, Write::overwrite, *session_.stream);
}

void Ceilings::copy() {
  // axpby with beta = 0 streams like a copy, over all threads.
  session_.backend->axpby(1, from_, 0, to_, *session_.stream);
}

double Ceilings::copy_bytes() const { return 2.0 * 4 * kCopyElements; }

void print_header(const Session& session) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a row appears when it is measured, in a pipe too
  std::printf("%s; median of %d, %s time\n",
              session.backend->description().c_str(),
              session.repetitions,
              session.clock == Clock::wall ? "wall" : "processor");
  std::printf("%-52s %10s %14s %10s %9s\n", "what", "ms", "rate", "ceiling", "percent");
}

void print_flops(const std::string& what, double flops, const Timing& timing) {
  const double rate = flops / timing.seconds * 1e-9;
  const double ceiling = Ceilings::kProductFlops / timing.ceiling_seconds * 1e-9;
  std::printf("%-52s %10.3f %7.1f GFLOP/s %9.1f %8.1f%%\n",
              what.c_str(),
              timing.seconds * 1e3,
              rate,
              ceiling,
              100 * rate / ceiling);
}

void print_bytes(const std::string& what,
                 double bytes,
                 const Timing& timing,
                 double ceiling_bytes) {
  const double rate = bytes / timing.seconds * 1e-9;
  const double ceiling = ceiling_bytes / timing.ceiling_seconds * 1e-9;
  std::printf("%-52s %10.3f %9.1f GB/s %9.1f %8.1f%%\n",
              what.c_str(),
              timing.seconds * 1e3,
              rate,
              ceiling,
              100 * rate / ceiling);
}

}  // namespace subring::bench
