#include "subring/codec/latent.hpp"

#include <cmath>

#include "support/reference.hpp"

using namespace subring;
using namespace subring::codec;
using reference::random_tensor;
using reference::Tensor;
using reference::Vector;

namespace {

constexpr int64_t kTokens = 7, kInput = 10, kWidth = 6, kRank = 4;
constexpr double kEps = 1e-5;

/// Inputs and parameters on the host, and the projection on them.
struct Fixture {
  std::unique_ptr<Backend> backend = reference::cpu_backend();
  std::unique_ptr<Stream> stream = backend->make_stream();
  Tensor x = random_tensor({kTokens, kInput}, 1);
  Tensor down = random_tensor({kRank, kInput}, 2, 0.4);
  Tensor norm = random_tensor({kRank}, 3);
  Tensor up_key = random_tensor({kWidth, kRank}, 4);
  Tensor up_value = random_tensor({kWidth, kRank}, 5);
  Tensor d_down{Shape{kRank, kInput}}, d_norm{Shape{kRank}};
  Tensor d_up_key{Shape{kWidth, kRank}}, d_up_value{Shape{kWidth, kRank}};
  Tensor raw{Shape{kTokens, kRank}}, c{raw}, d_raw{raw}, rstd{Shape{kTokens}};
  std::unique_ptr<BlockProjection> projection =
      make_latent_projection(*backend,
                             {down, d_down, norm, d_norm, up_key, d_up_key, up_value, d_up_value},
                             kEps,
                             {raw, c, d_raw, rstd});

  Tensor coordinates{Shape{kTokens, kRank}};
  BlockTensors tensors() { return {.theta = {}, .z = {coordinates}}; }
  BlockSource source() { return {.x = x, .k = {}, .v = {}}; }
};

/// <weight_k, K> + <weight_v, V> of what readers see, in double loops.
double value(const Fixture& f, const Tensor& weight_k, const Tensor& weight_v) {
  double sum = 0;
  for (int64_t token = 0; token < kTokens; ++token) {
    Vector c(kRank);
    double square = 0;
    for (int64_t r = 0; r < kRank; ++r) {
      for (int64_t i = 0; i < kInput; ++i) {
        c[static_cast<size_t>(r)] += double(f.x[token * kInput + i]) * f.down[r * kInput + i];
      }
      square += c[static_cast<size_t>(r)] * c[static_cast<size_t>(r)] / kRank;
    }
    for (int64_t e = 0; e < kWidth; ++e) {
      for (int64_t r = 0; r < kRank; ++r) {
        const double normed = c[static_cast<size_t>(r)] / std::sqrt(square + kEps) * f.norm[r];
        sum += normed * (double(f.up_key[e * kRank + r]) * weight_k[token * kWidth + e] +
                         double(f.up_value[e * kRank + r]) * weight_v[token * kWidth + e]);
      }
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("readers of a latent see RMSNorm(x W_d) W_u, and gradients are slopes of it") {
  Fixture f;
  const Tensor weight_k = random_tensor({kTokens, kWidth}, 6);
  const Tensor weight_v = random_tensor({kTokens, kWidth}, 7);
  CHECK(f.projection->widths() == std::vector<int64_t>{kRank});
  CHECK(f.projection->num_angles() == 0);

  Tensor k({kTokens, kWidth}), v({kTokens, kWidth});
  f.projection->encode_forward(f.source(), f.tensors(), *f.stream);
  f.projection->decode_forward(f.tensors(), k, v, *f.stream);
  double got = 0;
  for (int64_t i = 0; i < k.size(); ++i) {
    got += double(k[i]) * weight_k[i] + double(v[i]) * weight_v[i];
  }
  // Sums of at most 10 products of values below 10, then 84 terms.
  CHECK(got == Approx(value(f, weight_k, weight_v)).margin(1e-3));

  Tensor d_z({kTokens, kRank}), d_x({kTokens, kInput}, 2);
  const BlockTensors d_tensors{.theta = {}, .z = {d_z}};
  f.projection->decode_backward(f.tensors(), weight_k, weight_v, d_tensors, *f.stream);
  f.projection->encode_backward(f.source(), {}, d_tensors, {d_x, {}, {}}, *f.stream);

  const auto check = [&](Tensor& parameter, const Tensor& gradient, double before) {
    for (int64_t i = 0; i < parameter.size(); ++i) {
      constexpr float kStep = 1.0F / 1024;
      const float saved = parameter[i];
      parameter[i] = saved + kStep;
      const double above = value(f, weight_k, weight_v);
      parameter[i] = saved - kStep;
      const double slope = (above - value(f, weight_k, weight_v)) / (2 * double(kStep));
      parameter[i] = saved;
      CAPTURE(i);
      CHECK(gradient[i] - before == Approx(slope).margin(2e-3));
    }
  };
  check(f.x, d_x, 2);  // accumulated
  check(f.down, f.d_down, 0);
  check(f.norm, f.d_norm, 0);
  check(f.up_key, f.d_up_key, 0);
  check(f.up_value, f.d_up_value, 0);
}
