#include <algorithm>
#include <cmath>

#include "kernels.hpp"
#include "simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/rms_norm.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace subring::cpu::HWY_NAMESPACE {

/// One row; returns rstd.
float rms_norm_row(int64_t columns, const float* x, const float* weight, float eps, float* y) {
  const hn::ScalableTag<float> d;
  auto squares = hn::Zero(d);
  for_each_vector(d, columns, [&](int64_t i, auto load, auto) HWY_ATTR {
    const auto v = load(x + i);
    squares = hn::MulAdd(v, v, squares);
  });
  const float rstd = 1 / std::sqrt(lane_sum(d, squares) / static_cast<float>(columns) + eps);
  const auto scale = hn::Set(d, rstd);
  for_each_vector(d, columns, [&](int64_t i, auto load, auto store) HWY_ATTR {
    store(hn::Mul(hn::Mul(load(x + i), scale), load(weight + i)), y + i);
  });
  return rstd;
}

/// One row. With xhat = x rstd and g = d_y weight:
///   d_x = rstd (g - xhat mean(g xhat)),  d_weight += d_y xhat.
void rms_norm_backward_row(int64_t columns,
                           const float* d_y,
                           const float* x,
                           const float* weight,
                           float rstd,
                           float* d_x,
                           Write write,
                           float* d_weight) {
  const hn::ScalableTag<float> d;
  const auto scale = hn::Set(d, rstd);
  auto products = hn::Zero(d);
  for_each_vector(d, columns, [&](int64_t i, auto load, auto store) HWY_ATTR {
    const auto t = hn::Mul(load(d_y + i), hn::Mul(load(x + i), scale));
    store(hn::Add(load(d_weight + i), t), d_weight + i);
    products = hn::MulAdd(t, load(weight + i), products);
  });
  const auto mean = hn::Set(d, lane_sum(d, products) * rstd / static_cast<float>(columns));
  for_each_vector(d, columns, [&](int64_t i, auto load, auto store) HWY_ATTR {
    const auto g = hn::Mul(load(d_y + i), load(weight + i));
    const auto result = hn::Mul(scale, hn::NegMulAdd(load(x + i), mean, g));
    store(write == Write::accumulate ? hn::Add(load(d_x + i), result) : result, d_x + i);
  });
}

void add_range(int64_t count, const float* x, float* total) {
  const hn::ScalableTag<float> d;
  for_each_vector(d, count, [&](int64_t i, auto load, auto store) HWY_ATTR {
    store(hn::Add(load(total + i), load(x + i)), total + i);
  });
}

}  // namespace subring::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace subring::cpu {
namespace {

HWY_EXPORT(rms_norm_row);
HWY_EXPORT(rms_norm_backward_row);
HWY_EXPORT(add_range);

}  // namespace

void rms_norm_forward(ThreadPool& pool,
                      Extents extents,
                      const float* x,
                      const float* weight,
                      float eps,
                      float* y,
                      float* rstd) {
  const int64_t tile_rows = reduction_rows(extents.rows);
  pool.parallel_for((extents.rows + tile_rows - 1) / tile_rows, [&](int64_t tile) {
    const int64_t end = std::min(extents.rows, (tile + 1) * tile_rows);
    for (int64_t i = tile * tile_rows; i < end; ++i) {
      const int64_t at = i * extents.columns;
      rstd[i] = HWY_DYNAMIC_DISPATCH(rms_norm_row)(extents.columns, x + at, weight, eps, y + at);
    }
  });
}

void rms_norm_backward(ThreadPool& pool,
                       Extents extents,
                       const float* d_y,
                       const float* x,
                       const float* weight,
                       const float* rstd,
                       float* d_x,
                       Write write,
                       float* d_weight) {
  const int64_t columns = extents.columns;
  const int64_t tile_rows = reduction_rows(extents.rows);
  const int64_t num_tiles = (extents.rows + tile_rows - 1) / tile_rows;
  // One d_weight per tile, added up in order afterwards: the same bits for any number of threads.
  float* partials = thread_scratch(num_tiles * columns);
  std::fill_n(partials, num_tiles * columns, 0.0F);
  pool.parallel_for(num_tiles, [&](int64_t tile) {
    const int64_t end = std::min(extents.rows, (tile + 1) * tile_rows);
    for (int64_t i = tile * tile_rows; i < end; ++i) {
      const int64_t at = i * columns;
      HWY_DYNAMIC_DISPATCH(rms_norm_backward_row)
      (columns, d_y + at, x + at, weight, rstd[i], d_x + at, write, partials + tile * columns);
    }
  });
  for (int64_t tile = 0; tile < num_tiles; ++tile) {
    HWY_DYNAMIC_DISPATCH(add_range)(columns, partials + tile * columns, d_weight);
  }
}

}  // namespace subring::cpu
#endif
