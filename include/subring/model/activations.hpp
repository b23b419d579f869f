#pragma once

#include <vector>

#include "subring/attention/context_attention.hpp"
#include "subring/core/arena.hpp"
#include "subring/model/options.hpp"

namespace subring::model {

/// What one block computes on its way from input to output; n = this rank's tokens. With activation
/// recomputation all layers share one of these and fill it again in the backward pass.
struct BlockActivations {
  View attention_in;    ///< [n, d] normalised input of attention
  View attention_rstd;  ///< [n]
  View q;               ///< [n, Hq * D], RoPE applied
  View k;               ///< [n, e] plain, before RoPE
  View v;               ///< [n, e]
  View mid;             ///< [n, d] residual stream between attention and MLP
  View mlp_in;          ///< [n, d] normalised input of the MLP
  View mlp_rstd;        ///< [n]
  View gate;            ///< [n, f]
  View up;              ///< [n, f]

  static BlockActivations allocate(Arena& arena, const ModelOptions& model, int64_t num_tokens);
  /// Those of `count` tokens from row `first`.
  BlockActivations rows(int64_t first, int64_t count) const;
};

/// What one block keeps from forward to backward.
struct LayerActivations {
  View input;  ///< [n, d] residual stream
  attention::SavedAttention attention;
  BlockActivations block;  ///< the layer's own, or the shared one
};

/// Activations and scratch of one sequence's forward and backward pass.
struct Activations {
  View tokens;  ///< [n] i32
  View labels;  ///< [n] i32, -1 = ignored
  std::vector<LayerActivations> layers;
  View residual;    ///< [n, d] output of the last block
  View final_in;    ///< [n, d] normalised
  View final_rstd;  ///< [n]
  View losses;      ///< [n]
  View logits;      ///< [rows of one piece, V]
  View mlp_hidden;  ///< [n, f] silu(gate) * up, made again where needed

  // Gradients.
  View d_residual;                  ///< [n, d]
  View d_normed;                    ///< [n, d]
  View d_attention;                 ///< [n, Hq * D]
  View d_q, d_k, d_v;               ///< as q, k, v
  View d_mlp_hidden, d_gate, d_up;  ///< [n, f]

  static Activations allocate(Arena& arena,
                              const ModelOptions& model,
                              const attention::ContextShape& context,
                              const attention::CodecLimits& limits);
};

}  // namespace subring::model
