#include "subring/model/transformer.hpp"

#include <algorithm>

namespace subring::model {

using attention::ChunkRange;

Transformer::Transformer(Backend& backend,
                         const ModelOptions& model,
                         const codec::CompressionOptions& compression,
                         const attention::ContextShape& context,
                         uint64_t seed)
    : backend_(backend),
      model_(model),
      context_(context),
      parameters_(backend, model, compression) {
  make_codecs(compression, seed);
  const attention::CodecLimits limits = codec_limits();
  arena_ = make_arena("activations", backend.memory(), [&](Arena& arena) {
    activations_ = Activations::allocate(arena, model_, context_, limits);
    attention_ = std::make_unique<attention::ContextAttention>(backend, context_, limits, arena);
  });
}

attention::CodecLimits Transformer::codec_limits() const {
  attention::CodecLimits limits;
  limits.include(plain_codecs_.front()->layout());
  if (!compressed_codecs_.empty()) limits.include(compressed_codecs_.front()->layout());
  return limits;
}

std::vector<const Arena*> Transformer::arenas() const {
  std::vector<const Arena*> result = {arena_.get()};
  if (codec_arena_ != nullptr) result.push_back(codec_arena_.get());
  return result;
}

void Transformer::set_kv_form(KvForm form) {
  SUBRING_CHECK(form == KvForm::plain || !compressed_codecs_.empty(),
                ErrorKind::shape,
                "codec none has no compressed form");
  kv_form_ = form;
}

void Transformer::set_chunks(const wire::Group& group, const ring::ChunkMap& map) {
  map_ = map;
  owned_ = map.chunks_of(group.index);
  attention_->set_chunks(group, map);
}

attention::LayerAttention Transformer::attention_of(int64_t layer) {
  const auto index = static_cast<size_t>(layer);
  const BlockActivations& block = activations_.layers[index].block;
  return {.index = layer,
          .codec = *codecs(kv_form_)[index],
          .inputs = {.x = block.attention_in, .q = block.q, .k = block.k, .v = block.v},
          .saved = activations_.layers[index].attention};
}

View Transformer::rows(View view, ChunkRange chunks) const {
  return view.rows(chunks.first * context_.chunk_tokens, chunks.count * context_.chunk_tokens);
}

BlockActivations Transformer::block_rows(int64_t layer, ChunkRange chunks) const {
  return activations_.layers[static_cast<size_t>(layer)].block.rows(
      chunks.first * context_.chunk_tokens, chunks.count * context_.chunk_tokens);
}

void Transformer::rope_queries(RopeDirection direction, ChunkRange chunks, View q, Stream& stream) {
  for (int64_t i = 0; i < chunks.count; ++i) {
    const int chunk = owned_[static_cast<size_t>(chunks.first + i)];
    backend_.rope({.num_heads = context_.num_query_heads,
                   .head_dim = context_.head_dim,
                   .first_position = map_.first_position(chunk),
                   .theta = context_.rope_theta},
                  direction,
                  q.rows(i * context_.chunk_tokens, context_.chunk_tokens),
                  stream);
  }
}

void Transformer::norm_forward(
    ConstView x, const WeightPair& weight, View y, View rstd, Stream& stream) {
  backend_.rms_norm_forward(
      x, weight.value, static_cast<float>(model_.rms_norm_eps), y, rstd, stream);
}

void Transformer::linear_forward(
    ConstView x, const WeightPair& weight, View y, Write write, Stream& stream) {
  backend_.matmul(x, Transpose::no, weight.value, Transpose::yes, y, write, stream);
}

void Transformer::forward(std::span<const int32_t> tokens, Stream& stream) {
  backend_.upload(std::as_bytes(tokens), activations_.tokens, stream);
  // 0. Embedding.
  backend_.embedding_forward(
      activations_.tokens, parameters_.embedding.value, activations_.layers.front().input, stream);
  // A chunk that is done with a block goes on to the next one, whose blocks of K and V are so under
  // way before this one is finished.
  const int64_t num_layers = model_.num_hidden_layers;
  attention_->start_forward(attention_of(0));
  enter_block(0, all_chunks(), stream);
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    const bool last = layer + 1 == num_layers;
    if (!last) attention_->start_forward(attention_of(layer + 1));
    // 4. Attention over the whole sequence.
    const auto done = [&](ChunkRange chunks) {
      leave_block(layer, chunks, stream);
      if (!last) enter_block(layer + 1, chunks, stream);
    };
    attention_->finish_forward(attention_of(layer), done, stream);
  }
  // 9. Final norm.
  norm_forward(activations_.residual,
               parameters_.final_norm,
               activations_.final_in,
               activations_.final_rstd,
               stream);
}

void Transformer::enter_block(int64_t layer, ChunkRange chunks, Stream& stream) {
  key_value_inputs(layer, chunks, stream);
  if (observer_) {
    const BlockActivations block = block_rows(layer, chunks);
    observer_(layer, block.attention_in, block.k, block.v);
  }
  attention_->send_forward(attention_of(layer), chunks, stream);
  query_inputs(layer, chunks, stream);
}

