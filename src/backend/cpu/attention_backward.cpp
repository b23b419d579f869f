#include "attention.hpp"
#include "simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention_backward.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace subring::cpu::HWY_NAMESPACE {

/// scores [rows, kKeyTile] become weights P = 2^(scale log2(e) score - lse log2(e)), and d_weights
/// becomes d_scores = P (d_weights - delta) scale; both 0 where the row does not see the key.
void differentiate_scores(const ScoreTile& tile,
                          float scale,
                          const float* lse,
                          const float* delta,
                          float* scores,
                          float* d_weights) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale * kLog2E);
  const auto slope = hn::Set(d, scale);
  for (int64_t i = 0; i < tile.rows; ++i) {
    float* s = scores + i * kKeyTile;
    float* dw = d_weights + i * kKeyTile;
    const int64_t visible = std::min(tile.columns, tile.visible + i);
    const auto shift = hn::Set(d, lse[i] * kLog2E);
    const auto mean = hn::Set(d, delta[i] * scale);
    int64_t j = 0;
    for (; j + lanes <= visible; j += lanes) {
      const auto p = exp2(d, hn::MulSub(hn::Load(d, s + j), factor, shift));
      hn::Store(p, d, s + j);
      hn::Store(hn::Mul(p, hn::MulSub(hn::Load(d, dw + j), slope, mean)), d, dw + j);
    }
    for (; j < tile.columns; j += lanes) {
      const int64_t rest = std::clamp<int64_t>(visible - j, 0, lanes);
      const auto valid = hn::FirstN(d, static_cast<size_t>(rest));
      const auto p = exp2(d, hn::MulSub(hn::Load(d, s + j), factor, shift));
      const auto ds = hn::Mul(p, hn::MulSub(hn::Load(d, dw + j), slope, mean));
      hn::Store(hn::IfThenElseZero(valid, p), d, s + j);
      hn::Store(hn::IfThenElseZero(valid, ds), d, dw + j);
    }
  }
}

float dot_range(int64_t count, const float* x, const float* y) {
  const hn::ScalableTag<float> d;
  auto total = hn::Zero(d);
  for_each_vector(d, count, [&](int64_t i, auto load, auto) HWY_ATTR {
    total = hn::MulAdd(load(x + i), load(y + i), total);
  });
  return lane_sum(d, total);
}

}  // namespace subring::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace subring::cpu {
namespace {

HWY_EXPORT(differentiate_scores);
HWY_EXPORT(dot_range);

/// Adds one tile's share to d_q, d_k and d_v of one query head.
void differentiate_tile(const AttentionShape& shape,
                        int64_t head,
                        const ScoreTile& tile,
                        const AttentionGradients& all) {
  const int64_t head_dim = shape.head_dim;
  const int64_t q_stride = shape.num_query_heads * head_dim;
  const int64_t k_stride = shape.num_kv_heads * head_dim;
  const int64_t kv_head = head / (shape.num_query_heads / shape.num_kv_heads);
  const int64_t q_at = tile.first_query * q_stride + head * head_dim;
  const int64_t k_at = tile.first_key * k_stride + kv_head * head_dim;
  const int64_t row_at = head * shape.num_queries + tile.first_query;
  float* scores = thread_scratch(2 * kQueryTile * kKeyTile);
  float* d_scores = scores + kQueryTile * kKeyTile;
  const GemmShape score_shape{tile.rows, tile.columns, head_dim};
  const GemmShape key_shape{tile.columns, head_dim, tile.rows};
  const GemmShape query_shape{tile.rows, head_dim, tile.columns};
  const auto rows_of = [](const float* x, int64_t at, int64_t stride, Transpose transpose) {
    return Operand{x + at, stride, transpose};
  };
  gemm(score_shape,
       rows_of(all.q, q_at, q_stride, Transpose::no),
       rows_of(all.k, k_at, k_stride, Transpose::yes),
       scores,
       kKeyTile,
       Write::overwrite);
  gemm(score_shape,
       rows_of(all.d_out, q_at, q_stride, Transpose::no),
       rows_of(all.v, k_at, k_stride, Transpose::yes),
       d_scores,
       kKeyTile,
       Write::overwrite);
  HWY_DYNAMIC_DISPATCH(differentiate_scores)
  (tile, softmax_scale(shape), all.lse + row_at, all.delta + row_at, scores, d_scores);
  gemm(key_shape,
       {scores, kKeyTile, Transpose::yes},
       rows_of(all.d_out, q_at, q_stride, Transpose::no),
       all.d_v + k_at,
       k_stride,
       Write::accumulate);
  gemm(key_shape,
       {d_scores, kKeyTile, Transpose::yes},
       rows_of(all.q, q_at, q_stride, Transpose::no),
       all.d_k + k_at,
       k_stride,
       Write::accumulate);
  gemm(query_shape,
       {d_scores, kKeyTile},
       rows_of(all.k, k_at, k_stride, Transpose::no),
       all.d_q + q_at,
       q_stride,
       Write::accumulate);
}

/// One tile of all query heads that share a kv head.
void differentiate_group(const AttentionShape& shape,
                         int64_t kv_head,
                         int64_t query_tile,
                         int64_t key_tile,
                         const AttentionGradients& all) {
  const ScoreTile tile = visible_tile(shape, query_tile, key_tile);
  if (tile.rows == 0) return;
  const int64_t group = shape.num_query_heads / shape.num_kv_heads;
  for (int64_t i = 0; i < group; ++i) differentiate_tile(shape, kv_head * group + i, tile, all);
}

}  // namespace

