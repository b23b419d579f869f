#pragma once

#include <cstdint>
#include <vector>

namespace subring::ring {

/// Which rank of a context-parallel group owns which chunk of the sequence. Chunk c holds the
/// tokens [c * chunk_tokens, (c + 1) * chunk_tokens).
struct ChunkMap {
  int num_ranks = 1;
  std::vector<int> owner;  ///< [C] index in the group of each chunk's owner
  int64_t chunk_tokens = 0;

  int num_chunks() const { return static_cast<int>(owner.size()); }
  int64_t first_position(int chunk) const { return chunk * chunk_tokens; }
  /// Ascending.
  std::vector<int> chunks_of(int rank) const;
};

}  // namespace subring::ring
