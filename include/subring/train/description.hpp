#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "subring/config/config.hpp"
#include "subring/mesh/mesh.hpp"
#include "subring/model/transformer.hpp"

namespace subring::train {

/// What there is to say of a run before it starts.
struct RunFacts {
  const config::Config& config;
  const mesh::Mesh& mesh;
  const ring::ChunkMap& chunks;
  Backend& backend;
  model::Transformer& transformer;
  std::vector<const Arena*> arenas;  ///< all memory of this rank
  int64_t num_sequences = 0;         ///< of training data, in one epoch
  double peak_flops = 0;             ///< measured, all ranks; 0: not measured
};

/// Bytes of K and V blocks, and of their gradients, that all ranks send in one step; to the byte,
/// but for the angles of rotation.source previous_chunk.
/// @param block_bytes  of one chunk and layer
int64_t kv_bytes_of_step(const config::Config& config,
                         const ring::ChunkMap& chunks,
                         int64_t block_bytes);

/// What codec none would send in bf16: the reference of every ratio.
int64_t uncompressed_kv_bytes_of_step(const config::Config& config, const ring::ChunkMap& chunks);

/// 6 N T of the matrix products and 6 T^2 d a layer of causal attention (forward once, backward
/// twice), all sequences of one step.
double model_flops_of_step(const config::Config& config, int64_t num_matmul_parameters);

/// For people: backend, mesh, data, memory of this rank by name, bytes a step.
std::vector<std::string> describe_run(const RunFacts& facts);

/// The object of the first line of metrics.jsonl: version, config, mesh, host, memory.
std::string run_json(const RunFacts& facts);

/// The most memory that this process has had resident (all its ranks, where they are threads).
int64_t peak_resident_bytes();

}  // namespace subring::train
