#include "subring/model/transformer.hpp"

#include <algorithm>
#include <cmath>

#include "model/harness.hpp"
#include "subring/core/random.hpp"
#include "subring/model/warm_start.hpp"
#include "support/catch.hpp"

using namespace subring;
using namespace subring::test;

namespace {

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double(a[i]) - b[i], 2);
  return std::sqrt(sum);
}

double norm(const std::vector<float>& a) { return distance(a, std::vector<float>(a.size(), 0.0F)); }

}  // namespace

TEST_CASE("ranks without a single valid label contribute nothing and break nothing") {
  ModelCase test;
  std::vector<int32_t> labels = test.labels();
  std::fill(labels.begin() + 8, labels.begin() + 24, -1);  // two whole chunks of four
  const ModelResult expected = run_model(test, test.tokens(), labels, 1);
  const ModelResult result = run_model(test, test.tokens(), labels, 4);
  CHECK(result.loss == Approx(expected.loss).epsilon(1e-5));
  CHECK(distance(result.gradients, expected.gradients) < 1e-4 * norm(expected.gradients));
  REQUIRE(norm(expected.gradients) > 0);

  std::fill(labels.begin(), labels.end(), -1);
  const ModelResult nothing = run_model(test, test.tokens(), labels, 4);
  CHECK(nothing.loss == 0);
  CHECK(norm(nothing.gradients) == 0);
}

TEST_CASE("folding the bases in gives the compressed model as a plain one") {
  ModelCase test;
  test.compression.exact_local = false;
  test.compression.rotation.kind = codec::RotationKind::none;
  const ModelResult compressed = run_model(test, test.tokens(), test.labels(), 2);
  const ModelResult folded =
      run_model(test,
                test.tokens(),
                test.labels(),
                2,
                [](model::Transformer& transformer, Backend& backend, Stream& stream) {
                  model::fold_subspaces(backend, transformer.parameters(), stream);
                  transformer.set_kv_form(model::KvForm::plain);
                });
  // Two f32 products instead of one in each of 2 layers: a few hundred roundings.
  CHECK(distance(folded.hidden, compressed.hidden) < 1e-5 * norm(compressed.hidden));
  const ModelResult unfolded = run_model(test,
                                         test.tokens(),
                                         test.labels(),
                                         2,
                                         [](model::Transformer& transformer, Backend&, Stream&) {
                                           transformer.set_kv_form(model::KvForm::plain);
                                         });
  CHECK(distance(unfolded.hidden, compressed.hidden) > 1e-3 * norm(compressed.hidden));
}

TEST_CASE("a quantised forward pass does not depend on the ranks") {
  ModelCase test;
  test.compression.codec = GENERATE(
      codec::Codec::subspace, codec::Codec::latent, codec::Codec::topk, codec::Codec::quantize);
  test.compression.exact_local = GENERATE(true, false);
  test.compression.wire_dtype = GENERATE(FrameFormat::bf16, FrameFormat::int8, FrameFormat::int4);
  const ModelResult expected = run_model(test, test.tokens(), test.labels(), 1);
  const ModelResult result = run_model(test, test.tokens(), test.labels(), 4);
  // Values within a rounding of a quantisation step's edge may fall on its other side.
  CHECK(result.loss == Approx(expected.loss).epsilon(1e-4));
}

TEST_CASE("gradients that are requantised at every hop are unbiased") {
  ModelCase test;
  test.compression.wire_dtype = FrameFormat::int8;
  const auto run = [&](uint64_t rounding_seed, int num_ranks) {
    test.rounding_seed = rounding_seed;
    return run_model(test, test.tokens(), test.labels(), num_ranks).gradients;
  };
  // One rank sends nothing, so its gradient is the exact one of the same forward pass.
  const std::vector<float> exact = run(0, 1);
  constexpr int kRuns = 64;
  std::vector<float> mean(exact.size());
  double spread = 0;  // mean squared distance of one run
  for (uint64_t seed = 0; seed < kRuns; ++seed) {
    const std::vector<float> gradients = run(seed, 4);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += gradients[i] / kRuns;
    spread += std::pow(distance(gradients, exact), 2) / kRuns;
  }
  CHECK(spread > 0);
  // One step of int8 is at most 2^(1/4) / 127 of a row's largest value, so its error has at most
  // half of that as its deviation; three hops add up, and layers pass it on.
  CHECK(std::sqrt(spread) < 3 * 0.01 * norm(exact));
  // The mean of n independent unbiased runs is sqrt(n) closer; twice that leaves a wide margin for
  // a sum over thousands of elements, and a bias would stay.
  CHECK(distance(mean, exact) < 2 * std::sqrt(spread / kRuns));
}

TEST_CASE("gradients through quantised or thinned K and V are those of a shift") {
  // Straight through: one rank sends nothing, so the backward pass is that of K = B x + (what the
  // codec changed, a constant). Against codec none only the values of K and V differ.
  ModelCase test;
  test.compression.exact_local = false;
  test.compression.codec = codec::Codec::none;
  const ModelResult plain = run_model(test, test.tokens(), test.labels(), 1);
  test.compression.codec = GENERATE(codec::Codec::topk, codec::Codec::quantize);
  test.compression.wire_dtype = FrameFormat::fp32;
  test.compression.topk_fraction = 1;
  const ModelResult same = run_model(test, test.tokens(), test.labels(), GENERATE(1, 2, 4));
  CHECK(same.loss == Approx(plain.loss).epsilon(1e-5));
  CHECK(distance(same.gradients, plain.gradients) < 1e-4 * norm(plain.gradients));

  test.compression.wire_dtype = FrameFormat::int4;
  test.compression.topk_fraction = 0.1;
  const ModelResult coarse = run_model(test, test.tokens(), test.labels(), 1);
  CHECK(distance(coarse.hidden, plain.hidden) > 1e-3 * norm(plain.hidden));
  CHECK(distance(coarse.gradients, plain.gradients) < norm(plain.gradients));
}
