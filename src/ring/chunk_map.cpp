#include "subring/ring/chunk_map.hpp"

#include <cstddef>

namespace subring::ring {

int ChunkMap::num_chunks() const { return static_cast<int>(owner.size()); }

std::vector<int> ChunkMap::chunks_of(int rank) const {
  std::vector<int> chunks;
  for (int chunk = 0; chunk < num_chunks(); ++chunk) {
    if (owner[static_cast<size_t>(chunk)] == rank) chunks.push_back(chunk);
  }
  return chunks;
}

}  // namespace subring::ring
