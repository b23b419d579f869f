#include "subring/core/view.hpp"

#include <cmath>
#include <memory_resource>

#include "subring/core/arena.hpp"
#include "subring/core/random.hpp"
#include "support/catch.hpp"

using namespace subring;

TEST_CASE("rows of a view start where the row starts") {
  float values[6] = {0, 1, 2, 3, 4, 5};
  const View view{values, DType::f32, {3, 2}};
  REQUIRE(view.rows(2, 1).f32()[0] == 4);
  REQUIRE(view.rows(1, 2).shape == Shape{2, 2});
  REQUIRE_THROWS_AS(view.rows(2, 2), Error);
  REQUIRE_THROWS_AS(view.reshape({5}), Error);
  REQUIRE_THROWS_AS(view.i32(), Error);
}

TEST_CASE("an arena measures what it then hands out, and no more") {
  auto layout = [](Arena& arena) {
    arena.allocate("a", DType::f32, {3});
    return arena.allocate("b", DType::f32, {17});
  };
  Arena measured("test");
  REQUIRE(layout(measured).data == nullptr);
  auto arena = make_arena("test", *std::pmr::new_delete_resource(), layout);
  REQUIRE(arena->used_bytes() == 64 + 128);
  REQUIRE(arena->report().at("b") == 128);
  REQUIRE_THROWS_AS(arena->allocate("c", DType::f32, {1}), Error);
}

TEST_CASE("random numbers have the moments they claim") {
  Random random(7);
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    REQUIRE(random.below(3) < 3);
  }
  // Standard error of the mean is 1/sqrt(n), of the variance sqrt(2/n): five of each.
  REQUIRE(std::abs(sum / kCount) < 5 / std::sqrt(kCount));
  REQUIRE(std::abs(squares / kCount - 1) < 5 * std::sqrt(2.0 / kCount));
}
