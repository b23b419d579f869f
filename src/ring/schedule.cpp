#include "subring/ring/schedule.hpp"

#include <algorithm>

namespace subring::ring {
namespace {

/// Rank `rank` has queries that attend to chunk `chunk` of another rank.
bool needs(const ChunkMap& map, int rank, int chunk) {
  for (int later = chunk + 1; later < map.num_chunks(); ++later) {
    if (map.owner[static_cast<size_t>(later)] == rank) return true;
  }
  return false;
}

}  // namespace

int num_hops(const ChunkMap& map, int chunk) {
  const int owner = map.owner[static_cast<size_t>(chunk)];
  for (int distance = map.num_ranks - 1; distance > 0; --distance) {
    if (needs(map, (owner + distance) % map.num_ranks, chunk)) return distance;
  }
  return 0;
}

Schedule make_schedule(const ChunkMap& map, int rank) {
  Schedule schedule;
  schedule.owned = map.chunks_of(rank);
  for (int chunk = 0; chunk < map.num_chunks(); ++chunk) {
    const int owner = map.owner[static_cast<size_t>(chunk)];
    const int hops = num_hops(map, chunk);
    if (owner == rank) {
      if (hops > 0) schedule.departures.push_back(chunk);
      continue;
    }
    const int distance = (rank - owner + map.num_ranks) % map.num_ranks;
    if (distance > hops) continue;
    schedule.arrivals.push_back({.chunk = chunk,
                                 .distance = distance,
                                 .needed = needs(map, rank, chunk),
                                 .forwarded = distance < hops});
  }
  std::stable_sort(schedule.arrivals.begin(),
                   schedule.arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.distance < b.distance; });
  return schedule;
}

std::vector<int> blocks_sent(const ChunkMap& map) {
  std::vector<int> sent(static_cast<size_t>(map.num_ranks), 0);
  for (int rank = 0; rank < map.num_ranks; ++rank) {
    const Schedule schedule = make_schedule(map, rank);
    const auto forwarded = std::count_if(schedule.arrivals.begin(),
                                         schedule.arrivals.end(),
                                         [](const Arrival& a) { return a.forwarded; });
    sent[static_cast<size_t>(rank)] =
        static_cast<int>(schedule.departures.size()) + static_cast<int>(forwarded);
  }
  return sent;
}

}  // namespace subring::ring
