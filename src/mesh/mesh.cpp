#include "subring/mesh/mesh.hpp"

namespace subring::mesh {

namespace {

int checked_degree(int64_t degree, int64_t lowest, int num_ranks, std::string_view key) {
  SUBRING_CHECK(degree >= lowest && degree <= num_ranks,
                ErrorKind::config,
                "parallelism.{} is {}, allowed: {} to the number of ranks, {}",
                key,
                degree,
                lowest,
                num_ranks);
  return static_cast<int>(degree);
}

}  // namespace

Degrees resolve_degrees(const ParallelismOptions& options, int num_ranks) {
  SUBRING_CHECK(options.pipeline_parallel_degree == 1,
                ErrorKind::config,
                "parallelism.pipeline_parallel_degree is {}, allowed: 1",
                options.pipeline_parallel_degree);
  Degrees degrees;
  degrees.dp = checked_degree(options.data_parallel_degree, 1, num_ranks, "data_parallel_degree");
  degrees.cp =
      checked_degree(options.context_parallel_degree, 0, num_ranks, "context_parallel_degree");
  if (degrees.cp == 0) degrees.cp = num_ranks / degrees.dp;
  // 64 bits: two degrees of up to 2^31 each.
  SUBRING_CHECK(int64_t{degrees.dp} * degrees.cp == num_ranks,
                ErrorKind::config,
                "parallelism: data_parallel_degree {} x context_parallel_degree {} is not the "
                "number of ranks, {}",
                degrees.dp,
                degrees.cp,
                num_ranks);
  return degrees;
}

Coordinates coordinates_of(const Degrees& degrees, int world_rank) {
  return {.dp = world_rank / (degrees.pp * degrees.cp),
          .pp = world_rank / degrees.cp % degrees.pp,
          .cp = world_rank % degrees.cp};
}

int world_rank_of(const Degrees& degrees, const Coordinates& coordinates) {
  return (coordinates.dp * degrees.pp + coordinates.pp) * degrees.cp + coordinates.cp;
}

Mesh make_mesh(const ParallelismOptions& options,
               wire::Transport& transport,
               std::chrono::duration<double> timeout) {
  const Degrees degrees = resolve_degrees(options, transport.size());
  const Coordinates here = coordinates_of(degrees, transport.rank());
  Mesh mesh{.degrees = degrees,
            .coordinates = here,
            .cp = {&transport, {}, here.cp, timeout},
            .dp = {&transport, {}, here.dp, timeout},
            .world = {&transport, {}, transport.rank(), timeout}};
  for (int cp = 0; cp < degrees.cp; ++cp) {
    mesh.cp.ranks.push_back(world_rank_of(degrees, {here.dp, here.pp, cp}));
  }
  for (int dp = 0; dp < degrees.dp; ++dp) {
    mesh.dp.ranks.push_back(world_rank_of(degrees, {dp, here.pp, here.cp}));
  }
  for (int rank = 0; rank < transport.size(); ++rank) mesh.world.ranks.push_back(rank);
  return mesh;
}

int num_chunks(const ParallelismOptions& options, int cp_size) {
  const int64_t unit =
      options.load_balancer == LoadBalancer::zigzag ? 2 * int64_t{cp_size} : int64_t{cp_size};
  const int64_t count = options.chunks == 0 ? unit : options.chunks;
  constexpr int64_t kMaxChunks = 4096;  // two message tags each, below those of angles
  SUBRING_CHECK(count > 0 && count % unit == 0 && count <= kMaxChunks,
                ErrorKind::config,
                "parallelism.chunks is {}, allowed: multiples of {} ({} on {} ranks) up to 4096",
                options.chunks,
                unit,
                to_string(options.load_balancer),
                cp_size);
  return static_cast<int>(count);
}

ring::ChunkMap make_chunk_map(const ParallelismOptions& options,
                              int cp_size,
                              int64_t seq_len,
                              int64_t rotation) {
  const int count = num_chunks(options, cp_size);
  SUBRING_CHECK(seq_len > 0 && seq_len % count == 0,
                ErrorKind::config,
                "data.seq_len is {}, allowed: multiples of the {} chunks of a sequence",
                seq_len,
                count);
  const bool zigzag = options.load_balancer == LoadBalancer::zigzag;
  const int num_runs = zigzag ? 2 * cp_size : cp_size;
  ring::ChunkMap map{.num_ranks = cp_size, .owner = {}, .chunk_tokens = seq_len / count};
  for (int chunk = 0; chunk < count; ++chunk) {
    const int run = chunk / (count / num_runs);
    const int owner = run < cp_size ? run : num_runs - 1 - run;
    map.owner.push_back(static_cast<int>((owner + rotation) % cp_size));
  }
  return map;
}

}  // namespace subring::mesh
