#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "subring/backend/backend.hpp"
#include "subring/core/arena.hpp"
#include "subring/model/parameters.hpp"
#include "subring/wire/group.hpp"

namespace subring::model {

/// How the energy (squared Frobenius norm) of one tensor's rows spreads over directions: the
/// eigenvalues of its uncentred second moments.
struct Spectrum {
  int64_t layer = 0;
  std::string_view tensor;          ///< "q", "k" (both before RoPE) or "v"
  int64_t width = 0;                ///< of a row, all heads
  double stable_rank = 0;           ///< ||A||_F^2 / ||A||_2^2; 0 for a tensor of zeros
  int64_t components_90 = 0;        ///< leading directions that hold 90 % of the energy
  int64_t components_95 = 0;        ///< 95 %
  int64_t components_99 = 0;        ///< 99 %
  std::vector<int64_t> components;  ///< at most 64 counts, closer together where they are small
  std::vector<double> energy;       ///< share of the energy in so many leading directions
};

/// @param eigenvalues  largest first; what rounding left below 0 counts as 0
Spectrum make_spectrum(int64_t layer, std::string_view tensor, std::span<const float> eigenvalues);

/// The rank study: spectra of plain Q, K and V over the tokens of a batch, all ranks.
///
/// Collected is X^T X of each layer's attention input, for Q^T Q = W (X^T X) W^T, and so for K and
/// V: these are the projections of X before anything is rotated, compressed or sent.
class SpectraStudy {
 public:
  /// Memory: layers d^2 numbers, and 4 d^2 of scratch. K and V are not wider than Q.
  SpectraStudy(Backend& backend, const ParameterSet& parameters);

  const Arena& arena() const { return *arena_; }

  /// Forgets what was collected.
  void begin(Stream& stream);
  /// Adds tokens' inputs x [n, d] of one layer. Cost: 2 n d^2 flops.
  void accumulate(int64_t layer, ConstView x, Stream& stream);
  /// With the weights that are in use, each rank its own; the sums over the group are the same on
  /// all, and so is the result: Q, K, V of layer 0, of layer 1, ... Collective; traffic kind other:
  /// 8 (m - 1) bytes for each number of each second moment.
  /// Cost: 3 layers eigenvalue problems, shared by the ranks, 2 d^3 to 4 d^3 flops for each moment.
  std::vector<Spectrum> finish(const wire::Group& group, Stream& stream);

 private:
  /// Q^T Q, K^T K or V^T V of this rank's tokens.
  View second_moments(size_t index, Stream& stream);

  Backend& backend_;
  const ParameterSet& parameters_;
  std::unique_ptr<Arena> arena_;
  std::vector<View> inputs_;  // [d, d] of each layer
  View product_;              // [d * d]: W X^T X
  View moments_;              // [d * d], of the tensor under way
  View own_;                  // [d * d], of the one whose eigenvalues this rank finds
  View eigenvectors_;         // [d * d]
  View eigenvalues_;          // [d]
};

}  // namespace subring::model
