#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "subring/codec/projection.hpp"
#include "subring/core/arena.hpp"

namespace subring::codec {

/// Parameters of one subspace (K or V of one layer) and their gradients. Letters as in Projection.
struct SubspaceParameters {
  View basis;           ///< Ubar [e, r], orthonormal columns
  View d_basis;         ///< [e, r]; empty when the basis is not learned
  View angle_weight;    ///< w [k, d]; empty when the subspace does not rotate, and so the bias
  View d_angle_weight;  ///< [k, d]; empty when the heads are not learned, and so the bias's
  View angle_bias;      ///< b [1, k]
  View d_angle_bias;    ///< [1, k]
};

/// The fixed generators A_g of the rotation: coordinates are paired at random into e / 2 planes
/// that are dealt round to the k generators; each turns its planes by its angle. So A^2 = -1 on the
/// planes, generators commute, and R(theta) costs O(e r) (method.md section 2).
struct PlanePairing {
  std::vector<int32_t> partner;
  std::vector<float> sign;
  std::vector<int32_t> generator;
};

/// @param kv_width  even. @param generators  1 .. kv_width / 2
PlanePairing make_plane_pairing(uint64_t seed, int64_t kv_width, int64_t generators);

/// Memory that the projections of all layers share: each uses it only inside one call.
struct SubspaceScratch {
  View u;    ///< [e, r]
  View d_u;  ///< [e, r]

  /// @param max_rank  largest r in use
  static SubspaceScratch allocate(Arena& arena, int64_t kv_width, int64_t max_rank);
};

/// Codec subspace: z = plain U(theta), decoded = z U(theta)^T, U(theta) = R(theta) Ubar.
///
/// plain = X B is the ordinary K or V of the model, so z = X B U and decoded = X B U U^T (method.md
/// sections 2 and 3; the gradient in coordinates is exact). Cost a chunk: encode and decode
/// 2 n e r flops each, backward twice that.
/// @param planes  ignored for rotation none
std::unique_ptr<Projection> make_subspace_projection(Backend& backend,
                                                     RotationKind rotation,
                                                     const RotationPlanes& planes,
                                                     const SubspaceParameters& parameters,
                                                     const SubspaceScratch& scratch);

}  // namespace subring::codec
