#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>

#include "cost_backend.hpp"
#include "subring/core/arena.hpp"
#include "subring/core/threads.hpp"

namespace subring::report {
namespace {

using Clock = std::chrono::steady_clock;

/// Address space of which only touched pages take memory.
class ReservedMemory : public std::pmr::memory_resource {
 public:
  explicit ReservedMemory(int protection) : protection_(protection) {}

 private:
  void* do_allocate(size_t bytes, size_t) override {
    void* memory =
        mmap(nullptr, bytes, protection_, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
  }
  void do_deallocate(void* memory, size_t bytes, size_t) override { munmap(memory, bytes); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  int protection_;
};

/// Numbers in (0.5, 1), so that timed operations meet neither zeros nor pages without memory.
void fill_with_numbers(const ConstView& view) {
  if (view.dtype != DType::f32 || view.data == nullptr) return;
  auto* values = static_cast<float*>(const_cast<void*>(view.data));
  uint32_t state = 1;
  for (int64_t i = 0; i < view.num_elements(); ++i) {
    state = state * 1664525U + 1013904223U;
    values[i] = 0.5F + static_cast<float>(state >> 8) * 0x1p-25F;
  }
}

void multiply_until(const std::atomic<bool>& ended, const BackendOptions& options, int num_ranks) {
  constexpr int64_t kRows = 1024, kWidth = 256;
  const auto backend = make_backend(options, num_ranks);
  const auto stream = backend->make_stream();
  View a, b, c;
  const auto arena = make_arena("neighbour", backend->memory(), [&](Arena& scratch) {
    a = scratch.allocate("a", DType::f32, {kRows, kWidth});
    b = scratch.allocate("b", DType::f32, {kWidth, kRows});
    c = scratch.allocate("c", DType::f32, {kRows, kRows});
  });
  fill_with_numbers(a);
  fill_with_numbers(b);
  while (!ended) {
    backend->matmul(a, Transpose::no, b, Transpose::no, c, Write::overwrite, *stream);
  }
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

OperationCosts::OperationCosts(const DeviceProfile& device,
                               const BackendOptions& backend,
                               int num_ranks)
    : device_(device) {
  memory_ =
      std::make_unique<ReservedMemory>(device.measured() ? PROT_READ | PROT_WRITE : PROT_NONE);
  if (!device.measured()) return;
  real_ = make_backend(backend, num_ranks);
  stream_ = real_->make_stream();
  const int cores = available_cores();
  const int threads =
      backend.threads > 0 ? static_cast<int>(backend.threads) : std::max(1, cores / num_ranks);
  oversubscription_ = std::max(1.0, static_cast<double>(num_ranks) * threads / cores);
  const int at_once = std::min(num_ranks, std::max(1, cores / threads));
  for (int i = 1; i < at_once; ++i) {
    neighbours_.emplace_back([=, this] { multiply_until(ended_, backend, num_ranks); });
  }
}

OperationCosts::~OperationCosts() { end_neighbours(); }

void OperationCosts::end_neighbours() {
  ended_ = true;
  for (std::thread& neighbour : neighbours_) neighbour.join();
  neighbours_.clear();
}

double OperationCosts::seconds(const Operation& operation) {
  if (!device_.measured()) return from_profile(operation);
  std::string key = operation.name;
  for (const ConstView& view : operation.views) key += view.shape.to_string();
  const auto [found, is_new] = known_.try_emplace(std::move(key), 0);
  if (is_new) found->second = measure(operation) * oversubscription_;
  return found->second;
}

double OperationCosts::from_profile(const Operation& operation) const {
  double bytes = 0;
  for (const ConstView& view : operation.views) {
    bytes += static_cast<double>(view.num_elements()) * (view.dtype == DType::f32 ? 2 : 1);
  }
  return std::max(operation.flops / (device_.peak_flops * device_.utilization),
                  bytes / (device_.memory_bytes_per_second * device_.memory_utilization)) +
         device_.operation_seconds;
}

/// Median of some runs; what takes long is run once.
double OperationCosts::measure(const Operation& operation) {
  constexpr double kLongSeconds = 0.2, kSecondsOfEach = 0.04;
  for (const ConstView& view : operation.views) fill_with_numbers(view);
  const auto once = [&] { return seconds_of([&] { operation.run(*real_, *stream_); }); };
  const double first = once();
  if (first > kLongSeconds) return first;
  std::vector<double> runs(static_cast<size_t>(std::clamp(kSecondsOfEach / first, 3.0, 50.0)));
  for (double& run : runs) run = once();
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
  std::nth_element(runs.begin(), middle, runs.end());
  return *middle;
}

}  // namespace subring::report
