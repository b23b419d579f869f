#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "subring/codec/options.hpp"
#include "subring/model/transformer.hpp"

namespace subring::test {

enum class Assignment { contiguous, zigzag };

/// One sequence through a tiny transformer (2 layers, width 32, 4 heads) on some ranks.
struct ModelCase {
  model::ModelOptions model{.hidden_size = 32,
                            .num_hidden_layers = 2,
                            .num_attention_heads = 4,
                            .num_key_value_heads = 2,
                            .intermediate_size = 48,
                            .vocab_size = 29};
  codec::CompressionOptions compression{.key_rank = 5,
                                        .value_rank = 7,
                                        .latent_rank = 12,
                                        .wire_dtype = FrameFormat::fp32,
                                        .warmup_wire_dtype = FrameFormat::fp32};
  Assignment assignment = Assignment::contiguous;
  int64_t chunks = 4;
  int64_t seq_len = 32;
  uint64_t seed = 3;
  uint64_t rounding_seed = 1;
  /// Standard deviation of the angle heads, so that the subspaces do turn.
  double angle_scale = 0.3;

  std::vector<int32_t> tokens() const;  ///< random, [seq_len]
  std::vector<int32_t> labels() const;  ///< random, [seq_len]
};

struct ModelResult {
  std::vector<float> hidden;     ///< [seq_len, d] final hidden states, by position
  double loss = 0;               ///< sum over the sequence
  std::vector<float> gradients;  ///< all parameters, summed over ranks
};

/// Called on each rank's model before the forward pass.
using ModelEdit = std::function<void(model::Transformer&, Backend&, Stream&)>;

/// Forward and backward with what the codec makes of K and V (codec none: plain).
ModelResult run_model(const ModelCase& test,
                      const std::vector<int32_t>& tokens,
                      const std::vector<int32_t>& labels,
                      int num_ranks,
                      const ModelEdit& edit = {});

}  // namespace subring::test
