#include <algorithm>
#include <cmath>

#include "kernels.hpp"
#include "simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/rope.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace subring::cpu::HWY_NAMESPACE {

/// (cosine, sine) [half] = product of a coarse and a fine rotation; sine times `direction`.
/// A plain loop: the compiler makes vectors of it.
void combine_rotations(int64_t half,
                       const double* HWY_RESTRICT coarse_cosine,
                       const double* HWY_RESTRICT coarse_sine,
                       const double* HWY_RESTRICT fine_cosine,
                       const double* HWY_RESTRICT fine_sine,
                       double direction,
                       float* HWY_RESTRICT cosine,
                       float* HWY_RESTRICT sine) {
  for (int64_t i = 0; i < half; ++i) {
    cosine[i] =
        static_cast<float>(coarse_cosine[i] * fine_cosine[i] - coarse_sine[i] * fine_sine[i]);
    sine[i] = static_cast<float>(
        direction * (coarse_sine[i] * fine_cosine[i] + coarse_cosine[i] * fine_sine[i]));
  }
}

/// Rotates all heads of one token in place.
void rotate_row(int64_t num_heads, int64_t half, const float* cosine, const float* sine, float* x) {
  const hn::ScalableTag<float> d;
  for (int64_t head = 0; head < num_heads; ++head) {
    float* first = x + head * 2 * half;
    float* second = first + half;
    for_each_vector(d, half, [&](int64_t i, auto load, auto store) HWY_ATTR {
      const auto c = load(cosine + i);
      const auto s = load(sine + i);
      const auto a = load(first + i);
      const auto b = load(second + i);
      store(hn::NegMulAdd(b, s, hn::Mul(a, c)), first + i);
      store(hn::MulAdd(a, s, hn::Mul(b, c)), second + i);
    });
  }
}

}  // namespace subring::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace subring::cpu {
namespace {

HWY_EXPORT(combine_rotations);
HWY_EXPORT(rotate_row);

/// Rows of tokens whose positions lie in [kBlock block, kBlock (block + 1)).
void rotate_block(const RopeShape& shape,
                  const RopeTable& table,
                  double direction,
                  int64_t block,
                  int64_t num_tokens,
                  float* x) {
  const int64_t half = shape.head_dim / 2;
  const int64_t start = block * RopeTable::kBlock;
  const int64_t first = std::max(start, shape.first_position);
  const int64_t last = std::min(start + RopeTable::kBlock, shape.first_position + num_tokens);
  double* coarse_cosine = thread_partials(2 * half);
  double* coarse_sine = coarse_cosine + half;
  for (int64_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(start) * table.frequency[static_cast<size_t>(i)];
    coarse_cosine[i] = std::cos(angle);
    coarse_sine[i] = std::sin(angle);
  }
  float* cosine = thread_scratch(2 * half);
  float* sine = cosine + half;
  for (int64_t position = first; position < last; ++position) {
    const int64_t fine = (position - start) * half;
    HWY_DYNAMIC_DISPATCH(combine_rotations)
    (half,
     coarse_cosine,
     coarse_sine,
     table.cosine.data() + fine,
     table.sine.data() + fine,
     direction,
     cosine,
     sine);
    float* row = x + (position - shape.first_position) * shape.num_heads * shape.head_dim;
    HWY_DYNAMIC_DISPATCH(rotate_row)(shape.num_heads, half, cosine, sine, row);
  }
}

}  // namespace

RopeTable::RopeTable(double theta_base, int64_t size) : theta(theta_base), head_dim(size) {
  const int64_t half = head_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    frequency.push_back(
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  }
  for (int64_t position = 0; position < kBlock; ++position) {
    for (const double f : frequency) {
      cosine.push_back(std::cos(static_cast<double>(position) * f));
      sine.push_back(std::sin(static_cast<double>(position) * f));
    }
  }
}

void rope(ThreadPool& pool,
          const RopeShape& shape,
          const RopeTable& table,
          RopeDirection direction,
          int64_t num_tokens,
          float* x) {
  if (num_tokens == 0) return;
  const int64_t first_block = shape.first_position / RopeTable::kBlock;
  const int64_t last_block = (shape.first_position + num_tokens - 1) / RopeTable::kBlock;
  const double sign = direction == RopeDirection::forward ? 1.0 : -1.0;
  pool.parallel_for(last_block - first_block + 1, [&](int64_t i) {
    rotate_block(shape, table, sign, first_block + i, num_tokens, x);
  });
}

}  // namespace subring::cpu
#endif
