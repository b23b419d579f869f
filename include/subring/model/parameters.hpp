#pragma once

#include <string>
#include <vector>

#include "subring/backend/backend.hpp"
#include "subring/codec/latent.hpp"
#include "subring/codec/options.hpp"
#include "subring/codec/subspace.hpp"
#include "subring/core/arena.hpp"
#include "subring/model/options.hpp"

namespace subring::model {

/// How the optimizer treats a parameter.
enum class ParameterRole {
  matrix,        ///< AdamW with weight decay
  norm,          ///< AdamW without decay
  codec_matrix,  ///< the codec's own, resting while plain K and V travel: AdamW with decay
  codec_vector,  ///< the same without decay: heads of the rotation angles, norms
  basis,         ///< orthonormal columns: Riemannian step (method.md section 2c)
  frozen,  ///< never changed by the optimizer: a basis that is not learned, random angle heads
};

constexpr bool is_codec_role(ParameterRole role) {
  return role == ParameterRole::codec_matrix || role == ParameterRole::codec_vector ||
         role == ParameterRole::basis;
}

/// A parameter with its gradient; both live in flat arenas in the same order.
struct Parameter {
  std::string name;  ///< Hugging Face's Llama name, or subring.* for the codec's
  ParameterRole role = ParameterRole::matrix;
  View value;
  View gradient;
};

struct WeightPair {
  View value;
  View gradient;
};

/// Parameters of one block. f = intermediate_size, e = kv_width. Matrices are [outputs, inputs].
struct LayerParameters {
  WeightPair attention_norm;                 ///< [d]
  WeightPair query;                          ///< [Hq * D, d]
  WeightPair key;                            ///< [e, d], B^T of method.md
  WeightPair value;                          ///< [e, d]
  WeightPair output;                         ///< [d, Hq * D]
  WeightPair mlp_norm;                       ///< [d]
  WeightPair gate;                           ///< [f, d]
  WeightPair up;                             ///< [f, d]
  WeightPair down;                           ///< [d, f]
  codec::SubspaceParameters key_subspace;    ///< empty but for codec subspace
  codec::SubspaceParameters value_subspace;  ///< the same
  codec::LatentParameters latent;            ///< empty but for codec latent
};

/// All parameters and gradients of a model, each in one flat piece of memory.
class ParameterSet {
 public:
  ParameterSet(Backend& backend,
               const ModelOptions& model,
               const codec::CompressionOptions& compression);

  WeightPair embedding;  ///< [V, d]
  std::vector<LayerParameters> layers;
  WeightPair final_norm;  ///< [d]
  WeightPair head;        ///< [V, d]; the embedding itself when tied

  /// Every parameter once (a tied head is not listed).
  const std::vector<Parameter>& list() const { return list_; }
  /// All of them as one f32 vector, padding included.
  View flat_values() const;
  View flat_gradients() const;
  /// The memory of values and gradients.
  std::vector<const Arena*> arenas() const { return {values_.get(), gradients_.get()}; }
  int64_t num_parameters() const;
  /// Parameters that take part in matrix products: what 6 N flops a token are counted on.
  int64_t num_matmul_parameters() const;

  /// Random weights, the same for the same seed on every rank: normal with standard deviation 0.02,
  /// output projections scaled by 1 / sqrt(2 layers); norms 1; angle heads 0, random those of a
  /// random rotation; random orthonormal bases.
  void initialize(Backend& backend, uint64_t seed, Stream& stream);

 private:
  WeightPair add(std::string name, ParameterRole role, Shape shape);
  codec::SubspaceParameters add_subspace(const std::string& prefix,
                                         int64_t rank,
                                         const ModelOptions& model,
                                         const codec::CompressionOptions& compression);
  codec::LatentParameters add_latent(const std::string& prefix,
                                     int64_t rank,
                                     const ModelOptions& model);
  void add_layer(int64_t index,
                 const ModelOptions& model,
                 const codec::CompressionOptions& compression);

  std::unique_ptr<Arena> values_;
  std::unique_ptr<Arena> gradients_;
  std::vector<Parameter> list_;
  ModelOptions model_;
};

}  // namespace subring::model
