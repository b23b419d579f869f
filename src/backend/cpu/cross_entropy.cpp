#include <algorithm>
#include <cmath>

#include "kernels.hpp"
#include "simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace subring::cpu::HWY_NAMESPACE {

float row_max(int64_t count, const float* x) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto largest = hn::Set(d, x[0]);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) largest = hn::Max(largest, hn::LoadU(d, x + i));
  float result = lane_max(d, largest);
  for (; i < count; ++i) result = std::max(result, x[i]);
  return result;
}

/// Sum of e^(x - shift) over one row; double over blocks of 256, so that the error does not grow
/// with the vocabulary. `exponentials`, when not null, receives the terms (may be x).
double sum_exponentials(int64_t count, const float* x, float shift, float* exponentials) {
  constexpr int64_t kBlock = 256;
  const hn::ScalableTag<float> d;
  const auto subtract = hn::Set(d, shift);
  double total = 0;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t size = std::min(kBlock, count - first);
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    auto partial = hn::Zero(d);
    int64_t i = first;
    for (; i + lanes <= first + size; i += lanes) {
      const auto e = exp(d, hn::Sub(hn::LoadU(d, x + i), subtract));
      if (exponentials != nullptr) hn::StoreU(e, d, exponentials + i);
      partial = hn::Add(partial, e);
    }
    total += double{lane_sum(d, partial)};
    const hn::CappedTag<float, 1> one;
    for (; i < first + size; ++i) {
      const float e = hn::GetLane(exp(one, hn::Set(one, x[i] - shift)));
      if (exponentials != nullptr) exponentials[i] = e;
      total += double{e};
    }
  }
  return total;
}

void scale_range(int64_t count, float factor, float* x) {
  const hn::ScalableTag<float> d;
  for_each_vector(d, count, [&](int64_t i, auto load, auto store) HWY_ATTR {
    store(hn::Mul(hn::Set(d, factor), load(x + i)), x + i);
  });
}

}  // namespace subring::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace subring::cpu {
namespace {

HWY_EXPORT(row_max);
HWY_EXPORT(sum_exponentials);
HWY_EXPORT(scale_range);

constexpr int64_t kTileRows = 8;

void check_labels(Extents extents, const int32_t* labels) {
  for (int64_t i = 0; i < extents.rows; ++i) {
    SUBRING_CHECK(labels[i] < extents.columns,
                  ErrorKind::shape,
                  "label {} at row {}, there are {} logits",
                  labels[i],
                  i,
                  extents.columns);
  }
}

template <class Body>
void for_rows(ThreadPool& pool, int64_t rows, Body&& body) {
  pool.parallel_for((rows + kTileRows - 1) / kTileRows, [&](int64_t tile) {
    const int64_t end = std::min(rows, (tile + 1) * kTileRows);
    for (int64_t i = tile * kTileRows; i < end; ++i) body(i);
  });
}

}  // namespace

void cross_entropy_forward(
    ThreadPool& pool, Extents extents, const float* logits, const int32_t* labels, float* loss) {
  check_labels(extents, labels);
  for_rows(pool, extents.rows, [&](int64_t i) {
    loss[i] = 0;
    if (labels[i] < 0) return;
    const float* row = logits + i * extents.columns;
    const float largest = HWY_DYNAMIC_DISPATCH(row_max)(extents.columns, row);
    const double total =
        HWY_DYNAMIC_DISPATCH(sum_exponentials)(extents.columns, row, largest, nullptr);
    loss[i] = static_cast<float>(std::log(total) + (double{largest} - double{row[labels[i]]}));
  });
}

void cross_entropy_forward_backward(ThreadPool& pool,
                                    Extents extents,
                                    float* logits,
                                    const int32_t* labels,
                                    float scale,
                                    float* loss) {
  check_labels(extents, labels);
  for_rows(pool, extents.rows, [&](int64_t i) {
    float* row = logits + i * extents.columns;
    loss[i] = 0;
    if (labels[i] < 0) {
      std::fill_n(row, extents.columns, 0.0F);
      return;
    }
    const float largest = HWY_DYNAMIC_DISPATCH(row_max)(extents.columns, row);
    const double gap = double{largest} - double{row[labels[i]]};
    const double total = HWY_DYNAMIC_DISPATCH(sum_exponentials)(extents.columns, row, largest, row);
    loss[i] = static_cast<float>(std::log(total) + gap);
    HWY_DYNAMIC_DISPATCH(scale_range)
    (extents.columns, static_cast<float>(double{scale} / total), row);
    row[labels[i]] -= scale;
  });
}

}  // namespace subring::cpu
#endif
