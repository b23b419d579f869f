#include "support/reference.hpp"

using namespace subring;
using namespace subring::reference;

namespace {

struct Case {
  int64_t rows, columns, inner;
};

/// op(a) op(b) + start in double; element (i, j) of op(x) is x[j, i] when transposed.
Vector multiply(const Case& c,
                const Tensor& a,
                Transpose flip_a,
                const Tensor& b,
                Transpose flip_b,
                const Tensor& start) {
  Vector result = start.wide();
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.columns; ++j) {
      for (int64_t k = 0; k < c.inner; ++k) {
        const double x = a[flip_a == Transpose::yes ? k * c.rows + i : i * c.inner + k];
        const double y = b[flip_b == Transpose::yes ? j * c.inner + k : k * c.columns + j];
        result[static_cast<size_t>(i * c.columns + j)] += x * y;
      }
    }
  }
  return result;
}

}  // namespace

TEST_CASE("matmul equals plain loops for every transpose, write and odd extents") {
  auto backend = cpu_backend(GENERATE(1, 3));
  auto stream = backend->make_stream();
  const Case c = GENERATE(Case{1, 1, 1},
                          Case{3, 5, 7},
                          Case{300, 17, 33},
                          Case{13, 1100, 20},
                          Case{530, 1, 40},
                          Case{4, 3, 0});
  for (const Transpose flip_a : {Transpose::no, Transpose::yes}) {
    for (const Transpose flip_b : {Transpose::no, Transpose::yes}) {
      for (const Write write : {Write::overwrite, Write::accumulate}) {
        const Tensor a = random_tensor(
            flip_a == Transpose::yes ? Shape{c.inner, c.rows} : Shape{c.rows, c.inner}, 1);
        const Tensor b = random_tensor(
            flip_b == Transpose::yes ? Shape{c.columns, c.inner} : Shape{c.inner, c.columns}, 2);
        const Tensor start = random_tensor({c.rows, c.columns}, 3);
        Tensor got = start;
        backend->matmul(a, flip_a, b, flip_b, got, write, *stream);
        const Tensor zero(start.shape);
        const Vector want =
            multiply(c, a, flip_a, b, flip_b, write == Write::accumulate ? start : zero);
        const double scale = static_cast<double>(c.inner) * largest(a.wide()) * largest(b.wide()) +
                             largest(start.wide());
        require_close(got, want, sum_tolerance(c.inner + 1), scale);
      }
    }
  }
}

TEST_CASE("a 3-D view is a matrix of its first axis by all others, and extents must agree") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  const Tensor a = random_tensor({4, 2, 3}, 1);
  const Tensor b = random_tensor({6, 5}, 2);
  Tensor c({4, 5}), flat({4, 5}), wrong({5, 4});
  backend->matmul(a, Transpose::no, b, Transpose::no, c, Write::overwrite, *stream);
  backend->matmul(ConstView(a).reshape({4, 6}),
                  Transpose::no,
                  b,
                  Transpose::no,
                  flat,
                  Write::overwrite,
                  *stream);
  REQUIRE(same_bits(c, flat));
  REQUIRE_THROWS_AS(
      backend->matmul(a, Transpose::no, b, Transpose::no, wrong, Write::overwrite, *stream), Error);
  REQUIRE_THROWS_AS(
      backend->matmul(a, Transpose::no, b, Transpose::yes, c, Write::overwrite, *stream), Error);
  const ConstView integers{a.values.data(), DType::i32, a.shape};
  REQUIRE_THROWS_AS(
      backend->matmul(integers, Transpose::no, b, Transpose::no, c, Write::overwrite, *stream),
      Error);
}

TEST_CASE("matmul's bits do not depend on the number of threads") {
  const Tensor a = random_tensor({700, 65}, 1);
  const Tensor b = random_tensor({65, 1300}, 2);
  Tensor one({700, 1300}), three({700, 1300});
  for (auto& [threads, c] : {std::pair{1, &one}, std::pair{3, &three}}) {
    auto backend = cpu_backend(threads);
    auto stream = backend->make_stream();
    backend->matmul(a, Transpose::no, b, Transpose::no, *c, Write::overwrite, *stream);
  }
  REQUIRE(same_bits(one, three));
}
