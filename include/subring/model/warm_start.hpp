#pragma once

#include <memory>
#include <string>
#include <vector>

#include "subring/backend/backend.hpp"
#include "subring/core/arena.hpp"
#include "subring/model/parameters.hpp"
#include "subring/wire/group.hpp"

namespace subring::model {

/// How well a basis holds one tensor of one layer.
struct BasisReport {
  std::string name;            ///< e.g. "layer 3 key"
  double captured_energy = 0;  ///< share of the covariance's trace inside the basis
  double stable_rank = 0;      ///< trace / largest eigenvalue
};

/// End of the warm start (method.md section 4): from second moments of plain K (before RoPE) and V
/// per layer, the first values of the codec's parameters.
class WarmStart {
 public:
  virtual ~WarmStart() = default;

  virtual const Arena& arena() const = 0;

  /// Adds the second moments of some tokens of one layer, k and v [n, e].
  virtual void accumulate(int64_t layer, ConstView k, ConstView v, Stream& stream) = 0;

  /// Sums over the group, then sets the parameters; the same bits on all ranks, since each layer's
  /// are made by one rank and broadcast. Collective. Traffic kind other.
  virtual std::vector<BasisReport> finish(const wire::Group& group,
                                          ParameterSet& parameters,
                                          Stream& stream) = 0;
};

/// Codec subspace: each basis becomes the top-r eigenvectors of K^T K, of V^T V.
/// Memory: 2 layers e^2 numbers. Cost of accumulate: 4 n e^2 flops.
std::unique_ptr<WarmStart> make_subspace_warm_start(Backend& backend,
                                                    int64_t num_layers,
                                                    int64_t kv_width);

/// Codec latent: with U [2e, r] the top-r eigenvectors of [K V]^T [K V], W_uk and W_uv are the rows
/// of U, W_d = U^T [B_K B_V]^T, and the norm's gain is the coordinates' root mean square over all
/// tokens: the best joint projection of the plain weights, but for the norm of each single token.
/// Memory: 3 layers e^2 numbers. Cost of accumulate: 6 n e^2 flops.
std::unique_ptr<WarmStart> make_latent_warm_start(Backend& backend,
                                                  int64_t num_layers,
                                                  int64_t kv_width);

/// Sends what the rank `root` found to all. Collective.
void share_report(const wire::Group& group, int root, BasisReport& report);

/// Replaces the K and V projections by what their bases keep: B <- B Ubar Ubar^T (method.md section
/// 4.3), so that dropping the subspaces changes nothing but the rotation.
void fold_subspaces(Backend& backend, ParameterSet& parameters, Stream& stream);

}  // namespace subring::model
