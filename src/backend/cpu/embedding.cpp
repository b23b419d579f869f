#include <algorithm>
#include <cstring>

#include "kernels.hpp"

namespace subring::cpu {
namespace {

void check_tokens(int64_t num_tokens, const int32_t* tokens, int64_t rows) {
  for (int64_t i = 0; i < num_tokens; ++i) {
    SUBRING_CHECK(tokens[i] >= 0 && tokens[i] < rows,
                  ErrorKind::shape,
                  "token {} at row {}, the embedding has {} rows",
                  tokens[i],
                  i,
                  rows);
  }
}

}  // namespace

void embedding_forward(ThreadPool& pool,
                       int64_t num_tokens,
                       const int32_t* tokens,
                       Extents table_extents,
                       const float* table,
                       float* out) {
  check_tokens(num_tokens, tokens, table_extents.rows);
  constexpr int64_t kTileRows = 64;
  const int64_t columns = table_extents.columns;
  pool.parallel_for((num_tokens + kTileRows - 1) / kTileRows, [&](int64_t tile) {
    const int64_t end = std::min(num_tokens, (tile + 1) * kTileRows);
    for (int64_t i = tile * kTileRows; i < end; ++i) {
      std::copy_n(table + int64_t{tokens[i]} * columns, columns, out + i * columns);
    }
  });
}

void embedding_backward(ThreadPool& pool,
                        int64_t num_tokens,
                        const int32_t* tokens,
                        Extents table_extents,
                        const float* d_out,
                        float* d_table) {
  check_tokens(num_tokens, tokens, table_extents.rows);
  // Tiles of columns, not of tokens: equal tokens add to one row, in the order of the tokens.
  constexpr int64_t kTileColumns = 128;
  const int64_t columns = table_extents.columns;
  pool.parallel_for((columns + kTileColumns - 1) / kTileColumns, [&](int64_t tile) {
    const int64_t first = tile * kTileColumns;
    const int64_t width = std::min(kTileColumns, columns - first);
    for (int64_t i = 0; i < num_tokens; ++i) {
      const float* from = d_out + i * columns + first;
      float* to = d_table + int64_t{tokens[i]} * columns + first;
      for (int64_t j = 0; j < width; ++j) to[j] += from[j];
    }
  });
}

}  // namespace subring::cpu
