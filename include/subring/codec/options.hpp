#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "subring/backend/shapes.hpp"
#include "subring/core/enum_names.hpp"

namespace subring::codec {

enum class Codec { none, subspace, latent, topk, quantize };
constexpr EnumNames<Codec, 5> enum_names(Codec) {
  return {{{Codec::none, "none"},
           {Codec::subspace, "subspace"},
           {Codec::latent, "latent"},
           {Codec::topk, "topk"},
           {Codec::quantize, "quantize"}}};
}

/// The last one: angles of frozen random heads, turned as `exact` does (the paper's ablation).
enum class RotationKind { none, taylor2, exact, expm, random };
constexpr EnumNames<RotationKind, 5> enum_names(RotationKind) {
  return {{{RotationKind::none, "none"},
           {RotationKind::taylor2, "taylor2"},
           {RotationKind::exact, "exact"},
           {RotationKind::expm, "expm"},
           {RotationKind::random, "random"}}};
}

enum class RotationSource { chunk, previous_chunk };
constexpr EnumNames<RotationSource, 2> enum_names(RotationSource) {
  return {{{RotationSource::chunk, "chunk"}, {RotationSource::previous_chunk, "previous_chunk"}}};
}

/// `compression.rotation`: how a chunk's subspace follows its content (method.md section 2).
struct RotationOptions {
  RotationKind kind = RotationKind::exact;
  RotationSource source = RotationSource::chunk;
  int64_t generators = 1;
};

/// Section `compression`.
struct CompressionOptions {
  Codec codec = Codec::subspace;
  int64_t key_rank = 16;
  int64_t value_rank = 32;
  int64_t latent_rank = 48;    ///< codec latent: numbers a token, for K and V together
  int64_t warmup_steps = 100;  ///< plain steps before compression; 0: a random basis from the start
  int64_t covariance_steps = 10;  ///< last plain steps whose K and V give the basis
  bool exact_local = true;        ///< pairs inside one chunk use plain K and V
  bool learned_basis = true;      ///< the basis is trained on the Stiefel manifold
  double basis_lr_factor = 3.0;   ///< learning rate of the basis, relative to optimizer.lr
  RotationOptions rotation;
  double topk_fraction = 0.1;  ///< codec topk: share of each token's K and V that travels
  /// Of coordinates; with codec topk of the kept values, with none and quantize of plain K and V.
  FrameFormat wire_dtype = FrameFormat::int8;
  /// Of plain K and V where a codec but none compresses later or no more: warm start, unplugged.
  FrameFormat warmup_wire_dtype = FrameFormat::bf16;
  int64_t unplug_at_step = -1;  ///< back to plain K and V from this step on; -1: never

  /// Whether the codec has parameters of its own, set by the warm start and trained after it.
  bool has_parameters() const { return codec == Codec::subspace || codec == Codec::latent; }

  /// Numbers that codec topk keeps of a token's row of K, and of V: the nearest count, at least 1.
  int64_t kept_of(int64_t kv_width) const {
    return std::max<int64_t>(1, std::llround(topk_fraction * static_cast<double>(kv_width)));
  }
};

}  // namespace subring::codec
