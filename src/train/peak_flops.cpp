#include "subring/train/peak_flops.hpp"

#include <algorithm>
#include <chrono>

#include "subring/core/arena.hpp"

namespace subring::train {

double measure_peak_flops(Backend& backend, Stream& stream) {
  constexpr int64_t kRows = 2048, kColumns = 2048, kDepth = 512;
  constexpr int kRepeats = 5;
  View a, b, c;
  const auto arena = make_arena("peak flops", backend.memory(), [&](Arena& scratch) {
    a = scratch.allocate("a", DType::f32, {kRows, kDepth});
    b = scratch.allocate("b", DType::f32, {kDepth, kColumns});
    c = scratch.allocate("c", DType::f32, {kRows, kColumns});
  });
  backend.fill(a, 0.5F, stream);
  backend.fill(b, 0.25F, stream);
  double best_seconds = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    backend.matmul(a, Transpose::no, b, Transpose::no, c, Write::overwrite, stream);
    stream.synchronize();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best_seconds = std::min(best_seconds, elapsed.count());
  }
  return 2.0 * kRows * kColumns * kDepth / best_seconds;
}

}  // namespace subring::train
