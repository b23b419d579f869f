#include "backend/targets.hpp"
#include "support/reference.hpp"

using namespace subring;
using namespace subring::reference;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// exp() is good to 2.7e-7 = 4.6 roundings; a sum, a quotient and two products follow.
constexpr double kSigmoidTolerance = 10 * kRounding;

}  // namespace

TEST_CASE("axpby, add_row and fill equal plain loops") {
  auto backend = cpu_backend(GENERATE(1, 3));
  auto stream = backend->make_stream();
  const int64_t n = GENERATE(1, 31, 4097);
  const int64_t width = 13;
  const Tensor x = random_tensor({n, width}, 1), start = random_tensor({n, width}, 2);
  const Tensor v = random_tensor({width}, 3);
  Tensor y = start, z = start, filled = start;
  backend->axpby(2.5F, x, -0.5F, y, *stream);
  backend->add_row(v, 3.0F, z, *stream);
  backend->fill(filled, 7, *stream);
  Vector want_y, want_z;
  for (int64_t i = 0; i < n * width; ++i) {
    want_y.push_back(2.5 * x[i] - 0.5 * start[i]);
    want_z.push_back(double{start[i]} + 3.0 * v[i % width]);
  }
  require_close(y, want_y, 3 * kRounding, 3 * std::max(largest(x.wide()), largest(start.wide())));
  require_close(z, want_z, 2 * kRounding, largest(start.wide()) + 3 * largest(v.wide()));
  for (const float value : filled.values) REQUIRE(value == 7);
}

TEST_CASE("axpby with beta 0 does not read y") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  const Tensor x = random_tensor({37}, 1);
  Tensor y({37}, std::numeric_limits<float>::quiet_NaN());
  backend->axpby(1, x, 0, y, *stream);
  REQUIRE(same_bits(x, y));
}

TEST_CASE("swiglu and its gradient equal plain loops on every instruction set") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  const Tensor gate = random_tensor({9, 41}, 1, 10), up = random_tensor({9, 41}, 2);
  const Tensor d_out = random_tensor({9, 41}, 3);
  Vector want, want_gate, want_up;
  for (int64_t i = 0; i < gate.size(); ++i) {
    const double s = sigmoid(gate[i]);
    want.push_back(gate[i] * s * up[i]);
    want_up.push_back(d_out[i] * gate[i] * s);
    want_gate.push_back(double{d_out[i]} * up[i] * s * (1 + gate[i] * (1 - s)));
  }
  for_each_target([&] {
    Tensor out(gate.shape), d_gate(gate.shape), d_up(gate.shape);
    backend->swiglu_forward(gate, up, out, *stream);
    backend->swiglu_backward(d_out, gate, up, d_gate, d_up, *stream);
    const double reach = largest(gate.wide()) * std::max(largest(up.wide()), 1.0);
    require_close(out, want, kSigmoidTolerance, reach);
    require_close(d_up, want_up, kSigmoidTolerance, reach * largest(d_out.wide()));
    require_close(d_gate, want_gate, kSigmoidTolerance, reach * largest(d_out.wide()));
  });
}

TEST_CASE("swiglu's gradient is the slope of swiglu") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  // In steps of h the central difference errs by h^2 |f'''| / 6 + rounding |f| / h.
  const float h = 1.0F / 64;
  Tensor gate({1}), up({1}, 1.5F), one({1}, 1), d_gate({1}), d_up({1}), above({1}), below({1});
  for (float g = -6; g <= 6; g += 0.5F) {
    gate[0] = g;
    backend->swiglu_backward(one, gate, up, d_gate, d_up, *stream);
    gate[0] = g + h;
    backend->swiglu_forward(gate, up, above, *stream);
    gate[0] = g - h;
    backend->swiglu_forward(gate, up, below, *stream);
    const double slope = (double{above[0]} - below[0]) / (2 * double{h});
    REQUIRE(std::abs(d_gate[0] - slope) <= 1.5 * h * h / 6 + 10 * 9 * kRounding / h);
  }
}

TEST_CASE("swiglu saturates without NaN, and keeps NaN") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  Tensor gate({3}), up({3}, 1), out({3});
  gate[0] = -1e30F;
  gate[1] = 1e30F;
  gate[2] = std::numeric_limits<float>::quiet_NaN();
  backend->swiglu_forward(gate, up, out, *stream);
  REQUIRE(out[0] == 0);
  REQUIRE(out[1] == 1e30F);
  REQUIRE(std::isnan(out[2]));
}

TEST_CASE("adamw follows algorithm 2 of arXiv:1711.05101") {
  auto backend = cpu_backend(GENERATE(1, 3));
  auto stream = backend->make_stream();
  const Tensor start = random_tensor({5, 29}, 1);
  Tensor parameter = start, moment1(start.shape), moment2(start.shape);
  Vector p = start.wide(), m(p.size()), v(p.size());
  AdamWStep step;
  step.lr = 1e-2F;
  step.weight_decay = 0.1F;
  step.gradient_scale = 0.25F;
  const double b1 = double{step.beta1}, b2 = double{step.beta2}, lr = double{step.lr};
  constexpr int kSteps = 5;
  for (step.step = 1; step.step <= kSteps; ++step.step) {
    const Tensor gradient = random_tensor(start.shape, static_cast<uint64_t>(10 + step.step));
    backend->adamw(step, parameter, gradient, moment1, moment2, *stream);
    for (size_t i = 0; i < p.size(); ++i) {
      const double g = 0.25 * double{gradient.values[i]};
      m[i] = b1 * m[i] + (1 - b1) * g;
      v[i] = b2 * v[i] + (1 - b2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(b1, step.step));
      const double v_hat = v[i] / (1 - std::pow(b2, step.step));
      p[i] -=
          lr * (m_hat / (std::sqrt(v_hat) + double{step.eps}) + double{step.weight_decay} * p[i]);
    }
  }
  // 1 - beta loses bits of float (1 - 0.95F: 2^-24 / 0.05 relative); a dozen roundings a step.
  const double moment_error = kSteps * 4 * kRounding / 0.05;
  require_close(moment1, m, moment_error, largest(m));
  require_close(moment2, v, moment_error, largest(v));
  // A step moves by up to lr sqrt(kSteps) or so.
  require_close(parameter, p, kSteps * 12 * kRounding, largest(p) + 10 * lr / 0.05);
}
