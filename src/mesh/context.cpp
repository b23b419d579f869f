#include "subring/mesh/context.hpp"

#include "subring/mesh/mesh.hpp"

namespace subring::mesh {

attention::ContextShape context_shape(const model::ModelOptions& model,
                                      const codec::CompressionOptions& compression,
                                      const ParallelismOptions& parallelism,
                                      int cp_size,
                                      int64_t seq_len) {
  const int num_chunks = mesh::num_chunks(parallelism, cp_size);
  return {.hidden_size = model.hidden_size,
          .num_query_heads = model.num_attention_heads,
          .num_kv_heads = model.num_key_value_heads,
          .head_dim = model.head_dim(),
          .rope_theta = model.rope_theta,
          .chunk_tokens = seq_len / num_chunks,
          .num_chunks = num_chunks,
          .num_owned_chunks = num_chunks / cp_size,
          .local_form = compression.exact_local ? attention::LocalForm::exact
                                                : attention::LocalForm::compressed,
          .angle_source = compression.rotation.source == codec::RotationSource::previous_chunk
                              ? attention::AngleSource::previous_chunk
                              : attention::AngleSource::chunk};
}

}  // namespace subring::mesh
