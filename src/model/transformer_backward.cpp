#include "subring/core/random.hpp"
#include "subring/model/transformer.hpp"

namespace subring::model {

using attention::ChunkRange;

void Transformer::input_gradient(
    ConstView d_y, const WeightPair& weight, View d_x, Write write, Stream& stream) {
  backend_.matmul(d_y, Transpose::no, weight.value, Transpose::no, d_x, write, stream);
}

void Transformer::weight_gradient(ConstView d_y,
                                  ConstView x,
                                  const WeightPair& weight,
                                  Stream& stream) {
  backend_.matmul(
      d_y, Transpose::yes, x, Transpose::no, weight.gradient, Write::accumulate, stream);
}

void Transformer::linear_backward(
    ConstView d_y, ConstView x, const WeightPair& weight, View d_x, Write write, Stream& stream) {
  weight_gradient(d_y, x, weight, stream);
  input_gradient(d_y, weight, d_x, write, stream);
}

void Transformer::backward(uint64_t rounding_seed, Stream& stream) {
  const Activations& a = activations_;
  // 9'. Final norm.
  backend_.rms_norm_backward(a.d_normed,
                             a.residual,
                             parameters_.final_norm.value,
                             a.final_rstd,
                             a.d_residual,
                             Write::overwrite,
                             parameters_.final_norm.gradient,
                             stream);
  const int64_t last = model_.num_hidden_layers - 1;
  leave_block_backward(last, all_chunks(), stream);
  for (int64_t layer = last; layer >= 0; --layer) {
    attention_backward(layer, derive_seed(rounding_seed, static_cast<uint64_t>(layer)), stream);
  }
  // 0'. Embedding.
  backend_.embedding_backward(a.tokens, a.d_residual, parameters_.embedding.gradient, stream);
}

void Transformer::leave_block_backward(int64_t layer, ChunkRange chunks, Stream& stream) {
  const TraceSpan span(stream.trace(), "output, MLP backward", {.layer = layer});
  if (model_.activation_recomputation) {
    key_value_inputs(layer, chunks, stream);
    query_inputs(layer, chunks, stream);
    mlp_inputs(layer, chunks, stream);
  }
  const LayerParameters& weights = parameters_.layers[static_cast<size_t>(layer)];
  const BlockActivations block = block_rows(layer, chunks);
  const Activations& a = activations_;
  const View d_residual = rows(a.d_residual, chunks);
  const View hidden = rows(a.mlp_hidden, chunks), d_hidden = rows(a.d_mlp_hidden, chunks);
  const View d_gate = rows(a.d_gate, chunks), d_up = rows(a.d_up, chunks);
  const View d_normed = rows(a.d_normed, chunks);
  // 8'. Down projection.
  backend_.swiglu_forward(block.gate, block.up, hidden, stream);
  linear_backward(d_residual, hidden, weights.down, d_hidden, Write::overwrite, stream);
  // 7'. Gate and up.
  backend_.swiglu_backward(d_hidden, block.gate, block.up, d_gate, d_up, stream);
  input_gradient(d_gate, weights.gate, d_normed, Write::overwrite, stream);
  input_gradient(d_up, weights.up, d_normed, Write::accumulate, stream);
  // 6'. Norm; the residual branch keeps its gradient.
  backend_.rms_norm_backward(d_normed,
                             block.mid,
                             weights.mlp_norm.value,
                             block.mlp_rstd,
                             d_residual,
                             Write::accumulate,
                             weights.mlp_norm.gradient,
                             stream);
  // 5'. Output projection.
  input_gradient(d_residual, weights.output, rows(a.d_attention, chunks), Write::overwrite, stream);
}

void Transformer::attention_backward(int64_t layer, uint64_t rounding_seed, Stream& stream) {
  const Activations& a = activations_;
  const attention::AttentionGradients gradients{
      .d_out = a.d_attention, .d_x = a.d_normed, .d_q = a.d_q, .d_k = a.d_k, .d_v = a.d_v};
  // 4'. Attention. While the gradients of K and V come home, all that does not need them is done;
  // then each chunk goes on to the block before as soon as its own are there.
  attention_->start_backward(attention_of(layer), gradients, rounding_seed, stream);
  query_backward(layer, stream);
  deferred_weight_gradients(layer, stream);
  const auto done = [&](ChunkRange chunks) {
    enter_block_backward(layer, chunks, stream);
    if (layer > 0) leave_block_backward(layer - 1, chunks, stream);
  };
  attention_->finish_backward(attention_of(layer), gradients, done, stream);
}

void Transformer::query_backward(int64_t layer, Stream& stream) {
  const TraceSpan span(stream.trace(), "Q backward", {.layer = layer});
  const LayerParameters& weights = parameters_.layers[static_cast<size_t>(layer)];
  const BlockActivations& block = activations_.layers[static_cast<size_t>(layer)].block;
  const Activations& a = activations_;
  // 3'. RoPE and projection to Q; the input's gradient begins here.
  rope_queries(RopeDirection::backward, all_chunks(), a.d_q, stream);
  linear_backward(a.d_q, block.attention_in, weights.query, a.d_normed, Write::overwrite, stream);
}

void Transformer::deferred_weight_gradients(int64_t layer, Stream& stream) {
  const TraceSpan span(stream.trace(), "weight gradients", {.layer = layer});
  const LayerParameters& weights = parameters_.layers[static_cast<size_t>(layer)];
  const LayerActivations& saved = activations_.layers[static_cast<size_t>(layer)];
  const Activations& a = activations_;
  // Of 7' and 5': their operands stay as they are until a chunk leaves this layer.
  weight_gradient(a.d_gate, saved.block.mlp_in, weights.gate, stream);
  weight_gradient(a.d_up, saved.block.mlp_in, weights.up, stream);
  weight_gradient(a.d_residual, saved.attention.out, weights.output, stream);
}

void Transformer::enter_block_backward(int64_t layer, ChunkRange chunks, Stream& stream) {
  const TraceSpan span(stream.trace(), "norm, K and V backward", {.layer = layer});
  const LayerParameters& weights = parameters_.layers[static_cast<size_t>(layer)];
  const BlockActivations block = block_rows(layer, chunks);
  const Activations& a = activations_;
  const View d_k = rows(a.d_k, chunks), d_v = rows(a.d_v, chunks);
  const View d_normed = rows(a.d_normed, chunks);
  // 2'. Projections to K and V.
  linear_backward(d_k, block.attention_in, weights.key, d_normed, Write::accumulate, stream);
  linear_backward(d_v, block.attention_in, weights.value, d_normed, Write::accumulate, stream);
  // 1'. Norm.
  backend_.rms_norm_backward(d_normed,
                             rows(activations_.layers[static_cast<size_t>(layer)].input, chunks),
                             weights.attention_norm.value,
                             block.attention_rstd,
                             rows(a.d_residual, chunks),
                             Write::accumulate,
                             weights.attention_norm.gradient,
                             stream);
}

}  // namespace subring::model
