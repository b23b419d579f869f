#include "subring/mesh/mesh.hpp"

#include <set>

#include "subring/wire/local.hpp"
#include "support/catch.hpp"

using namespace subring;
using namespace subring::mesh;

namespace {

ParallelismOptions options_of(int64_t dp, int64_t cp) {
  ParallelismOptions options;
  options.data_parallel_degree = dp;
  options.context_parallel_degree = cp;
  return options;
}

ParallelismOptions chunked(LoadBalancer load_balancer, int64_t chunks) {
  ParallelismOptions options;
  options.load_balancer = load_balancer;
  options.chunks = chunks;
  return options;
}

/// Pairs of query and key chunk that causality leaves to `rank`.
int work_of(const ring::ChunkMap& map, int rank) {
  int pairs = 0;
  for (int chunk : map.chunks_of(rank)) pairs += chunk + 1;
  return pairs;
}

}  // namespace

TEST_CASE("coordinates and world ranks are inverse, cp innermost") {
  const Degrees degrees{.dp = 3, .pp = 2, .cp = 4};
  std::set<int> seen;
  for (int rank = 0; rank < degrees.num_ranks(); ++rank) {
    const Coordinates c = coordinates_of(degrees, rank);
    REQUIRE((c.dp < 3 && c.pp < 2 && c.cp < 4));
    REQUIRE(world_rank_of(degrees, c) == rank);
    seen.insert((c.dp * 10 + c.pp) * 10 + c.cp);
  }
  REQUIRE(seen.size() == 24);
  REQUIRE(coordinates_of(degrees, 0) == Coordinates{0, 0, 0});
  REQUIRE(coordinates_of(degrees, 1) == Coordinates{0, 0, 1});
  REQUIRE(coordinates_of(degrees, 4) == Coordinates{0, 1, 0});
  REQUIRE(coordinates_of(degrees, 8) == Coordinates{1, 0, 0});
}

TEST_CASE("degrees follow the options or what is left of the ranks") {
  REQUIRE(resolve_degrees(options_of(1, 0), 4) == Degrees{1, 1, 4});
  REQUIRE(resolve_degrees(options_of(2, 0), 4) == Degrees{2, 1, 2});
  REQUIRE(resolve_degrees(options_of(4, 1), 4) == Degrees{4, 1, 1});
}

