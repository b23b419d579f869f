#include "support/reference.hpp"

using namespace subring;
using namespace subring::reference;

TEST_CASE("embedding copies rows and its gradient adds them, repeated tokens in order") {
  auto backend = cpu_backend(GENERATE(1, 3));
  auto stream = backend->make_stream();
  const int64_t width = GENERATE(1, 300);
  const Integers tokens{{2, 0, 2, 2, 5}};
  const Tensor table = random_tensor({6, width}, 1), d_out = random_tensor({5, width}, 2);
  Tensor out({5, width}), d_table({6, width}, 1), want({6, width}, 1);
  backend->embedding_forward(tokens, table, out, *stream);
  backend->embedding_backward(tokens, d_out, d_table, *stream);
  for (int64_t i = 0; i < 5; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const int64_t row = tokens.values[static_cast<size_t>(i)];
      REQUIRE(out[i * width + j] == table[row * width + j]);
      want[row * width + j] += d_out[i * width + j];
    }
  }
  REQUIRE(same_bits(d_table, want));
}

TEST_CASE("embedding refuses tokens outside of its table") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  Tensor table({6, 3}), out({1, 3});
  REQUIRE_THROWS_AS(backend->embedding_forward(Integers{{6}}, table, out, *stream), Error);
  REQUIRE_THROWS_AS(backend->embedding_backward(Integers{{-1}}, out, table, *stream), Error);
  REQUIRE_THROWS_AS(backend->embedding_forward(Integers{{1, 2}}, table, out, *stream), Error);
}
