#include <algorithm>
#include <cmath>

#include "kernels.hpp"

// Basis matrices are small (d_kv r, once a chunk and layer): plain loops on one thread.
namespace subring::cpu {
namespace {

/// R(theta) = (1 - f2) I + f1 A on a plane, and the derivatives of f1 and f2 by theta.
struct Factors {
  double f1, f2, d_f1, d_f2;
};

Factors factors(const Rotation& rotation, int64_t row) {
  const double theta = double{rotation.theta[rotation.generator[row]]};
  if (rotation.function == RotationFunction::taylor2) return {theta, theta * theta / 2, 1, theta};
  // 1 - cos by the half angle: no cancellation at small theta.
  const double half = std::sin(theta / 2);
  return {std::sin(theta), 2 * half * half, std::cos(theta), std::sin(theta)};
}

}  // namespace

void check_planes(const Rotation& rotation, int64_t rows) {
  for (int64_t p = 0; p < rows; ++p) {
    const int64_t partner = rotation.partner[p];
    SUBRING_CHECK(partner >= 0 && partner < rows && rotation.partner[partner] == p &&
                      rotation.generator[p] >= 0 && rotation.generator[p] < rotation.num_generators,
                  ErrorKind::shape,
                  "rotation row {}: partner {}, generator {} of {}",
                  p,
                  partner,
                  rotation.generator[p],
                  rotation.num_generators);
  }
}

void rotate_basis_forward(const Rotation& rotation, Extents extents, const float* basis, float* u) {
  check_planes(rotation, extents.rows);
  const int64_t columns = extents.columns;
  for (int64_t p = 0; p < extents.rows; ++p) {
    const Factors f = factors(rotation, p);
    const auto keep = static_cast<float>(1 - f.f2);
    const auto turn = static_cast<float>(f.f1 * double{rotation.sign[p]});
    const float* own = basis + p * columns;
    const float* other = basis + rotation.partner[p] * columns;
    float* to = u + p * columns;
    for (int64_t j = 0; j < columns; ++j) to[j] = keep * own[j] + turn * other[j];
  }
}

void rotate_basis_backward(const Rotation& rotation,
                           Extents extents,
                           const float* basis,
                           const float* d_u,
                           float* d_basis,
                           float* d_theta) {
  check_planes(rotation, extents.rows);
  const int64_t columns = extents.columns;
  double* totals = thread_partials(rotation.num_generators);
  std::fill_n(totals, rotation.num_generators, 0.0);
  for (int64_t p = 0; p < extents.rows; ++p) {
    const int64_t partner = rotation.partner[p];
    const Factors f = factors(rotation, p);
    const float* own = basis + p * columns;
    const float* other = basis + partner * columns;
    const float* gradient = d_u + p * columns;
    double along_own = 0;
    double along_other = 0;
    for (int64_t j = 0; j < columns; ++j) {
      along_own += double{own[j]} * double{gradient[j]};
      along_other += double{other[j]} * double{gradient[j]};
    }
    totals[rotation.generator[p]] +=
        f.d_f1 * double{rotation.sign[p]} * along_other - f.d_f2 * along_own;
    if (d_basis == nullptr) continue;
    // Column p of R: itself, and row `partner`, where basis_p stands with sign[partner].
    const Factors g = factors(rotation, partner);
    const auto keep = static_cast<float>(1 - f.f2);
    const auto turn = static_cast<float>(g.f1 * double{rotation.sign[partner]});
    const float* partner_gradient = d_u + partner * columns;
    float* to = d_basis + p * columns;
    for (int64_t j = 0; j < columns; ++j) to[j] += keep * gradient[j] + turn * partner_gradient[j];
  }
  for (int64_t g = 0; g < rotation.num_generators; ++g) {
    d_theta[g] += static_cast<float>(totals[g]);
  }
}

}  // namespace subring::cpu
