#include <Eigen/Eigenvalues>
#include <Eigen/QR>

#include "kernels.hpp"

// Rare and small: once a phase (eigenvectors) or once a step (retraction), in double, by Eigen.
namespace subring::cpu {
namespace {

using RowMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace

void symmetric_eigen(int64_t n, const float* a, float* eigenvalues, float* eigenvectors) {
  if (n == 0) return;
  const Eigen::MatrixXd matrix = Eigen::Map<const RowMatrix>(a, n, n).cast<double>();
  SUBRING_CHECK(
      matrix.allFinite(), ErrorKind::backend, "eigenvalues of a matrix with NaN or infinity");
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(matrix);
  SUBRING_CHECK(solver.info() == Eigen::Success,
                ErrorKind::backend,
                "eigenvalues of a {} x {} matrix did not converge",
                n,
                n);
  Eigen::Map<RowMatrix> vectors(eigenvectors, n, n);
  for (int64_t i = 0; i < n; ++i) {
    // Eigen sorts upwards.
    const int64_t from = n - 1 - i;
    Eigen::VectorXd vector = solver.eigenvectors().col(from);
    Eigen::Index largest = 0;
    vector.cwiseAbs().maxCoeff(&largest);
    if (vector[largest] < 0) vector = -vector;
    eigenvalues[i] = static_cast<float>(solver.eigenvalues()[from]);
    vectors.col(i) = vector.cast<float>();
  }
}

void orthonormalize(Extents extents, float* y) {
  if (extents.rows == 0 || extents.columns == 0) return;
  Eigen::Map<RowMatrix> matrix(y, extents.rows, extents.columns);
  // Householder: the columns of Q are orthonormal even where y has not full rank.
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(matrix.cast<double>());
  Eigen::MatrixXd q = Eigen::MatrixXd::Identity(extents.rows, extents.columns);
  q = qr.householderQ() * q;
  for (int64_t j = 0; j < extents.columns; ++j) {
    if (qr.matrixQR()(j, j) < 0) q.col(j) = -q.col(j);
  }
  matrix = q.cast<float>();
}

}  // namespace subring::cpu
