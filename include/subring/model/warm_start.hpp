#pragma once

#include <memory>
#include <string>
#include <vector>

#include "subring/backend/backend.hpp"
#include "subring/core/arena.hpp"
#include "subring/model/parameters.hpp"
#include "subring/wire/group.hpp"

namespace subring::model {

/// How well the chosen basis holds one tensor of one layer.
struct BasisReport {
  std::string name;            ///< e.g. "layer 3 key"
  double captured_energy = 0;  ///< share of the covariance's trace inside the basis
  double stable_rank = 0;      ///< trace / largest eigenvalue
};

/// End of the warm start (method.md section 4): second moments of plain K (before RoPE) and V per
/// layer, and from their leading eigenvectors the first bases of the subspaces.
class WarmStart {
 public:
  /// Memory: 2 layers e^2 numbers.
  WarmStart(Backend& backend, int64_t num_layers, int64_t kv_width);

  const Arena& arena() const { return *arena_; }

  /// Adds k^T k and v^T v of one layer. Cost: 4 n e^2 flops.
  void accumulate(int64_t layer, ConstView k, ConstView v, Stream& stream);

  /// Sums over the group, then sets every basis to its top-r eigenvectors; the same bits on all
  /// ranks, since each basis is made by one rank and broadcast. Collective. Traffic kind other.
  std::vector<BasisReport> finish(const wire::Group& group,
                                  ParameterSet& parameters,
                                  Stream& stream);

 private:
  BasisReport set_basis(int64_t index, View basis, Stream& stream);

  Backend& backend_;
  int64_t kv_width_;
  std::unique_ptr<Arena> arena_;
  std::vector<View> moments_;  // [e, e]: key and value of layer 0, of layer 1, ...
  View eigenvectors_;          // [e, e]
  View eigenvalues_;           // [e]
};

/// Replaces the K and V projections by what their bases keep: B <- B Ubar Ubar^T (method.md section
/// 4.3), so that dropping the subspaces changes nothing but the rotation.
void fold_subspaces(Backend& backend, ParameterSet& parameters, Stream& stream);

}  // namespace subring::model
