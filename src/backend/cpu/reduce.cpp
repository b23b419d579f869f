#include <algorithm>

#include "kernels.hpp"
#include "simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/reduce.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace subring::cpu::HWY_NAMESPACE {

/// Sum of term(x_i) in double over [0, count), in a fixed order.
template <class Term>
HWY_INLINE double sum_terms(int64_t count, const float* x, Term&& term) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d);
  auto odd = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    even = term(hn::PromoteTo(d, hn::LoadU(df, x + i)), even);
    odd = term(hn::PromoteTo(d, hn::LoadU(df, x + i + lanes)), odd);
  }
  HWY_ALIGN float rest[2 * hn::MaxLanes(d)] = {};
  std::copy(x + i, x + count, rest);
  even = term(hn::PromoteTo(d, hn::Load(df, rest)), even);
  odd = term(hn::PromoteTo(d, hn::LoadU(df, rest + lanes)), odd);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
}

double sum_range(int64_t count, const float* x) {
  return sum_terms(count, x, [](auto v, auto total) HWY_ATTR { return hn::Add(total, v); });
}

double squared_norm_range(int64_t count, const float* x) {
  return sum_terms(count, x, [](auto v, auto total) HWY_ATTR { return hn::MulAdd(v, v, total); });
}

/// total [columns] += sum of `rows` rows of x. A plain loop: the compiler makes vectors of it.
void add_rows(int64_t rows,
              int64_t columns,
              const float* HWY_RESTRICT x,
              double* HWY_RESTRICT total) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) total[j] += double{x[i * columns + j]};
  }
}

}  // namespace subring::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace subring::cpu {
namespace {

HWY_EXPORT(sum_range);
HWY_EXPORT(squared_norm_range);
HWY_EXPORT(add_rows);

constexpr int64_t kTileElements = 1 << 16;

template <class Range>
double sum_tiles(ThreadPool& pool, int64_t count, const float* x, Range&& range) {
  const int64_t num_tiles = (count + kTileElements - 1) / kTileElements;
  double* partials = thread_partials(num_tiles);
  pool.parallel_for(num_tiles, [&](int64_t tile) {
    const int64_t first = tile * kTileElements;
    partials[tile] = range(std::min(kTileElements, count - first), x + first);
  });
  double total = 0;
  for (int64_t tile = 0; tile < num_tiles; ++tile) total += partials[tile];
  return total;
}

}  // namespace

int64_t reduction_rows(int64_t rows) { return std::max<int64_t>(32, (rows + 63) / 64); }

void column_mean(ThreadPool& pool, Extents extents, const float* x, float* mean) {
  const int64_t tile_rows = reduction_rows(extents.rows);
  const int64_t num_tiles = (extents.rows + tile_rows - 1) / tile_rows;
  const int64_t columns = extents.columns;
  double* partials = thread_partials(std::max<int64_t>(1, num_tiles) * columns);
  std::fill_n(partials, std::max<int64_t>(1, num_tiles) * columns, 0.0);
  pool.parallel_for(num_tiles, [&](int64_t tile) {
    const int64_t first = tile * tile_rows;
    HWY_DYNAMIC_DISPATCH(add_rows)
    (std::min(tile_rows, extents.rows - first),
     columns,
     x + first * columns,
     partials + tile * columns);
  });
  for (int64_t tile = 1; tile < num_tiles; ++tile) {
    for (int64_t j = 0; j < columns; ++j) partials[j] += partials[tile * columns + j];
  }
  const double count = static_cast<double>(std::max<int64_t>(1, extents.rows));
  for (int64_t j = 0; j < columns; ++j) mean[j] = static_cast<float>(partials[j] / count);
}

double sum(ThreadPool& pool, int64_t count, const float* x) {
  return sum_tiles(pool, count, x, [](int64_t size, const float* first) {
    return HWY_DYNAMIC_DISPATCH(sum_range)(size, first);
  });
}

double squared_norm(ThreadPool& pool, int64_t count, const float* x) {
  return sum_tiles(pool, count, x, [](int64_t size, const float* first) {
    return HWY_DYNAMIC_DISPATCH(squared_norm_range)(size, first);
  });
}

}  // namespace subring::cpu
#endif
