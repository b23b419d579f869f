#include <cmath>
#include <limits>

#include "attention.hpp"
#include "simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention_forward.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_math-inl.h"

#ifndef SUBRING_CPU_ATTENTION_FORWARD_ONCE
#define SUBRING_CPU_ATTENTION_FORWARD_ONCE
namespace subring::cpu {

/// Running softmax of the rows of one query tile. All logarithms to base 2.
struct RunningSoftmax {
  float maximum[kQueryTile];  ///< -inf: no key seen
  float total[kQueryTile];    ///< sum of 2^(score - maximum)
  float* sums = nullptr;      ///< [kQueryTile, D] sum of 2^(score - maximum) v
  int64_t head_dim = 0;
};

}  // namespace subring::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace subring::cpu::HWY_NAMESPACE {

/// Largest of the first `count` > 0 values. x is padded to whole vectors.
HWY_INLINE float largest_of(int64_t count, const float* x) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto a = lowest;
  auto b = lowest;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Max(a, hn::Load(d, x + i));
    b = hn::Max(b, hn::Load(d, x + i + lanes));
  }
  for (; i < count; i += lanes) {
    const auto valid = hn::FirstN(d, static_cast<size_t>(std::min(lanes, count - i)));
    a = hn::Max(a, hn::IfThenElse(valid, hn::Load(d, x + i), lowest));
  }
  return lane_max(d, hn::Max(a, b));
}

/// x_i = 2^(scale x_i - shift) for the first `count`, 0 up to `columns`; returns their sum.
HWY_INLINE float exponentiate(int64_t count, int64_t columns, float scale, float shift, float* x) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  const auto offset = hn::Set(d, shift);
  auto a = hn::Zero(d);
  auto b = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto p = exp2(d, hn::MulSub(hn::Load(d, x + i), factor, offset));
    const auto q = exp2(d, hn::MulSub(hn::Load(d, x + i + lanes), factor, offset));
    hn::Store(p, d, x + i);
    hn::Store(q, d, x + i + lanes);
    a = hn::Add(a, p);
    b = hn::Add(b, q);
  }
  for (; i < count; i += lanes) {
    const auto valid = hn::FirstN(d, static_cast<size_t>(std::min(lanes, count - i)));
    const auto p =
        hn::IfThenElseZero(valid, exp2(d, hn::MulSub(hn::Load(d, x + i), factor, offset)));
    hn::Store(p, d, x + i);
    a = hn::Add(a, p);
  }
  for (; i < columns; i += lanes) hn::Store(hn::Zero(d), d, x + i);
  return lane_sum(d, hn::Add(a, b));
}

