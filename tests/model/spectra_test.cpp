#include "subring/model/spectra.hpp"

#include <numeric>

#include "subring/codec/options.hpp"
#include "subring/core/random.hpp"
#include "subring/wire/local.hpp"
#include "support/catch.hpp"

using namespace subring;
using namespace subring::model;

namespace {

using Floats = std::vector<float>;

constexpr int64_t kTokens = 40;

ModelOptions small_model() {
  return {.hidden_size = 24,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .intermediate_size = 32,
          .vocab_size = 50};
}

/// Inputs of tokens [first, first + count) of a layer; the first columns are larger.
Floats inputs(int64_t layer, int64_t first, int64_t count) {
  Floats x;
  for (int64_t token = first; token < first + count; ++token) {
    Random random(derive_seed(4, static_cast<uint64_t>(layer), static_cast<uint64_t>(token)));
    for (int i = 0; i < 24; ++i) x.push_back(static_cast<float>(random.normal() / (1 + i)));
  }
  return x;
}

/// The study of all tokens, each of m ranks with its share of them.
std::vector<std::vector<Spectrum>> study(int m) {
  std::vector<std::vector<Spectrum>> results(static_cast<size_t>(m));
  wire::run_local_ranks(m, [&](wire::Transport& transport) {
    const auto backend = make_backend({.threads = 1}, m);
    const auto stream = backend->make_stream();
    codec::CompressionOptions compression;
    compression.codec = codec::Codec::none;
    ParameterSet parameters(*backend, small_model(), compression);
    parameters.initialize(*backend, 9, *stream);
    SpectraStudy spectra(*backend, parameters);
    const int64_t share = kTokens / m;
    // What was collected before begin() does not count.
    for (int pass = 0; pass < 2; ++pass) {
      spectra.begin(*stream);
      for (int64_t layer = 0; layer < 2; ++layer) {
        const Floats x = inputs(layer, transport.rank() * share, share);
        spectra.accumulate(layer, {x.data(), DType::f32, {share, 24}}, *stream);
      }
    }
    wire::Group group{&transport, {}, transport.rank(), std::chrono::seconds(60)};
    group.ranks.resize(static_cast<size_t>(m));
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
    results[static_cast<size_t>(transport.rank())] = spectra.finish(group, *stream);
  });
  return results;
}

/// From the tensor itself: eigenvalues of A^T A with A = X W^T, all in double but the input.
Spectrum direct(int64_t layer, size_t tensor) {
  const auto backend = make_backend({.threads = 1}, 1);
  const auto stream = backend->make_stream();
  codec::CompressionOptions compression;
  compression.codec = codec::Codec::none;
  ParameterSet parameters(*backend, small_model(), compression);
  parameters.initialize(*backend, 9, *stream);
  const LayerParameters& weights = parameters.layers[static_cast<size_t>(layer)];
  const View w = (tensor == 0 ? weights.query : tensor == 1 ? weights.key : weights.value).value;
  const int64_t width = w.shape[0];
  const Floats x = inputs(layer, 0, kTokens);
  std::vector<double> a(static_cast<size_t>(kTokens * width));
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t j = 0; j < width; ++j) {
      for (int64_t i = 0; i < 24; ++i) {
        a[static_cast<size_t>(t * width + j)] +=
            double{x[static_cast<size_t>(t * 24 + i)]} * w.f32()[j * 24 + i];
      }
    }
  }
  Floats gram(static_cast<size_t>(width * width)), vectors(gram.size());
  Floats values(static_cast<size_t>(width));
  for (int64_t i = 0; i < width; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      double sum = 0;
      for (int64_t t = 0; t < kTokens; ++t) {
        sum += a[static_cast<size_t>(t * width + i)] * a[static_cast<size_t>(t * width + j)];
      }
      gram[static_cast<size_t>(i * width + j)] = static_cast<float>(sum);
    }
  }
  backend->symmetric_eigen({gram.data(), DType::f32, {width, width}},
                           {values.data(), DType::f32, {width}},
                           {vectors.data(), DType::f32, {width, width}},
                           *stream);
  return make_spectrum(layer, tensor == 0 ? "q" : tensor == 1 ? "k" : "v", values);
}

}  // namespace

TEST_CASE("a spectrum's figures, by hand") {
  const Floats values = {8, 1, 0.5F, 0.5F, -1e-9F};
  const Spectrum s = make_spectrum(3, "k", values);
  CHECK(s.layer == 3);
  CHECK(s.tensor == "k");
  CHECK(s.width == 5);
  CHECK(s.stable_rank == Approx(10.0 / 8));
  CHECK(s.components_90 == 2);
  CHECK(s.components_95 == 3);
  CHECK(s.components_99 == 4);
  CHECK(s.components == std::vector<int64_t>{1, 2, 3, 4, 5});
  const std::vector<double> energy = {0.8, 0.9, 0.95, 1, 1};
  for (size_t i = 0; i < 5; ++i) CHECK(s.energy[i] == Approx(energy[i]));
}

TEST_CASE("a wide spectrum's curve has few points, its ends among them, and zeros have no rank") {
  const Spectrum wide = make_spectrum(0, "q", Floats(2048, 1.0F));
  CHECK(wide.stable_rank == Approx(2048));
  CHECK(wide.components_90 == 1844);
  CHECK(wide.components.size() <= 64);
  CHECK(wide.components.size() > 40);
  CHECK(wide.components.front() == 1);
  CHECK(wide.components.back() == 2048);
  CHECK(wide.energy.back() == Approx(1));
  const Spectrum zero = make_spectrum(0, "q", Floats(4, 0.0F));
  CHECK(zero.stable_rank == 0);
  CHECK(zero.components_99 == 0);
}

TEST_CASE("spectra of Q, K and V over ranks are those of the tensors themselves") {
  const int m = GENERATE(1, 2, 4);
  CAPTURE(m);
  const auto results = study(m);
  for (const auto& spectra : results) {
    REQUIRE(spectra.size() == 6);
    for (size_t i = 0; i < 6; ++i) {
      CAPTURE(i);
      const Spectrum expected = direct(static_cast<int64_t>(i / 3), i % 3);
      CHECK(spectra[i].layer == expected.layer);
      CHECK(spectra[i].tensor == expected.tensor);
      CHECK(spectra[i].width == (i % 3 == 0 ? 24 : 12));
      CHECK(spectra[i].stable_rank == Approx(expected.stable_rank).epsilon(1e-4));
      CHECK(spectra[i].components_90 == expected.components_90);
      CHECK(spectra[i].components_99 == expected.components_99);
      for (size_t j = 0; j < expected.energy.size(); ++j) {
        CHECK(spectra[i].energy[j] == Approx(expected.energy[j]).epsilon(1e-5));
      }
      CHECK(spectra[i].energy == results[0][i].energy);
    }
  }
}
