#pragma once

#include <chrono>
#include <cstdint>

#include "subring/mesh/options.hpp"
#include "subring/ring/chunk_map.hpp"
#include "subring/wire/group.hpp"

namespace subring::mesh {

/// Place of a rank in the mesh. World rank = (dp * pp degree + pp) * cp degree + cp: the ranks that
/// share a sequence are neighbours, so that launchers put them on near hosts.
struct Coordinates {
  int dp = 0;  ///< which sequences
  int pp = 0;  ///< which layers; always 0 for now
  int cp = 0;  ///< which part of each sequence

  bool operator==(const Coordinates&) const = default;
};

/// Extents of the mesh; their product is the number of ranks.
struct Degrees {
  int dp = 1;
  int pp = 1;
  int cp = 1;

  int num_ranks() const { return dp * pp * cp; }
  bool operator==(const Degrees&) const = default;
};

/// Degrees for `num_ranks` ranks; a context_parallel_degree of 0 takes all that is left.
/// @throws Error{config}  a degree is below 1 (cp: below 0), pipeline_parallel_degree is not 1, or
/// the product is not num_ranks
Degrees resolve_degrees(const ParallelismOptions& options, int num_ranks);

Coordinates coordinates_of(const Degrees& degrees, int world_rank);
int world_rank_of(const Degrees& degrees, const Coordinates& coordinates);

/// The mesh as one rank sees it: who it is, and with whom it talks.
struct Mesh {
  Degrees degrees;
  Coordinates coordinates;
  wire::Group cp;     ///< share each sequence with this rank; index = coordinates.cp
  wire::Group dp;     ///< hold the same part of other sequences; index = coordinates.dp
  wire::Group world;  ///< all; index = world rank
};

/// The mesh of `transport`'s rank. `transport` outlives it.
/// @throws Error{config}  see resolve_degrees
Mesh make_mesh(const ParallelismOptions& options,
               wire::Transport& transport,
               std::chrono::duration<double> timeout);

/// Chunks of a sequence for `options`: `chunks`, or where that is 0 one a rank (contiguous) or two
/// a rank (zigzag).
/// @throws Error{config}  not a multiple of cp_size (contiguous) or of 2 cp_size (zigzag)
int num_chunks(const ParallelismOptions& options, int cp_size);

/// Who holds which chunk, C chunks on m = `cp_size` ranks.
///
/// Contiguous: rank r has chunks [r C / m, (r + 1) C / m). Under a causal mask the last rank then
/// works most. Zigzag: the C chunks form 2m runs of C / 2m, rank r has runs r and 2m - 1 - r, and
/// all ranks work alike (Llama 3, arXiv 2407.21783, 3.3.2).
///
/// @param rotation  >= 0, moves each chunk on by so many ranks, mod m; 0 unless chunks rotate, then
///                  the step
/// @throws Error{config}  see num_chunks; or seq_len is not a multiple of C
ring::ChunkMap make_chunk_map(const ParallelismOptions& options,
                              int cp_size,
                              int64_t seq_len,
                              int64_t rotation);

}  // namespace subring::mesh
