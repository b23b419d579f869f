#pragma once

#include <vector>

#include "subring/ring/chunk_map.hpp"

namespace subring::ring {

/// A chunk's block that reaches this rank, `distance` hops from its owner.
struct Arrival {
  int chunk = 0;
  int distance = 0;
  bool needed = false;     ///< a query of this rank comes after the chunk
  bool forwarded = false;  ///< another rank further round the ring needs it too
};

/// Which blocks go where, as one rank sees it. Blocks travel round the ring (rank r to r + 1), each
/// only as far as the last rank that needs it; gradients come home the same way back.
struct Schedule {
  std::vector<int> owned;         ///< this rank's chunks, ascending
  std::vector<int> departures;    ///< those of them that leave
  std::vector<Arrival> arrivals;  ///< by distance, then chunk
};

/// Hops that chunk `chunk` travels: the largest distance from its owner of a rank that holds a
/// later chunk; 0 when no one does.
int num_hops(const ChunkMap& map, int chunk);

Schedule make_schedule(const ChunkMap& map, int rank);

/// Blocks that leave each rank in one layer's forward pass. In the backward pass each rank sends as
/// many gradients as blocks had reached it: the same number over all ranks.
std::vector<int> blocks_sent(const ChunkMap& map);

}  // namespace subring::ring
