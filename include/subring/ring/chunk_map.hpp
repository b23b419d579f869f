#pragma once

#include <cstdint>
#include <vector>

namespace subring::ring {

/// Which member of a context-parallel group holds which chunk of a sequence.
struct ChunkMap {
  int num_ranks = 1;
  std::vector<int> owner;  ///< [C] index in the cp group of each chunk's owner
  int64_t chunk_tokens = 0;

  int num_chunks() const;
  std::vector<int> chunks_of(int rank) const;  ///< ascending
};

}  // namespace subring::ring
