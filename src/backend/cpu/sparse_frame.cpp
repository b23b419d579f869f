#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels.hpp"
#include "simd_targets.hpp"
#include "subring/core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/sparse_frame.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace subring::cpu::HWY_NAMESPACE {

/// |x| as an integer: sorts like the magnitude, NaN above infinity.
HWY_INLINE int32_t magnitude_bits(float x) { return std::bit_cast<int32_t>(x) & 0x7fffffff; }

/// A loop that the compiler turns into vectors of each target.
int32_t count_at_least(int64_t width, const float* x, int32_t threshold) {
  int32_t count = 0;
  for (int64_t j = 0; j < width; ++j) count += magnitude_bits(x[j]) >= threshold ? 1 : 0;
  return count;
}

/// The `kept` largest magnitudes of a row; no scratch, 31 passes that find the kept-th of them bit
/// by bit, then one that counts and one that collects.
void select_largest(
    int64_t width, int64_t kept, const float* x, std::byte* columns, float* values) {
  int32_t threshold = 0;  // the largest with at least `kept` magnitudes at or above it
  for (int bit = 30; bit >= 0; --bit) {
    const int32_t candidate = threshold | (int32_t{1} << bit);
    if (count_at_least(width, x, candidate) >= kept) threshold = candidate;
  }
  const int32_t above = threshold == INT32_MAX ? 0 : count_at_least(width, x, threshold + 1);
  int64_t ties = kept - above;
  int64_t next = 0;
  for (int64_t j = 0; j < width && next < kept; ++j) {
    const int32_t bits = magnitude_bits(x[j]);
    if (bits < threshold || (bits == threshold && ties-- <= 0)) continue;
    const auto column = static_cast<uint16_t>(j);
    std::memcpy(columns + 2 * next, &column, 2);  // frames start at any byte
    values[next++] = x[j];
  }
}

}  // namespace subring::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace subring::cpu {
namespace {

HWY_EXPORT(select_largest);

constexpr int64_t kRowsOfTask = 16;

/// Calls body(row) for every row, `kRowsOfTask` a task.
template <class Body>
void for_rows(ThreadPool& pool, int64_t rows, Body&& body) {
  pool.parallel_for((rows + kRowsOfTask - 1) / kRowsOfTask, [&](int64_t task) {
    const int64_t end = std::min(rows, (task + 1) * kRowsOfTask);
    for (int64_t row = task * kRowsOfTask; row < end; ++row) body(row);
  });
}

/// Adds the kept values of one row to x [width].
void scatter(int64_t width, int64_t kept, const std::byte* columns, const float* values, float* x) {
  for (int64_t i = 0; i < kept; ++i) {
    uint16_t column = 0;
    std::memcpy(&column, columns + 2 * i, 2);
    SUBRING_CHECK(
        column < width, ErrorKind::shape, "sparse frame: column {} in rows of {}", column, width);
    x[column] += values[i];
  }
}

}  // namespace

void encode_sparse_frame(ThreadPool& pool,
                         FrameFormat format,
                         int64_t kept,
                         const FrameRounding& rounding,
                         Extents extents,
                         const float* x,
                         std::byte* bytes) {
  const int64_t width = extents.columns;
  float* values = thread_scratch(extents.rows * kept);
  for_rows(pool, extents.rows, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(select_largest)
    (width, kept, x + row * width, bytes + 2 * row * kept, values + row * kept);
  });
  encode_frame(
      pool, format, rounding, {extents.rows, kept}, values, bytes + 2 * extents.rows * kept);
}

void decode_sparse_frame(ThreadPool& pool,
                         FrameFormat format,
                         int64_t kept,
                         Extents extents,
                         const std::byte* bytes,
                         float* x,
                         Write write) {
  const int64_t width = extents.columns;
  float* values = thread_scratch(extents.rows * kept);
  decode_frame(pool,
               format,
               {extents.rows, kept},
               bytes + 2 * extents.rows * kept,
               values,
               Write::overwrite);
  for_rows(pool, extents.rows, [&](int64_t row) {
    float* to = x + row * width;
    if (write == Write::overwrite) std::fill_n(to, width, 0.0F);
    scatter(width, kept, bytes + 2 * row * kept, values + row * kept, to);
  });
}

}  // namespace subring::cpu
#endif
