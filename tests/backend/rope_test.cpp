#include "backend/targets.hpp"
#include "support/reference.hpp"

using namespace subring;
using namespace subring::reference;

namespace {

Vector rotate(const RopeShape& shape, const Tensor& x) {
  Vector y = x.wide();
  const int64_t half = shape.head_dim / 2, width = shape.num_heads * shape.head_dim;
  for (int64_t row = 0; row * width < x.size(); ++row) {
    for (int64_t i = 0; i < half; ++i) {
      const long double frequency =
          std::pow(static_cast<long double>(shape.theta),
                   -2.0L * static_cast<long double>(i) / static_cast<long double>(shape.head_dim));
      const long double angle = static_cast<long double>(shape.first_position + row) * frequency;
      const auto c = static_cast<double>(std::cos(angle));
      const auto s = static_cast<double>(std::sin(angle));
      for (int64_t head = 0; head < shape.num_heads; ++head) {
        const auto a = static_cast<size_t>(row * width + head * shape.head_dim + i);
        const size_t b = a + static_cast<size_t>(half);
        y[a] = x.values[a] * c - x.values[b] * s;
        y[b] = x.values[a] * s + x.values[b] * c;
      }
    }
  }
  return y;
}

}  // namespace

TEST_CASE("rope equals plain loops at any position, on every instruction set") {
  auto backend = cpu_backend(GENERATE(1, 3));
  auto stream = backend->make_stream();
  const RopeShape shape = GENERATE(RopeShape{1, 2, 0, 10000},
                                   RopeShape{3, 6, 250, 500000},
                                   RopeShape{2, 64, 1000000, 500000},
                                   RopeShape{1, 34, 40000000, 10000});
  const int64_t n = GENERATE(1, 300);
  const Tensor x = random_tensor({n, shape.num_heads * shape.head_dim}, 1);
  const Vector want = rotate(shape, x);
  // Angles are off by at most a few double roundings of the position.
  const double angle_error = 8 * 0x1p-53 * static_cast<double>(shape.first_position + n);
  for_each_target([&] {
    Tensor y = x;
    backend->rope(shape, RopeDirection::forward, y, *stream);
    require_close(y, want, 4 * kRounding + angle_error, 2 * largest(x.wide()));
  });
}

TEST_CASE("rope backward undoes rope and is its transpose") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  const RopeShape shape{2, 10, 123456, 500000};
  const Tensor x = random_tensor({40, 20}, 1), y = random_tensor({40, 20}, 2);
  Tensor forward = x, back = y;
  backend->rope(shape, RopeDirection::forward, forward, *stream);
  backend->rope(shape, RopeDirection::backward, back, *stream);
  double left = 0, right = 0, magnitude = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    left += double{forward[i]} * y[i];
    right += double{x[i]} * back[i];
    magnitude += std::abs(double{x[i]} * y[i]) + 1;
  }
  REQUIRE(std::abs(left - right) <= 8 * kRounding * magnitude * 2);
  backend->rope(shape, RopeDirection::backward, forward, *stream);
  require_close(forward, x.wide(), 8 * kRounding, 2 * largest(x.wide()));
}

TEST_CASE("rope refuses odd heads and wrong widths") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  Tensor x({4, 12});
  REQUIRE_THROWS_AS(backend->rope({4, 3, 0, 1e4}, RopeDirection::forward, x, *stream), Error);
  REQUIRE_THROWS_AS(backend->rope({2, 8, 0, 1e4}, RopeDirection::forward, x, *stream), Error);
}
