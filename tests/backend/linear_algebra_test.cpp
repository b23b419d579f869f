#include "support/reference.hpp"

using namespace subring;
using namespace subring::reference;

namespace {

/// x^T x - 1, its largest magnitude.
double distance_from_orthonormal(const Tensor& x) {
  const int64_t rows = x.shape[0], columns = x.shape[1];
  double worst = 0;
  for (int64_t a = 0; a < columns; ++a) {
    for (int64_t b = 0; b < columns; ++b) {
      double total = a == b ? -1 : 0;
      for (int64_t i = 0; i < rows; ++i) total += double{x[i * columns + a]} * x[i * columns + b];
      worst = std::max(worst, std::abs(total));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("eigenvectors: orthonormal, sorted, signed, and a = V diag(w) V^T") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  const int64_t n = GENERATE(1, 2, 17, 60);
  const Tensor b = random_tensor({n, n}, 1);
  Tensor a({n, n}), values({n}), vectors({n, n});
  backend->matmul(b, Transpose::yes, b, Transpose::no, a, Write::overwrite, *stream);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) a[j * n + i] = a[i * n + j];
  }
  backend->symmetric_eigen(a, values, vectors, *stream);
  // Computed in double, rounded to float once.
  REQUIRE(distance_from_orthonormal(vectors) <= 4 * kRounding);
  Vector rebuilt(a.values.size());
  for (int64_t k = 0; k < n; ++k) {
    if (k > 0) REQUIRE(values[k] <= values[k - 1]);
    float top = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (std::abs(vectors[i * n + k]) > std::abs(top)) top = vectors[i * n + k];
      for (int64_t j = 0; j < n; ++j) {
        rebuilt[static_cast<size_t>(i * n + j)] +=
            double{values[k]} * vectors[i * n + k] * vectors[j * n + k];
      }
    }
    REQUIRE(top > 0);
  }
  require_close(a, rebuilt, 8 * kRounding, static_cast<double>(n) * double{values[0]});
}

TEST_CASE("eigenvalues of a matrix with NaN are an error of the backend") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  Tensor a({3, 3}, std::numeric_limits<float>::quiet_NaN()), values({3}), vectors({3, 3});
  try {
    backend->symmetric_eigen(a, values, vectors, *stream);
    FAIL("no error");
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::backend);
  }
}

TEST_CASE("orthonormalize is the Q of QR with positive diagonal") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  const Tensor y = random_tensor({40, 9}, 1);
  Tensor q = y, r({9, 9});
  backend->orthonormalize(q, *stream);
  REQUIRE(distance_from_orthonormal(q) <= 4 * kRounding);
  backend->matmul(q, Transpose::yes, y, Transpose::no, r, Write::overwrite, *stream);
  const double tolerance = sum_tolerance(40) * 40 * largest(y.wide());
  for (int64_t i = 0; i < 9; ++i) {
    REQUIRE(r[i * 9 + i] > 0);
    for (int64_t j = 0; j < i; ++j) REQUIRE(std::abs(double{r[i * 9 + j]}) <= tolerance);
  }
  Tensor again = q;
  backend->orthonormalize(again, *stream);
  require_close(again, q.wide(), 8 * kRounding, 1);
}

TEST_CASE("orthonormalize completes what has not full rank, wide matrices are refused") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  Tensor y = random_tensor({12, 4}, 1);
  for (int64_t i = 0; i < 12; ++i) {
    y[i * 4 + 2] = y[i * 4];
    y[i * 4 + 3] = 0;
  }
  backend->orthonormalize(y, *stream);
  REQUIRE(distance_from_orthonormal(y) <= 4 * kRounding);
  Tensor wide({3, 4});
  REQUIRE_THROWS_AS(backend->orthonormalize(wide, *stream), Error);
}
