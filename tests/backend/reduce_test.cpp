#include "backend/targets.hpp"
#include "support/reference.hpp"

using namespace subring;
using namespace subring::reference;

TEST_CASE("sum and squared_norm are right to double rounding, on every instruction set") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  const int64_t n = GENERATE(0, 1, 15, 17, 65536, 200001);
  const Tensor x = random_tensor({n}, 1);
  long double sum = 0, squares = 0, magnitudes = 0;
  for (const float value : x.values) {
    sum += value;
    magnitudes += std::abs(value);
    squares += static_cast<long double>(value) * value;
  }
  const double tolerance = static_cast<double>(n + 1) * 0x1p-53;
  for_each_target([&] {
    REQUIRE(std::abs(backend->sum(x, *stream) - static_cast<double>(sum)) <=
            tolerance * static_cast<double>(magnitudes));
    REQUIRE(std::abs(backend->squared_norm(x, *stream) - static_cast<double>(squares)) <=
            tolerance * static_cast<double>(squares));
  });
}

TEST_CASE("reductions have the same bits for any number of threads and let NaN through") {
  Tensor x = random_tensor({300000}, 1);
  auto one = cpu_backend(1), three = cpu_backend(3);
  auto stream = one->make_stream();
  REQUIRE(one->sum(x, *stream) == three->sum(x, *stream));
  REQUIRE(one->squared_norm(x, *stream) == three->squared_norm(x, *stream));
  x[299999] = std::numeric_limits<float>::infinity();
  REQUIRE(std::isinf(one->squared_norm(x, *stream)));
  x[77777] = std::numeric_limits<float>::quiet_NaN();
  REQUIRE(std::isnan(three->sum(x, *stream)));
  REQUIRE(std::isnan(three->squared_norm(x, *stream)));
}

TEST_CASE("column_mean is right to one rounding, with the same bits for any number of threads") {
  auto one = cpu_backend(1), three = cpu_backend(3);
  auto stream = one->make_stream();
  const int64_t n = GENERATE(1, 33, 5000);
  const Tensor x = random_tensor({n, 19}, 1);
  Vector want(19);
  for (int64_t i = 0; i < x.size(); ++i) {
    want[static_cast<size_t>(i % 19)] += double{x[i]} / static_cast<double>(n);
  }
  Tensor mean({19}), again({19});
  one->column_mean(x, mean, *stream);
  three->column_mean(x, again, *stream);
  require_close(mean, want, 2 * kRounding, largest(want));
  REQUIRE(same_bits(mean, again));
  Tensor narrow({18});
  REQUIRE_THROWS_AS(one->column_mean(x, narrow, *stream), Error);
}
