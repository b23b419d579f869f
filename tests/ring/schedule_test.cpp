#include "subring/ring/schedule.hpp"

#include <numeric>
#include <set>

#include "support/catch.hpp"

using namespace subring::ring;

namespace {

ChunkMap contiguous(int num_ranks) {
  ChunkMap map{num_ranks, {}, 4};
  for (int rank = 0; rank < num_ranks; ++rank) map.owner.push_back(rank);
  return map;
}

ChunkMap zigzag(int num_ranks) {
  ChunkMap map = contiguous(num_ranks);
  for (int rank = num_ranks - 1; rank >= 0; --rank) map.owner.push_back(rank);
  return map;
}

}  // namespace

TEST_CASE("contiguous chunks travel to the last rank and no further") {
  const ChunkMap map = contiguous(4);
  CHECK(num_hops(map, 0) == 3);
  CHECK(num_hops(map, 1) == 2);
  CHECK(num_hops(map, 3) == 0);
  // Rank r passes on its own block and those of all ranks before it.
  CHECK(blocks_sent(map) == std::vector<int>{1, 2, 3, 0});
}

TEST_CASE("zigzag chunks travel as far as a later chunk waits for them") {
  const ChunkMap map = zigzag(4);
  CHECK(num_hops(map, 0) == 3);
  CHECK(num_hops(map, 3) == 3);
  // Chunk 4 belongs to rank 3; ranks 0, 1, 2 hold later chunks.
  CHECK(num_hops(map, 4) == 3);
  // Chunk 6 belongs to rank 1; only chunk 7 of rank 0 is later: three hops, two of them in transit.
  CHECK(num_hops(map, 6) == 3);
  CHECK(num_hops(map, 7) == 0);
}

TEST_CASE("every rank gets exactly the blocks that it needs, and others only in transit") {
  const int num_ranks = GENERATE(1, 2, 3, 4, 8);
  const ChunkMap map = GENERATE_COPY(contiguous(num_ranks), zigzag(num_ranks));
  int arrivals = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const Schedule schedule = make_schedule(map, rank);
    const int last_owned = schedule.owned.back();
    std::set<int> needed;
    for (const Arrival& arrival : schedule.arrivals) {
      CHECK(map.owner[static_cast<size_t>(arrival.chunk)] != rank);
      CHECK((arrival.needed || arrival.forwarded));
      if (arrival.needed) CHECK(needed.insert(arrival.chunk).second);
      ++arrivals;
    }
    std::set<int> expected;
    for (int chunk = 0; chunk < last_owned; ++chunk) {
      if (map.owner[static_cast<size_t>(chunk)] != rank) expected.insert(chunk);
    }
    CHECK(needed == expected);
  }
  const std::vector<int> sent = blocks_sent(map);
  CHECK(std::accumulate(sent.begin(), sent.end(), 0) == arrivals);
}
