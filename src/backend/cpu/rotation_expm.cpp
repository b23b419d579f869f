#include <Eigen/Dense>
#include <unsupported/Eigen/MatrixFunctions>

#include "kernels.hpp"

// The reference rotation: what rotation.cpp does in closed form, by the exponential of the dense
// generator (scaling and squaring with Pade approximants). O(d_kv^3) a chunk and layer.
namespace subring::cpu {
namespace {

using Matrix = Eigen::MatrixXd;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::Map<RowMajor>;
using ConstRows = Eigen::Map<const RowMajor>;

/// sum_g theta_g A_g.
Matrix scaled_generators(const Rotation& rotation, int64_t rows) {
  Matrix a = Matrix::Zero(rows, rows);
  for (int64_t p = 0; p < rows; ++p) {
    a(p, rotation.partner[p]) =
        double{rotation.theta[rotation.generator[p]]} * double{rotation.sign[p]};
  }
  return a;
}

Matrix generator(const Rotation& rotation, int64_t rows, int64_t index) {
  Matrix a = Matrix::Zero(rows, rows);
  for (int64_t p = 0; p < rows; ++p) {
    if (rotation.generator[p] == index) a(p, rotation.partner[p]) = double{rotation.sign[p]};
  }
  return a;
}

Matrix load(const float* x, Extents extents) {
  return ConstRows(x, extents.rows, extents.columns).cast<double>();
}

}  // namespace

void rotate_basis_forward_expm(const Rotation& rotation,
                               Extents extents,
                               const float* basis,
                               float* u) {
  check_planes(rotation, extents.rows);
  const Matrix r = scaled_generators(rotation, extents.rows).exp();
  Rows(u, extents.rows, extents.columns) = (r * load(basis, extents)).cast<float>();
}

void rotate_basis_backward_expm(const Rotation& rotation,
                                Extents extents,
                                const float* basis,
                                const float* d_u,
                                float* d_basis,
                                float* d_theta) {
  check_planes(rotation, extents.rows);
  const Matrix r = scaled_generators(rotation, extents.rows).exp();
  const Matrix u = r * load(basis, extents);
  const Matrix gradient = load(d_u, extents);
  // Generators commute: dU / dtheta_g = A_g U.
  for (int64_t g = 0; g < rotation.num_generators; ++g) {
    const Matrix slope = generator(rotation, extents.rows, g) * u;
    d_theta[g] += static_cast<float>(slope.cwiseProduct(gradient).sum());
  }
  if (d_basis == nullptr) return;
  Rows(d_basis, extents.rows, extents.columns) += (r.transpose() * gradient).cast<float>();
}

}  // namespace subring::cpu
