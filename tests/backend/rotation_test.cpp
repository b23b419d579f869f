#include "support/reference.hpp"

using namespace subring;
using namespace subring::reference;

namespace {

/// Rows paired as (0, 3), (1, 4), (2, 5), ...; plane i belongs to generator i mod k.
struct Planes {
  Integers partner, generator;
  Tensor sign;

  Planes(int32_t rows, int32_t num_generators) : sign({rows}) {
    const int32_t half = rows / 2;
    for (int32_t p = 0; p < rows; ++p) {
      partner.values.push_back((p + half) % rows);
      generator.values.push_back(p % half % num_generators);
      sign[p] = p < half ? -1 : 1;
    }
  }
  RotationPlanes view(RotationFunction function) const {
    return {function, partner, sign, generator};
  }
};

constexpr int32_t kRows = 10;
constexpr int64_t kRank = 7;
constexpr int64_t kGenerators = 3;

Vector rotate(const Planes& planes, RotationFunction f, const Vector& basis, const Vector& theta) {
  Vector u(basis.size());
  for (size_t p = 0; p < kRows; ++p) {
    const double angle = theta[static_cast<size_t>(planes.generator.values[p])];
    const bool exact = f != RotationFunction::taylor2;
    const double f1 = exact ? std::sin(angle) : angle;
    const double f2 = exact ? 1 - std::cos(angle) : angle * angle / 2;
    for (size_t j = 0; j < kRank; ++j) {
      const auto q = static_cast<size_t>(planes.partner.values[p]);
      u[p * kRank + j] =
          (1 - f2) * basis[p * kRank + j] + f1 * planes.sign.values[p] * basis[q * kRank + j];
    }
  }
  return u;
}

double inner(const Vector& a, const Vector& b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

}  // namespace

TEST_CASE("rotation equals plain loops, and its gradients are its slopes") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  const RotationFunction f =
      GENERATE(RotationFunction::exact, RotationFunction::taylor2, RotationFunction::expm);
  const Planes planes(kRows, kGenerators);
  const Tensor basis = random_tensor({kRows, kRank}, 1), d_u = random_tensor({kRows, kRank}, 2);
  const Tensor theta = random_tensor({kGenerators}, 3);
  Tensor u(basis.shape), d_basis(basis.shape, 1), d_theta({kGenerators}, 1);
  backend->rotate_basis_forward(planes.view(f), basis, theta, u, *stream);
  backend->rotate_basis_backward(planes.view(f), basis, theta, d_u, d_basis, d_theta, *stream);
  const double reach = (1 + std::pow(largest(theta.wide()), 2)) * largest(basis.wide()) * 2;
  require_close(u, rotate(planes, f, basis.wide(), theta.wide()), 5 * kRounding, reach);
  // Slopes of the double version: h^2 and rounding / h are both far below float.
  const double h = 1e-5;
  const auto slope = [&](Vector& x, size_t i, const Vector& b, const Vector& t) {
    const double before = x[i];
    x[i] = before + h;
    const double above = inner(rotate(planes, f, b, t), d_u.wide());
    x[i] = before - h;
    const double below = inner(rotate(planes, f, b, t), d_u.wide());
    x[i] = before;
    return (above - below) / (2 * h);
  };
  Vector wide_basis = basis.wide(), wide_theta = theta.wide(), want_basis, want_theta;
  for (size_t i = 0; i < wide_basis.size(); ++i) {
    want_basis.push_back(1 + slope(wide_basis, i, wide_basis, wide_theta));
  }
  for (size_t i = 0; i < wide_theta.size(); ++i) {
    want_theta.push_back(1 + slope(wide_theta, i, wide_basis, wide_theta));
  }
  const double gradients = largest(d_u.wide()) * reach * kRank * kRows + 1;
  require_close(d_basis, want_basis, 8 * kRounding, gradients);
  require_close(d_theta, want_theta, 8 * kRounding, gradients);
}

TEST_CASE("exact rotation keeps lengths, an empty d_basis is skipped, planes are checked") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  Planes planes(kRows, kGenerators);
  const Tensor basis = random_tensor({kRows, kRank}, 1), theta = random_tensor({kGenerators}, 2, 5);
  Tensor u(basis.shape), d_theta({kGenerators});
  backend->rotate_basis_forward(planes.view(RotationFunction::exact), basis, theta, u, *stream);
  REQUIRE(std::abs(backend->squared_norm(u, *stream) / backend->squared_norm(basis, *stream) - 1) <=
          8 * kRounding);
  backend->rotate_basis_backward(
      planes.view(RotationFunction::exact), basis, theta, u, View{}, d_theta, *stream);
  // <dU/dtheta, U> = 0 for a rotation: each term is of the size of the basis.
  for (const float value : d_theta.values) {
    REQUIRE(std::abs(double{value}) <=
            8 * kRounding * kRows * kRank * std::pow(largest(basis.wide()), 2));
  }
  planes.partner.values[0] = 1;
  REQUIRE_THROWS_AS(
      backend->rotate_basis_forward(planes.view(RotationFunction::exact), basis, theta, u, *stream),
      Error);
}
