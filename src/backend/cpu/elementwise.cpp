#include <algorithm>
#include <cmath>

#include "kernels.hpp"
#include "simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/elementwise.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_math-inl.h"

#ifndef SUBRING_CPU_ELEMENTWISE_ONCE
#define SUBRING_CPU_ELEMENTWISE_ONCE
namespace subring::cpu {

/// Factors of AdamWStep that are the same for all elements.
struct AdamWFactors {
  float gradient_scale, beta1, beta2, step_size, inverse_root_correction2, eps, decay;
};

}  // namespace subring::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace subring::cpu::HWY_NAMESPACE {

void axpby_range(int64_t count, float alpha, const float* x, float beta, float* y) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, alpha);
  const auto b = hn::Set(d, beta);
  if (beta == 0) {
    for_each_vector(d, count, [&](int64_t i, auto load, auto store) HWY_ATTR {
      store(hn::Mul(a, load(x + i)), y + i);
    });
  } else {
    for_each_vector(d, count, [&](int64_t i, auto load, auto store) HWY_ATTR {
      store(hn::MulAdd(a, load(x + i), hn::Mul(b, load(y + i))), y + i);
    });
  }
}

void swiglu_forward_range(int64_t count, const float* gate, const float* up, float* out) {
  const hn::ScalableTag<float> d;
  const auto one = hn::Set(d, 1.0F);
  for_each_vector(d, count, [&](int64_t i, auto load, auto store) HWY_ATTR {
    const auto g = load(gate + i);
    const auto silu = hn::Div(g, hn::Add(one, exp(d, hn::Neg(g))));
    store(hn::Mul(silu, load(up + i)), out + i);
  });
}

void swiglu_backward_range(int64_t count,
                           const float* d_out,
                           const float* gate,
                           const float* up,
                           float* d_gate,
                           float* d_up) {
  const hn::ScalableTag<float> d;
  const auto one = hn::Set(d, 1.0F);
  for_each_vector(d, count, [&](int64_t i, auto load, auto store) HWY_ATTR {
    const auto g = load(gate + i);
    const auto dy = load(d_out + i);
    const auto u = load(up + i);
    const auto sigmoid = hn::Div(one, hn::Add(one, exp(d, hn::Neg(g))));
    const auto silu = hn::Mul(g, sigmoid);
    // silu'(g) = s (1 + g (1 - s)) = s + silu (1 - s)
    const auto slope = hn::MulAdd(silu, hn::Sub(one, sigmoid), sigmoid);
    store(hn::Mul(dy, silu), d_up + i);
    store(hn::Mul(hn::Mul(dy, u), slope), d_gate + i);
  });
}

void adamw_range(const AdamWFactors& f,
                 int64_t count,
                 float* parameter,
                 const float* gradient,
                 float* moment1,
                 float* moment2) {
  const hn::ScalableTag<float> d;
  const auto beta1 = hn::Set(d, f.beta1);
  const auto beta2 = hn::Set(d, f.beta2);
  const auto rest1 = hn::Set(d, 1 - f.beta1);
  const auto rest2 = hn::Set(d, 1 - f.beta2);
  for_each_vector(d, count, [&](int64_t i, auto load, auto store) HWY_ATTR {
    const auto g = hn::Mul(hn::Set(d, f.gradient_scale), load(gradient + i));
    const auto m = hn::MulAdd(beta1, load(moment1 + i), hn::Mul(rest1, g));
    const auto v = hn::MulAdd(beta2, load(moment2 + i), hn::Mul(rest2, hn::Mul(g, g)));
    const auto root = hn::Mul(hn::Sqrt(v), hn::Set(d, f.inverse_root_correction2));
    const auto step =
        hn::Div(hn::Mul(hn::Set(d, f.step_size), m), hn::Add(root, hn::Set(d, f.eps)));
    const auto p = load(parameter + i);
    store(m, moment1 + i);
    store(v, moment2 + i);
    store(hn::Sub(hn::NegMulAdd(hn::Set(d, f.decay), p, p), step), parameter + i);
  });
}

}  // namespace subring::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace subring::cpu {
namespace {

HWY_EXPORT(axpby_range);
HWY_EXPORT(swiglu_forward_range);
HWY_EXPORT(swiglu_backward_range);
HWY_EXPORT(adamw_range);

constexpr int64_t kTileElements = 1 << 15;

/// Calls body(first, count) for tiles of [0, total).
template <class Body>
void for_tiles(ThreadPool& pool, int64_t total, int64_t tile_size, Body&& body) {
  pool.parallel_for((total + tile_size - 1) / tile_size, [&](int64_t tile) {
    const int64_t first = tile * tile_size;
    body(first, std::min(tile_size, total - first));
  });
}

}  // namespace

void fill(ThreadPool& pool, int64_t count, float value, float* x) {
  for_tiles(pool, count, kTileElements, [&](int64_t first, int64_t size) {
    std::fill_n(x + first, size, value);
  });
}

void axpby(ThreadPool& pool, int64_t count, float alpha, const float* x, float beta, float* y) {
  for_tiles(pool, count, kTileElements, [&](int64_t first, int64_t size) {
    HWY_DYNAMIC_DISPATCH(axpby_range)(size, alpha, x + first, beta, y + first);
  });
}

void add_row(ThreadPool& pool, Extents extents, const float* v, float scale, float* x) {
  const int64_t tile_rows =
      std::max<int64_t>(1, kTileElements / std::max<int64_t>(1, extents.columns));
  for_tiles(pool, extents.rows, tile_rows, [&](int64_t first, int64_t rows) {
    for (int64_t i = first; i < first + rows; ++i) {
      HWY_DYNAMIC_DISPATCH(axpby_range)(extents.columns, scale, v, 1.0F, x + i * extents.columns);
    }
  });
}

void swiglu_forward(
    ThreadPool& pool, int64_t count, const float* gate, const float* up, float* out) {
  for_tiles(pool, count, kTileElements, [&](int64_t first, int64_t size) {
    HWY_DYNAMIC_DISPATCH(swiglu_forward_range)(size, gate + first, up + first, out + first);
  });
}

void swiglu_backward(ThreadPool& pool,
                     int64_t count,
                     const float* d_out,
                     const float* gate,
                     const float* up,
                     float* d_gate,
                     float* d_up) {
  for_tiles(pool, count, kTileElements, [&](int64_t first, int64_t size) {
    HWY_DYNAMIC_DISPATCH(swiglu_backward_range)
    (size, d_out + first, gate + first, up + first, d_gate + first, d_up + first);
  });
}

void adamw(ThreadPool& pool,
           const AdamWStep& step,
           int64_t count,
           float* parameter,
           const float* gradient,
           float* moment1,
           float* moment2) {
  const double correction1 = 1 - std::pow(double{step.beta1}, static_cast<double>(step.step));
  const double correction2 = 1 - std::pow(double{step.beta2}, static_cast<double>(step.step));
  const AdamWFactors factors{step.gradient_scale,
                             step.beta1,
                             step.beta2,
                             static_cast<float>(step.lr / correction1),
                             static_cast<float>(1 / std::sqrt(correction2)),
                             step.eps,
                             step.lr * step.weight_decay};
  for_tiles(pool, count, kTileElements, [&](int64_t first, int64_t size) {
    HWY_DYNAMIC_DISPATCH(adamw_range)
    (factors, size, parameter + first, gradient + first, moment1 + first, moment2 + first);
  });
}

}  // namespace subring::cpu
#endif
