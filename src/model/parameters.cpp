#include "subring/model/parameters.hpp"

#include <cmath>
#include <numbers>

#include "subring/core/random.hpp"

namespace subring::model {
namespace {

/// FNV-1a. Each parameter's random stream goes by its name, so that runs with and without subspaces
/// start from the same plain weights.
uint64_t hash_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

constexpr const char* kAngleWeight = ".angle_weight";
constexpr const char* kAngleBias = ".angle_bias";
constexpr const char* kLatentNorm = ".latent.norm";

/// Standard deviation of a parameter's first values. Frozen angle heads, those of a random
/// rotation, spread the angles of chunks over the circle.
double initial_deviation(const Parameter& parameter, const ModelOptions& model) {
  const std::string& name = parameter.name;
  if (name.ends_with(kAngleBias)) return std::numbers::pi;
  if (name.ends_with(kAngleWeight)) {
    return std::numbers::pi / std::sqrt(static_cast<double>(model.hidden_size));
  }
  const bool writes_residual =
      name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
  const auto num_layers = static_cast<double>(model.num_hidden_layers);
  return writes_residual ? 0.02 / std::sqrt(2 * num_layers) : 0.02;
}

}  // namespace

ParameterSet::ParameterSet(Backend& backend,
                           const ModelOptions& model,
                           const codec::CompressionOptions& compression)
    : model_(model) {
  const auto layout = [&] {
    list_.clear();
    layers.clear();
    embedding = add(
        "model.embed_tokens.weight", ParameterRole::matrix, {model.vocab_size, model.hidden_size});
    for (int64_t i = 0; i < model.num_hidden_layers; ++i) add_layer(i, model, compression);
    final_norm = add("model.norm.weight", ParameterRole::norm, {model.hidden_size});
    head =
        model.tie_word_embeddings
            ? embedding
            : add("lm_head.weight", ParameterRole::matrix, {model.vocab_size, model.hidden_size});
  };
  values_ = std::make_unique<Arena>("weights");
  gradients_ = std::make_unique<Arena>("gradients");
  layout();
  const int64_t bytes = values_->used_bytes();
  values_ = std::make_unique<Arena>("weights", bytes, backend.memory());
  gradients_ = std::make_unique<Arena>("gradients", bytes, backend.memory());
  layout();
}

WeightPair ParameterSet::add(std::string name, ParameterRole role, Shape shape) {
  const WeightPair pair{values_->allocate("weights", DType::f32, shape),
                        gradients_->allocate("gradients", DType::f32, shape)};
  list_.push_back({std::move(name), role, pair.value, pair.gradient});
  return pair;
}

codec::SubspaceParameters ParameterSet::add_subspace(const std::string& prefix,
                                                     int64_t rank,
                                                     const ModelOptions& model,
                                                     const codec::CompressionOptions& compression) {
  codec::SubspaceParameters subspace;
  const ParameterRole role =
      compression.learned_basis ? ParameterRole::basis : ParameterRole::frozen;
  const WeightPair basis = add(prefix + ".basis", role, {model.kv_width(), rank});
  subspace.basis = basis.value;
  if (compression.learned_basis) subspace.d_basis = basis.gradient;
  if (compression.rotation.kind == codec::RotationKind::none) return subspace;
  const int64_t k = compression.rotation.generators;
  const bool learned = compression.rotation.kind != codec::RotationKind::random;
  const ParameterRole head_role = learned ? ParameterRole::codec_vector : ParameterRole::frozen;
  const WeightPair weight = add(prefix + kAngleWeight, head_role, {k, model.hidden_size});
  const WeightPair bias = add(prefix + kAngleBias, head_role, {1, k});
  subspace.angle_weight = weight.value;
  subspace.angle_bias = bias.value;
  if (learned) {
    subspace.d_angle_weight = weight.gradient;
    subspace.d_angle_bias = bias.gradient;
  }
  return subspace;
}

codec::LatentParameters ParameterSet::add_latent(const std::string& prefix,
                                                 int64_t rank,
                                                 const ModelOptions& model) {
  const auto matrix = [&](const char* leaf, int64_t outputs, int64_t inputs) {
    return add(prefix + leaf, ParameterRole::codec_matrix, {outputs, inputs});
  };
  const WeightPair down = matrix(".latent.down", rank, model.hidden_size);
  const WeightPair norm = add(prefix + kLatentNorm, ParameterRole::codec_vector, {rank});
  const WeightPair up_key = matrix(".latent.up_key", model.kv_width(), rank);
  const WeightPair up_value = matrix(".latent.up_value", model.kv_width(), rank);
  return {.down = down.value,
          .d_down = down.gradient,
          .norm = norm.value,
          .d_norm = norm.gradient,
          .up_key = up_key.value,
          .d_up_key = up_key.gradient,
          .up_value = up_value.value,
          .d_up_value = up_value.gradient};
}

void ParameterSet::add_layer(int64_t index,
                             const ModelOptions& model,
                             const codec::CompressionOptions& compression) {
  const std::string name = fmt::format("model.layers.{}.", index);
  const int64_t d = model.hidden_size, e = model.kv_width(), f = model.intermediate_size;
  const auto matrix = [&](const char* leaf, int64_t outputs, int64_t inputs) {
    return add(name + leaf + ".weight", ParameterRole::matrix, {outputs, inputs});
  };
  LayerParameters layer;
  layer.attention_norm = add(name + "input_layernorm.weight", ParameterRole::norm, {d});
  layer.query = matrix("self_attn.q_proj", d, d);
  layer.key = matrix("self_attn.k_proj", e, d);
  layer.value = matrix("self_attn.v_proj", e, d);
  layer.output = matrix("self_attn.o_proj", d, d);
  layer.mlp_norm = add(name + "post_attention_layernorm.weight", ParameterRole::norm, {d});
  layer.gate = matrix("mlp.gate_proj", f, d);
  layer.up = matrix("mlp.up_proj", f, d);
  layer.down = matrix("mlp.down_proj", d, f);
  const std::string prefix = fmt::format("subring.layers.{}", index);
  if (compression.codec == codec::Codec::subspace) {
    layer.key_subspace = add_subspace(prefix + ".key", compression.key_rank, model, compression);
    layer.value_subspace =
        add_subspace(prefix + ".value", compression.value_rank, model, compression);
  } else if (compression.codec == codec::Codec::latent) {
    layer.latent = add_latent(prefix, compression.latent_rank, model);
  }
  layers.push_back(layer);
}

View ParameterSet::flat_values() const { return values_->contents(); }
View ParameterSet::flat_gradients() const { return gradients_->contents(); }

int64_t ParameterSet::num_parameters() const {
  int64_t count = 0;
  for (const Parameter& parameter : list_) count += parameter.value.num_elements();
  return count;
}

int64_t ParameterSet::num_matmul_parameters() const {
  int64_t count = head.value.num_elements();
  for (const Parameter& parameter : list_) {
    if (parameter.role == ParameterRole::matrix && parameter.value.data != embedding.value.data &&
        parameter.value.data != head.value.data) {
      count += parameter.value.num_elements();
    }
  }
  return count;
}

void ParameterSet::initialize(Backend& backend, uint64_t seed, Stream& stream) {
  backend.fill(flat_values(), 0, stream);
  backend.fill(flat_gradients(), 0, stream);
  std::vector<float> host;
  for (const Parameter& parameter : list_) {
    const bool is_norm =
        parameter.role == ParameterRole::norm || parameter.name.ends_with(kLatentNorm);
    if (parameter.role == ParameterRole::codec_vector && !is_norm) continue;
    if (is_norm) {
      backend.fill(parameter.value, 1, stream);
      continue;
    }
    const double deviation = initial_deviation(parameter, model_);
    Random random(derive_seed(seed, hash_of(parameter.name)));
    host.resize(static_cast<size_t>(parameter.value.num_elements()));
    for (float& x : host) x = static_cast<float>(deviation * random.normal());
    backend.upload(std::as_bytes(std::span(host)), parameter.value, stream);
    if (parameter.name.ends_with(".basis")) backend.orthonormalize(parameter.value, stream);
  }
}

}  // namespace subring::model