TEST_CASE("degrees that do not fit the ranks are config errors") {
  const auto kind_of = [](const ParallelismOptions& options, int num_ranks) {
    try {
      resolve_degrees(options, num_ranks);
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::shape;
  };
  REQUIRE(kind_of(options_of(1, 3), 4) == ErrorKind::config);
  REQUIRE(kind_of(options_of(3, 0), 4) == ErrorKind::config);
  REQUIRE(kind_of(options_of(0, 0), 4) == ErrorKind::config);
  REQUIRE(kind_of(options_of(1, -1), 4) == ErrorKind::config);
  REQUIRE(kind_of(options_of(8, 1), 4) == ErrorKind::config);
  ParallelismOptions pipelined;
  pipelined.pipeline_parallel_degree = 2;
  REQUIRE(kind_of(pipelined, 4) == ErrorKind::config);
}

TEST_CASE("groups of the mesh: rows share a sequence, columns a place in it") {
  std::vector<Mesh> meshes(6);
  wire::run_local_ranks(6, [&](wire::Transport& transport) {
    Mesh mesh = make_mesh(options_of(2, 3), transport, std::chrono::seconds(60));
    std::vector<double> sums{1.0 * transport.rank()};
    wire::all_reduce_sum(mesh.cp, sums, wire::TrafficKind::other);
    wire::all_reduce_sum(mesh.dp, sums, wire::TrafficKind::other);
    // Row sums, then column sums, make the sum of all.
    SUBRING_CHECK(sums[0] == 15.0, ErrorKind::shape, "sum over the mesh: {}", sums[0]);
    meshes[static_cast<size_t>(transport.rank())] = mesh;
  });
  const Mesh& mesh = meshes[4];
  REQUIRE(mesh.coordinates == Coordinates{1, 0, 1});
  REQUIRE(mesh.cp.ranks == std::vector<int>{3, 4, 5});
  REQUIRE(mesh.cp.index == 1);
  REQUIRE(mesh.dp.ranks == std::vector<int>{1, 4});
  REQUIRE(mesh.dp.index == 1);
  REQUIRE(mesh.world.ranks == std::vector<int>{0, 1, 2, 3, 4, 5});
  REQUIRE(mesh.world.index == 4);
  REQUIRE(mesh.cp.neighbour(1) == 5);
  REQUIRE(mesh.cp.neighbour(-2) == 5);
}

TEST_CASE("contiguous chunks") {
  REQUIRE(make_chunk_map(chunked(LoadBalancer::contiguous, 0), 4, 64, 0).owner ==
          std::vector<int>{0, 1, 2, 3});
  const auto map = make_chunk_map(chunked(LoadBalancer::contiguous, 6), 3, 60, 0);
  REQUIRE(map.owner == std::vector<int>{0, 0, 1, 1, 2, 2});
  REQUIRE(map.chunk_tokens == 10);
  REQUIRE(map.num_ranks == 3);
  REQUIRE(map.chunks_of(1) == std::vector<int>{2, 3});
}

TEST_CASE("zigzag chunks give every rank the same causal work") {
  REQUIRE(make_chunk_map(chunked(LoadBalancer::zigzag, 0), 2, 64, 0).owner ==
          std::vector<int>{0, 1, 1, 0});
  REQUIRE(make_chunk_map(chunked(LoadBalancer::zigzag, 0), 1, 64, 0).owner ==
          std::vector<int>{0, 0});
  const auto map = make_chunk_map(chunked(LoadBalancer::zigzag, 12), 3, 120, 0);
  REQUIRE(map.owner == std::vector<int>{0, 0, 1, 1, 2, 2, 2, 2, 1, 1, 0, 0});
  REQUIRE(map.chunks_of(1) == std::vector<int>{2, 3, 8, 9});
  for (int rank = 0; rank < 3; ++rank) REQUIRE(work_of(map, rank) == work_of(map, 0));
}

TEST_CASE("rotation moves ownership on by one rank a step") {
  const auto load_balancer = GENERATE(LoadBalancer::contiguous, LoadBalancer::zigzag);
  const auto options = chunked(load_balancer, 8);
  const auto still = make_chunk_map(options, 4, 64, 0);
  const auto moved = make_chunk_map(options, 4, 64, 1);
  for (size_t chunk = 0; chunk < 8; ++chunk) {
    REQUIRE(moved.owner[chunk] == (still.owner[chunk] + 1) % 4);
  }
  REQUIRE(make_chunk_map(options, 4, 64, 4'000'000'004).owner == still.owner);
}

TEST_CASE("chunks that cannot be dealt out are config errors") {
  REQUIRE_THROWS_WITH(
      make_chunk_map(chunked(LoadBalancer::zigzag, 4), 4, 64, 0),
      "parallelism.chunks is 4, allowed: multiples of 8 (zigzag on 4 ranks) up to 4096");
  REQUIRE_THROWS_AS(make_chunk_map(chunked(LoadBalancer::contiguous, 6), 4, 64, 0), Error);
  REQUIRE_THROWS_AS(make_chunk_map(chunked(LoadBalancer::contiguous, -4), 4, 64, 0), Error);
  REQUIRE_THROWS_WITH(make_chunk_map(chunked(LoadBalancer::contiguous, 4), 4, 66, 0),
                      "data.seq_len is 66, allowed: multiples of the 4 chunks of a sequence");
  REQUIRE_THROWS_AS(make_chunk_map(chunked(LoadBalancer::contiguous, 4), 4, 0, 0), Error);
}
