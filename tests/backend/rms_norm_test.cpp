#include "backend/targets.hpp"
#include "support/reference.hpp"

using namespace subring;
using namespace subring::reference;

namespace {

constexpr float kEps = 1e-5F;

struct Problem {
  int64_t rows, columns;
  Tensor x, weight, d_y;
};

Problem make_problem(int64_t rows, int64_t columns) {
  return {rows,
          columns,
          random_tensor({rows, columns}, 1, 3),
          random_tensor({columns}, 2),
          random_tensor({rows, columns}, 3)};
}

struct Wanted {
  Vector y, rstd, d_x, d_weight;
};

Wanted plain_loops(const Problem& p) {
  Wanted w{Vector(p.x.values.size()),
           Vector(static_cast<size_t>(p.rows)),
           Vector(p.x.values.size()),
           Vector(static_cast<size_t>(p.columns))};
  for (int64_t i = 0; i < p.rows; ++i) {
    const auto at = [&](int64_t j) { return static_cast<size_t>(i * p.columns + j); };
    double squares = 0;
    for (int64_t j = 0; j < p.columns; ++j) squares += std::pow(double{p.x.values[at(j)]}, 2);
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(p.columns) + double{kEps});
    w.rstd[static_cast<size_t>(i)] = rstd;
    double mean = 0;
    for (int64_t j = 0; j < p.columns; ++j) {
      const double hat = p.x.values[at(j)] * rstd;
      w.y[at(j)] = hat * p.weight[j];
      w.d_weight[static_cast<size_t>(j)] += p.d_y.values[at(j)] * hat;
      mean += p.d_y.values[at(j)] * p.weight[j] * hat / static_cast<double>(p.columns);
    }
    for (int64_t j = 0; j < p.columns; ++j) {
      const double g = double{p.d_y.values[at(j)]} * p.weight[j];
      w.d_x[at(j)] = rstd * (g - p.x.values[at(j)] * rstd * mean);
    }
  }
  return w;
}

struct Result {
  Tensor y, rstd, d_x, d_weight;
};

Result run(Backend& backend, const Problem& p, Write write) {
  auto stream = backend.make_stream();
  Result r{Tensor(p.x.shape), Tensor({p.rows}), Tensor(p.x.shape, 1), Tensor({p.columns}, 1)};
  backend.rms_norm_forward(p.x, p.weight, kEps, r.y, r.rstd, *stream);
  backend.rms_norm_backward(p.d_y, p.x, p.weight, r.rstd, r.d_x, write, r.d_weight, *stream);
  return r;
}

}  // namespace

TEST_CASE("rms_norm and its gradient equal plain loops, on every instruction set") {
  auto backend = cpu_backend();
  const Problem p = make_problem(GENERATE(1, 3, 70), GENERATE(1, 7, 64, 130));
  const Write write = GENERATE(Write::overwrite, Write::accumulate);
  Wanted want = plain_loops(p);
  for (double& value : want.d_weight) value += 1;
  for (double& value : want.d_x) value += write == Write::accumulate ? 1 : 0;
  const double tolerance = sum_tolerance(p.columns + 6);
  const double gradients = largest(p.d_y.wide()) * std::max(1.0, largest(p.weight.wide()));
  // |xhat| <= sqrt(columns)
  const double hat = std::sqrt(static_cast<double>(p.columns));
  for_each_target([&] {
    const Result r = run(*backend, p, write);
    require_close(r.rstd, want.rstd, tolerance, largest(want.rstd));
    require_close(r.y, want.y, tolerance, largest(want.y));
    require_close(r.d_x, want.d_x, tolerance, (1 + hat) * gradients * largest(want.rstd) + 1);
    require_close(r.d_weight,
                  want.d_weight,
                  tolerance + sum_tolerance(p.rows),
                  static_cast<double>(p.rows) * hat * gradients + 1);
  });
}

TEST_CASE("rms_norm's gradient is the slope of <d_y, rms_norm(x)>") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  Problem p = make_problem(1, 9);
  const Result r = run(*backend, p, Write::overwrite);
  const float h = 1.0F / 64;
  const auto inner = [&] {
    Tensor y(p.x.shape), rstd({1});
    backend->rms_norm_forward(p.x, p.weight, kEps, y, rstd, *stream);
    double total = 0;
    for (int64_t j = 0; j < 9; ++j) total += double{y[j]} * p.d_y[j];
    return total;
  };
  const double size = 9 * largest(p.d_y.wide()) * largest(p.weight.wide()) * 3;
  for (int64_t j = 0; j < 9; ++j) {
    const float before = p.x[j];
    p.x[j] = before + h;
    const double above = inner();
    p.x[j] = before - h;
    const double below = inner();
    p.x[j] = before;
    // Third derivatives are of size rstd^3 |y|; each y carries about 15 roundings.
    const double rstd = double{r.rstd[0]};
    const double allowed = size * (h * h * std::pow(rstd, 3) + 15 * kRounding / h);
    REQUIRE(std::abs(r.d_x[j] - 1.0 * (above - below) / (2 * double{h})) <= allowed);
  }
}

TEST_CASE("rms_norm's bits do not depend on the number of threads, extents are checked") {
  auto one = cpu_backend(1), three = cpu_backend(3);
  const Problem p = make_problem(3000, 33);
  const Result a = run(*one, p, Write::overwrite), b = run(*three, p, Write::overwrite);
  REQUIRE(same_bits(a.y, b.y));
  REQUIRE(same_bits(a.d_x, b.d_x));
  REQUIRE(same_bits(a.d_weight, b.d_weight));
  auto stream = one->make_stream();
  Tensor y(p.x.shape), rstd({2999});
  REQUIRE_THROWS_AS(one->rms_norm_forward(p.x, p.weight, kEps, y, rstd, *stream), Error);
}
