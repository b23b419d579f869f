#include "subring/model/activations.hpp"

#include <algorithm>

namespace subring::model {
namespace {

/// Logits are made in pieces of at most this many numbers (16 MiB), never all at once.
constexpr int64_t kLogitsElements = 4 << 20;

}  // namespace

BlockActivations BlockActivations::allocate(Arena& arena,
                                            const ModelOptions& model,
                                            int64_t num_tokens) {
  const auto matrix = [&](int64_t width) {
    return arena.allocate("block activations", DType::f32, {num_tokens, width});
  };
  const auto vector = [&] { return arena.allocate("block activations", DType::f32, {num_tokens}); };
  return {.attention_in = matrix(model.hidden_size),
          .attention_rstd = vector(),
          .q = matrix(model.hidden_size),
          .k = matrix(model.kv_width()),
          .v = matrix(model.kv_width()),
          .mid = matrix(model.hidden_size),
          .mlp_in = matrix(model.hidden_size),
          .mlp_rstd = vector(),
          .gate = matrix(model.intermediate_size),
          .up = matrix(model.intermediate_size)};
}

BlockActivations BlockActivations::rows(int64_t first, int64_t count) const {
  return {.attention_in = attention_in.rows(first, count),
          .attention_rstd = attention_rstd.rows(first, count),
          .q = q.rows(first, count),
          .k = k.rows(first, count),
          .v = v.rows(first, count),
          .mid = mid.rows(first, count),
          .mlp_in = mlp_in.rows(first, count),
          .mlp_rstd = mlp_rstd.rows(first, count),
          .gate = gate.rows(first, count),
          .up = up.rows(first, count)};
}

Activations Activations::allocate(Arena& arena,
                                  const ModelOptions& model,
                                  const attention::ContextShape& context,
                                  const attention::CodecLimits& limits) {
  const int64_t n = context.num_owned_tokens();
  const auto matrix = [&](int64_t width) {
    return arena.allocate("step scratch", DType::f32, {n, width});
  };
  Activations step;
  step.tokens = arena.allocate("tokens", DType::i32, {n});
  step.labels = arena.allocate("tokens", DType::i32, {n});
  BlockActivations shared;
  if (model.activation_recomputation) shared = BlockActivations::allocate(arena, model, n);
  for (int64_t i = 0; i < model.num_hidden_layers; ++i) {
    LayerActivations layer;
    layer.input = arena.allocate("block inputs", DType::f32, {n, model.hidden_size});
    layer.attention = attention::SavedAttention::allocate(arena, context, limits);
    layer.block =
        model.activation_recomputation ? shared : BlockActivations::allocate(arena, model, n);
    step.layers.push_back(std::move(layer));
  }
  step.residual = matrix(model.hidden_size);
  step.final_in = matrix(model.hidden_size);
  step.final_rstd = arena.allocate("step scratch", DType::f32, {n});
  step.losses = arena.allocate("step scratch", DType::f32, {n});
  const int64_t rows = std::clamp<int64_t>(kLogitsElements / model.vocab_size, 1, n);
  step.logits = arena.allocate("logits", DType::f32, {rows, model.vocab_size});
  step.mlp_hidden = matrix(model.intermediate_size);
  step.d_residual = matrix(model.hidden_size);
  step.d_normed = matrix(model.hidden_size);
  step.d_attention = matrix(model.hidden_size);
  step.d_q = matrix(model.hidden_size);
  step.d_k = matrix(model.kv_width());
  step.d_v = matrix(model.kv_width());
  step.d_mlp_hidden = matrix(model.intermediate_size);
  step.d_gate = matrix(model.intermediate_size);
  step.d_up = matrix(model.intermediate_size);
  return step;
}

}  // namespace subring::model
