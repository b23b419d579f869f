#pragma once

#include "subring/attention/context_attention.hpp"
#include "subring/codec/options.hpp"
#include "subring/mesh/options.hpp"
#include "subring/model/options.hpp"

namespace subring::mesh {

/// What attention over one sequence looks like on each of `cp_size` ranks.
/// @throws Error{config}  see num_chunks
attention::ContextShape context_shape(const model::ModelOptions& model,
                                      const codec::CompressionOptions& compression,
                                      const ParallelismOptions& parallelism,
                                      int cp_size,
                                      int64_t seq_len);

}  // namespace subring::mesh
