#pragma once

#include <cstdint>

namespace subring::model {

/// Section `model`: a Llama-3 style transformer, under Hugging Face's names.
struct ModelOptions {
  int64_t hidden_size = 256;
  int64_t num_hidden_layers = 4;
  int64_t num_attention_heads = 8;
  int64_t num_key_value_heads = 8;
  int64_t intermediate_size = 688;
  int64_t vocab_size = 257;
  double rope_theta = 500000.0;
  double rms_norm_eps = 1e-5;
  bool tie_word_embeddings = false;
  /// Keep only block inputs and attention outputs between forward and backward; make the rest
  /// again.
  bool activation_recomputation = false;

  int64_t head_dim() const { return hidden_size / num_attention_heads; }
  /// Width of K and V (d_kv in docs/shapes.md).
  int64_t kv_width() const { return num_key_value_heads * head_dim(); }
};

}  // namespace subring::model
