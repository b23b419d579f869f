#include "subring/model/warm_start.hpp"

#include <cmath>

#include "subring/wire/local.hpp"
#include "support/reference.hpp"

using namespace subring;
using reference::random_tensor;
using reference::Tensor;

namespace {

constexpr int64_t kTokens = 64, kHidden = 12;
const model::ModelOptions kModel{.hidden_size = kHidden,
                                 .num_hidden_layers = 2,
                                 .num_attention_heads = 2,
                                 .num_key_value_heads = 1,
                                 .intermediate_size = 8,
                                 .vocab_size = 5};

struct Reading {
  double cosine = 1;  ///< the least, over tokens, between [K V] and what readers see
  double energy_ratio = 0;
};

double dot(const Tensor& a, const Tensor& b, int64_t row) {
  double sum = 0;
  for (int64_t i = row * a.shape[1]; i < (row + 1) * a.shape[1]; ++i) sum += double(a[i]) * b[i];
  return sum;
}

/// [K V] of random inputs beside what the latent of layer 1 gives after the warm start.
Reading warm_started(int64_t rank, int num_ranks, double* captured = nullptr) {
  Reading reading;
  codec::CompressionOptions compression{.codec = codec::Codec::latent, .latent_rank = rank};
  wire::run_local_ranks(num_ranks, [&](wire::Transport& transport) {
    const auto backend = reference::cpu_backend();
    const auto stream = backend->make_stream();
    model::ParameterSet parameters(*backend, kModel, compression);
    parameters.initialize(*backend, 3, *stream);
    const auto warm_start =
        model::make_latent_warm_start(*backend, kModel.num_hidden_layers, kModel.kv_width());
    const int64_t own_tokens = kTokens / num_ranks, e = kModel.kv_width();
    Tensor x = random_tensor({kTokens, kHidden}, 9);
    const ConstView rows = ConstView(x).rows(transport.rank() * own_tokens, own_tokens);
    Tensor k({own_tokens, e}), v({own_tokens, e});
    for (int64_t layer = 0; layer < kModel.num_hidden_layers; ++layer) {
      const auto& weights = parameters.layers[static_cast<size_t>(layer)];
      const auto project = [&](const model::WeightPair& weight, View out) {
        backend->matmul(
            rows, Transpose::no, weight.value, Transpose::yes, out, Write::overwrite, *stream);
      };
      project(weights.key, k);
      project(weights.value, v);
      warm_start->accumulate(layer, k, v, *stream);
    }
    wire::Group group{&transport, {}, transport.rank(), std::chrono::seconds(30)};
    for (int other = 0; other < num_ranks; ++other) group.ranks.push_back(other);
    const auto reports = warm_start->finish(group, parameters, *stream);
    if (transport.rank() != 0) return;
    REQUIRE(reports.size() == 2);
    CHECK(reports[1].name == "layer 1 latent");
    if (captured != nullptr) *captured = reports[1].captured_energy;

    Tensor raw({own_tokens, rank}), c(raw), d_raw(raw), rstd(Shape{own_tokens});
    const auto projection = codec::make_latent_projection(
        *backend, parameters.layers[1].latent, kModel.rms_norm_eps, {raw, c, d_raw, rstd});
    const codec::BlockTensors tensors{.theta = {}, .z = {c}};
    Tensor seen_k({own_tokens, e}), seen_v({own_tokens, e});
    projection->encode_forward({rows, k, v}, tensors, *stream);
    projection->decode_forward(tensors, seen_k, seen_v, *stream);
    double plain_energy = 0, seen_energy = 0;
    for (int64_t row = 0; row < own_tokens; ++row) {
      const double plain = dot(k, k, row) + dot(v, v, row);
      const double seen = dot(seen_k, seen_k, row) + dot(seen_v, seen_v, row);
      const double both = dot(k, seen_k, row) + dot(v, seen_v, row);
      reading.cosine = std::min(reading.cosine, both / std::sqrt(plain * seen));
      plain_energy += plain;
      seen_energy += seen;
    }
    reading.energy_ratio = seen_energy / plain_energy;
  });
  return reading;
}

}  // namespace

TEST_CASE("a latent of full rank starts as the plain weights, but for each token's norm") {
  double captured = 0;
  const Reading reading = warm_started(12, 1, &captured);
  CHECK(reading.cosine > 1 - 1e-5);
  CHECK(reading.energy_ratio == Approx(1).epsilon(0.01));  // eps of the norm, in 0.02-size weights
  CHECK(captured == Approx(1).epsilon(1e-5));
}

TEST_CASE("a warm start of the latent does not depend on the ranks, and keeps less in less") {
  double of_one = 0, of_two = 0, narrow = 0;
  warm_started(6, 1, &of_one);
  CHECK(warm_started(6, 2, &of_two).cosine > 0.3);
  CHECK(of_two == Approx(of_one).epsilon(1e-4));
  warm_started(3, 1, &narrow);
  CHECK(narrow < of_one);
  CHECK(of_one < 1);
}
