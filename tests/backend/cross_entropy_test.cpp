#include "backend/targets.hpp"
#include "support/reference.hpp"

using namespace subring;
using namespace subring::reference;

namespace {

struct Wanted {
  Vector loss, d_logits;
};

Wanted plain_loops(const Tensor& logits, const std::vector<int32_t>& labels, double scale) {
  const auto columns = static_cast<size_t>(logits.shape[1]);
  Wanted w{Vector(labels.size()), Vector(logits.values.size())};
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0) continue;
    const float* row = logits.values.data() + i * columns;
    const double top = double{*std::max_element(row, row + columns)};
    double total = 0;
    for (size_t j = 0; j < columns; ++j) total += std::exp(row[j] - top);
    w.loss[i] = top + std::log(total) - row[labels[i]];
    for (size_t j = 0; j < columns; ++j) {
      const double hot = static_cast<int32_t>(j) == labels[i] ? 1 : 0;
      w.d_logits[i * columns + j] = scale * (std::exp(row[j] - top) / total - hot);
    }
  }
  return w;
}

}  // namespace

TEST_CASE("cross entropy and its gradient equal plain loops, on every instruction set") {
  auto backend = cpu_backend(GENERATE(1, 3));
  auto stream = backend->make_stream();
  const int64_t columns = GENERATE(1, 5, 257, 5000);
  const double spread = GENERATE(1.0, 30.0, 1e4);
  const Integers labels{{0, -1, static_cast<int32_t>(columns - 1), -100, 0}};
  const Tensor logits = random_tensor({5, columns}, 1, spread);
  const Wanted want = plain_loops(logits, labels.values, 0.25);
  // exp: 4.6 roundings; 256 terms are summed in float, in one lane at worst; the difference of two
  // logits has one rounding of itself.
  const double reach = 2 * largest(logits.wide());
  const double tolerance = sum_tolerance(256 + 5);
  for_each_target([&] {
    Tensor loss({5}, 9), again({5}, 9), d_logits = logits;
    backend->cross_entropy_forward(logits, labels, loss, *stream);
    backend->cross_entropy_forward_backward(d_logits, labels, 0.25F, again, *stream);
    require_close(loss, want.loss, tolerance, 1 + reach / 40);
    REQUIRE(same_bits(loss, again));
    require_close(d_logits, want.d_logits, tolerance + reach * kRounding, 0.25);
    for (int64_t j = 0; j < columns; ++j) REQUIRE(d_logits[columns + j] == 0);
  });
}

TEST_CASE("the gradient of cross entropy is its slope") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  const Integers labels{{3}};
  const Tensor logits = random_tensor({1, 11}, 2);
  Tensor d_logits = logits, loss({1});
  backend->cross_entropy_forward_backward(d_logits, labels, 1, loss, *stream);
  const float h = 1.0F / 64;
  for (int64_t j = 0; j < 11; ++j) {
    double ends[2];
    for (const int side : {0, 1}) {
      Tensor moved = logits;
      moved[j] += side == 0 ? -h : h;
      backend->cross_entropy_forward(moved, labels, loss, *stream);
      ends[side] = double{loss[0]};
    }
    // Third derivatives of logsumexp are below 1; the loss (below 8) has about 8 roundings.
    const double slope = (ends[1] - ends[0]) / (2 * double{h});
    REQUIRE(std::abs(d_logits[j] - slope) <= h * h / 6 + 8 * 8 * kRounding / h);
  }
}

TEST_CASE("a NaN logit gives a NaN loss, and labels past the logits are refused") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  for (const int64_t place : {int64_t{0}, int64_t{20}, int64_t{32}}) {
    Tensor logits = random_tensor({1, 33}, 1), loss({1});
    logits[place] = std::numeric_limits<float>::quiet_NaN();
    backend->cross_entropy_forward(logits, Integers{{5}}, loss, *stream);
    REQUIRE(std::isnan(loss[0]));
  }
  Tensor logits({1, 33}), loss({1}), two({2});
  REQUIRE_THROWS_AS(backend->cross_entropy_forward(logits, Integers{{33}}, loss, *stream), Error);
  REQUIRE_THROWS_AS(backend->cross_entropy_forward(logits, Integers{{3}}, two, *stream), Error);
}
