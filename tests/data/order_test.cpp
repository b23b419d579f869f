#include "subring/data/order.hpp"

#include <vector>

#include "support/catch.hpp"

using subring::data::Permutation;

TEST_CASE("every index comes once, for any size") {
  for (const int64_t size : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const Permutation order(size, seed);
      std::vector<int> seen(static_cast<size_t>(size), 0);
      for (int64_t i = 0; i < size; ++i) ++seen.at(static_cast<size_t>(order(i)));
      for (const int count : seen) REQUIRE(count == 1);
    }
  }
}

TEST_CASE("positions are spread evenly over seeds") {
  // Counts of 40000 seeds over 10 places are binomial(40000, 1/10): sigma = 60. Six sigma over 100
  // counts is exceeded by chance once in 5 million runs, and the seeds are fixed.
  constexpr int64_t kSize = 10;
  constexpr int kSeeds = 40000;
  std::vector<int> counts(kSize * kSize, 0);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Permutation order(kSize, seed);
    for (int64_t i = 0; i < kSize; ++i) ++counts[static_cast<size_t>(i * kSize + order(i))];
  }
  for (const int count : counts) REQUIRE(std::abs(count - kSeeds / kSize) < 360);
}

TEST_CASE("sizes past 32 bits stay in range") {
  const int64_t size = (int64_t{1} << 40) + 12345;
  const Permutation order(size, 7);
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t at = order(size - 1 - i);
    REQUIRE(at >= 0);
    REQUIRE(at < size);
  }
}