void attention_backward_prepare(ThreadPool& pool,
                                const AttentionShape& shape,
                                const float* out,
                                const float* d_out,
                                float* delta) {
  pool.parallel_for(num_query_tiles(shape), [&](int64_t tile) {
    const int64_t end = std::min(shape.num_queries, (tile + 1) * kQueryTile);
    for (int64_t i = tile * kQueryTile; i < end; ++i) {
      for (int64_t head = 0; head < shape.num_query_heads; ++head) {
        const int64_t at = (i * shape.num_query_heads + head) * shape.head_dim;
        delta[head * shape.num_queries + i] =
            HWY_DYNAMIC_DISPATCH(dot_range)(shape.head_dim, out + at, d_out + at);
      }
    }
  });
}

void attention_backward_block(ThreadPool& pool,
                              const AttentionShape& shape,
                              const AttentionGradients& pointers) {
  const int64_t query_tiles = num_query_tiles(shape);
  const int64_t key_tiles = num_key_tiles(shape);
  if (query_tiles == 0 || key_tiles == 0) return;
  if (pool.num_threads() <= shape.num_kv_heads) {
    // A task owns a kv head: nothing is shared, and a key tile stays in the cache.
    pool.parallel_for(shape.num_kv_heads, [&](int64_t kv_head) {
      for (int64_t key_tile = 0; key_tile < key_tiles; ++key_tile) {
        for (int64_t query_tile = 0; query_tile < query_tiles; ++query_tile) {
          differentiate_group(shape, kv_head, query_tile, key_tile, pointers);
        }
      }
    });
    return;
  }
  // More threads than heads: a wave front. The tiles of one anti-diagonal share neither queries nor
  // keys, and each d_q and d_k still receives its shares in rising order: the same bits as above.
  for (int64_t wave = 0; wave < query_tiles + key_tiles - 1; ++wave) {
    const int64_t first_key = std::max<int64_t>(0, wave - query_tiles + 1);
    const int64_t width = std::min(key_tiles - 1, wave) - first_key + 1;
    pool.parallel_for(shape.num_kv_heads * width, [&](int64_t task) {
      const int64_t key_tile = first_key + task / shape.num_kv_heads;
      const int64_t kv_head = task % shape.num_kv_heads;
      differentiate_group(shape, kv_head, wave - key_tile, key_tile, pointers);
    });
  }
}

}  // namespace subring::cpu
#endif
