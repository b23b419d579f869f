#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "gemm.hpp"
#include "kernels.hpp"

// What the two directions of attention share. Scores live in tiles of the calling thread's scratch;
// no matrix of n x s elements exists.
namespace subring::cpu {

// A tile of scores (128 KiB) and the tiles of q, k, v beside it stay in a 1 MiB L2 cache.
constexpr int64_t kQueryTile = 128;
constexpr int64_t kKeyTile = 256;
constexpr float kLog2E = 1.44269504F;
constexpr float kLn2 = 0.693147181F;

/// Scores are scaled into base 2, where the exponential is cheapest: 2^(x log2(e) / sqrt(D)).
inline float softmax_scale(const AttentionShape& shape) {
  return 1 / std::sqrt(static_cast<float>(shape.head_dim));
}

/// Rows [first_query, first_query + rows) by keys [first_key, first_key + columns), of one head.
struct ScoreTile {
  int64_t first_query = 0;
  int64_t rows = 0;
  int64_t first_key = 0;
  int64_t columns = 0;
  /// Keys of the tile that its first row sees; each further row sees one more. May be below 1 or
  /// above `columns`.
  int64_t visible = 0;
};

/// The part of the tile (query_tile, key_tile) that some row sees: rows above the diagonal and keys
/// past the last row's position are cut off. rows == 0: nothing.
inline ScoreTile visible_tile(const AttentionShape& shape, int64_t query_tile, int64_t key_tile) {
  ScoreTile tile;
  tile.first_key = key_tile * kKeyTile;
  const int64_t key_position = shape.first_key_position + tile.first_key;
  const int64_t end = std::min(shape.num_queries, (query_tile + 1) * kQueryTile);
  tile.first_query = std::max(query_tile * kQueryTile, key_position - shape.first_query_position);
  if (tile.first_query >= end) return tile;
  tile.rows = end - tile.first_query;
  tile.visible = shape.first_query_position + tile.first_query - key_position + 1;
  const int64_t last_row_visible = tile.visible + tile.rows - 1;
  tile.columns = std::min({kKeyTile, shape.num_keys - tile.first_key, last_row_visible});
  return tile;
}

inline int64_t num_query_tiles(const AttentionShape& shape) {
  return (shape.num_queries + kQueryTile - 1) / kQueryTile;
}
inline int64_t num_key_tiles(const AttentionShape& shape) {
  return (shape.num_keys + kKeyTile - 1) / kKeyTile;
}

}  // namespace subring::cpu