void Transformer::key_value_inputs(int64_t layer, ChunkRange chunks, Stream& stream) {
  const TraceSpan span(stream.trace(), "norm, K and V", {.layer = layer});
  const LayerParameters& weights = parameters_.layers[static_cast<size_t>(layer)];
  const View input = rows(activations_.layers[static_cast<size_t>(layer)].input, chunks);
  const BlockActivations block = block_rows(layer, chunks);
  // 1. Norm.
  norm_forward(input, weights.attention_norm, block.attention_in, block.attention_rstd, stream);
  // 2. Projections to K and V; they stay without RoPE until they have travelled.
  linear_forward(block.attention_in, weights.key, block.k, Write::overwrite, stream);
  linear_forward(block.attention_in, weights.value, block.v, Write::overwrite, stream);
}

void Transformer::query_inputs(int64_t layer, ChunkRange chunks, Stream& stream) {
  const TraceSpan span(stream.trace(), "Q", {.layer = layer});
  const LayerParameters& weights = parameters_.layers[static_cast<size_t>(layer)];
  const BlockActivations block = block_rows(layer, chunks);
  // 3. Projection to Q and its RoPE.
  linear_forward(block.attention_in, weights.query, block.q, Write::overwrite, stream);
  rope_queries(RopeDirection::forward, chunks, block.q, stream);
}

void Transformer::mlp_inputs(int64_t layer, ChunkRange chunks, Stream& stream) {
  const LayerParameters& weights = parameters_.layers[static_cast<size_t>(layer)];
  const LayerActivations& saved = activations_.layers[static_cast<size_t>(layer)];
  const BlockActivations block = block_rows(layer, chunks);
  // 5. Output projection and residual.
  backend_.copy(rows(saved.input, chunks), block.mid, stream);
  linear_forward(
      rows(saved.attention.out, chunks), weights.output, block.mid, Write::accumulate, stream);
  // 6. Norm.
  norm_forward(block.mid, weights.mlp_norm, block.mlp_in, block.mlp_rstd, stream);
  // 7. Gate and up projections.
  linear_forward(block.mlp_in, weights.gate, block.gate, Write::overwrite, stream);
  linear_forward(block.mlp_in, weights.up, block.up, Write::overwrite, stream);
}

void Transformer::leave_block(int64_t layer, ChunkRange chunks, Stream& stream) {
  const TraceSpan span(stream.trace(), "output, MLP", {.layer = layer});
  const LayerParameters& weights = parameters_.layers[static_cast<size_t>(layer)];
  const bool last = layer + 1 == model_.num_hidden_layers;
  const View output =
      rows(last ? activations_.residual : activations_.layers[static_cast<size_t>(layer) + 1].input,
           chunks);
  const View hidden = rows(activations_.mlp_hidden, chunks);
  mlp_inputs(layer, chunks, stream);
  const BlockActivations block = block_rows(layer, chunks);
  backend_.swiglu_forward(block.gate, block.up, hidden, stream);
  // 8. Down projection and residual.
  backend_.copy(block.mid, output, stream);
  linear_forward(hidden, weights.down, output, Write::accumulate, stream);
}

double Transformer::loss(std::span<const int32_t> labels, Stream& stream) {
  return head(labels, 0, HeadWork::loss, stream);
}

double Transformer::loss_and_gradient(std::span<const int32_t> labels,
                                      float scale,
                                      Stream& stream) {
  return head(labels, scale, HeadWork::loss_and_gradient, stream);
}

double Transformer::head(std::span<const int32_t> labels,
                         float scale,
                         HeadWork work,
                         Stream& stream) {
  const TraceSpan span(stream.trace(), "head, loss");
  const Activations& a = activations_;
  backend_.upload(std::as_bytes(labels), a.labels, stream);
  const int64_t num_tokens = a.tokens.shape[0];
  const int64_t piece = a.logits.shape[0];
  // 10. Head and loss, a piece of rows at a time; d_normed = gradient of final_in.
  for (int64_t first = 0; first < num_tokens; first += piece) {
    const int64_t count = std::min(piece, num_tokens - first);
    const View logits = a.logits.rows(0, count);
    const ConstView hidden = ConstView(a.final_in).rows(first, count);
    const ConstView piece_labels = ConstView(a.labels).rows(first, count);
    linear_forward(hidden, parameters_.head, logits, Write::overwrite, stream);
    if (work == HeadWork::loss) {
      backend_.cross_entropy_forward(logits, piece_labels, a.losses.rows(first, count), stream);
      continue;
    }
    backend_.cross_entropy_forward_backward(
        logits, piece_labels, scale, a.losses.rows(first, count), stream);
    linear_backward(
        logits, hidden, parameters_.head, a.d_normed.rows(first, count), Write::overwrite, stream);
  }
  return backend_.sum(a.losses, stream);
}

}  // namespace subring::model