/// scores [rows, kKeyTile] become weights; the running softmax moves to their maxima.
void fold_scores(
    const ScoreTile& tile, int64_t first_row, float scale, float* scores, RunningSoftmax& softmax) {
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < tile.rows; ++i) {
    float* row = scores + i * kKeyTile;
    const int64_t visible = std::min(tile.columns, tile.visible + i);
    float& maximum = softmax.maximum[first_row + i];
    float& total = softmax.total[first_row + i];
    const float before = maximum;
    maximum = std::max(before, largest_of(visible, row) * scale);
    const bool empty = maximum == -std::numeric_limits<float>::infinity();
    const float added = exponentiate(visible, tile.columns, scale, empty ? 0.0F : maximum, row);
    if (maximum != before) {
      const float shrink = std::exp2(before - maximum);
      total *= shrink;
      float* sums = softmax.sums + (first_row + i) * softmax.head_dim;
      for_each_vector(d, softmax.head_dim, [&](int64_t j, auto load, auto store) HWY_ATTR {
        store(hn::Mul(hn::Set(d, shrink), load(sums + j)), sums + j);
      });
    }
    total += added;
  }
}

}  // namespace subring::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace subring::cpu {
namespace {

HWY_EXPORT(fold_scores);

/// Rows [first, first + rows) of one head as they are before the block: out has weight 1.
void load_state(const AttentionShape& shape,
                int64_t first,
                int64_t rows,
                const float* out,
                const float* lse,
                RunningSoftmax& softmax) {
  const int64_t stride = shape.num_query_heads * shape.head_dim;
  for (int64_t i = 0; i < rows; ++i) {
    const float before = lse[first + i];
    const bool empty = before == -std::numeric_limits<float>::infinity();
    softmax.maximum[i] = before * kLog2E;
    softmax.total[i] = empty ? 0.0F : 1.0F;
    float* sums = softmax.sums + i * shape.head_dim;
    if (empty) {
      std::fill_n(sums, shape.head_dim, 0.0F);
    } else {
      std::copy_n(out + (first + i) * stride, shape.head_dim, sums);
    }
  }
}

void store_state(const AttentionShape& shape,
                 int64_t first,
                 int64_t rows,
                 const RunningSoftmax& softmax,
                 float* out,
                 float* lse) {
  const int64_t stride = shape.num_query_heads * shape.head_dim;
  for (int64_t i = 0; i < rows; ++i) {
    const float inverse = 1 / softmax.total[i];
    const float* sums = softmax.sums + i * shape.head_dim;
    float* to = out + (first + i) * stride;
    for (int64_t j = 0; j < shape.head_dim; ++j) to[j] = sums[j] * inverse;
    // lse was scaled to base 2 and back: in double, so that folding many blocks does not drift.
    const double log2_sum = double{softmax.maximum[i]} + std::log2(double{softmax.total[i]});
    lse[first + i] = static_cast<float>(log2_sum * double{kLn2});
  }
}

/// One head's queries [query_tile] against all keys of the block that they see.
void fold_query_tile(const AttentionShape& shape,
                     int64_t head,
                     int64_t query_tile,
                     const float* q,
                     const float* k,
                     const float* v,
                     float* out,
                     float* lse) {
  // Rows that see no key of the block stay as they are, to the bit.
  const ScoreTile first_tile = visible_tile(shape, query_tile, 0);
  if (first_tile.rows == 0) return;
  const int64_t q_stride = shape.num_query_heads * shape.head_dim;
  const int64_t k_stride = shape.num_kv_heads * shape.head_dim;
  const int64_t kv_head = head / (shape.num_query_heads / shape.num_kv_heads);
  const float scale = softmax_scale(shape) * kLog2E;
  q += head * shape.head_dim;
  k += kv_head * shape.head_dim;
  v += kv_head * shape.head_dim;
  out += head * shape.head_dim;
  lse += head * shape.num_queries;

  float* scores = thread_scratch(kQueryTile * (kKeyTile + shape.head_dim));
  RunningSoftmax softmax;
  softmax.sums = scores + kQueryTile * kKeyTile;
  softmax.head_dim = shape.head_dim;
  load_state(shape, first_tile.first_query, first_tile.rows, out, lse, softmax);
  for (int64_t key_tile = 0; key_tile < num_key_tiles(shape); ++key_tile) {
    const ScoreTile tile = visible_tile(shape, query_tile, key_tile);
    if (tile.rows == 0) break;
    const Operand queries{q + tile.first_query * q_stride, q_stride};
    const Operand keys{k + tile.first_key * k_stride, k_stride, Transpose::yes};
    const Operand values{v + tile.first_key * k_stride, k_stride};
    gemm({tile.rows, tile.columns, shape.head_dim},
         queries,
         keys,
         scores,
         kKeyTile,
         Write::overwrite);
    const int64_t first_row = tile.first_query - first_tile.first_query;
    HWY_DYNAMIC_DISPATCH(fold_scores)(tile, first_row, scale, scores, softmax);
    gemm({tile.rows, shape.head_dim, tile.columns},
         {scores, kKeyTile},
         values,
         softmax.sums + first_row * shape.head_dim,
         shape.head_dim,
         Write::accumulate);
  }
  store_state(shape, first_tile.first_query, first_tile.rows, softmax, out, lse);
}

}  // namespace

void attention_forward_block(ThreadPool& pool,
                             const AttentionShape& shape,
                             const float* q,
                             const float* k,
                             const float* v,
                             float* out,
                             float* lse) {
  if (shape.num_keys == 0) return;
  const int64_t tiles = num_query_tiles(shape);
  pool.parallel_for(shape.num_query_heads * tiles, [&](int64_t task) {
    // Late queries see most keys: their tiles go first, so that no thread ends with a long one.
    const int64_t query_tile = tiles - 1 - task / shape.num_query_heads;
    fold_query_tile(shape, task % shape.num_query_heads, query_tile, q, k, v, out, lse);
  });
}

}  // namespace subring::cpu
#endif
