#include <algorithm>
#include <array>

#include "backend/targets.hpp"
#include "support/reference.hpp"

using namespace subring;
using namespace subring::reference;

namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

struct Problem {
  AttentionShape shape;
  Tensor q, k, v, d_out;
};

Problem make_problem(const AttentionShape& shape, double logit_scale = 1) {
  const int64_t query_width = shape.num_query_heads * shape.head_dim;
  const int64_t key_width = shape.num_kv_heads * shape.head_dim;
  return {shape,
          random_tensor({shape.num_queries, query_width}, 1, logit_scale),
          random_tensor({shape.num_keys, key_width}, 2, logit_scale),
          random_tensor({shape.num_keys, key_width}, 3),
          random_tensor({shape.num_queries, query_width}, 4)};
}

struct Result {
  Tensor out, lse, delta, d_q, d_k, d_v;
};

/// Runs forward and backward with the keys cut into blocks [cuts[i], cuts[i + 1]), in `order`.
Result run_blocks(Backend& backend,
                  const Problem& p,
                  const std::vector<int64_t>& cuts,
                  const std::vector<size_t>& order) {
  auto stream = backend.make_stream();
  Result r{Tensor(p.q.shape, 99),  // content without meaning while lse is -inf
           Tensor({p.shape.num_query_heads, p.shape.num_queries}, kNothing),
           Tensor({p.shape.num_query_heads, p.shape.num_queries}),
           Tensor(p.q.shape),
           Tensor(p.k.shape),
           Tensor(p.k.shape)};
  const auto block_shape = [&](size_t block) {
    AttentionShape shape = p.shape;
    shape.first_key_position += cuts[block];
    shape.num_keys = cuts[block + 1] - cuts[block];
    return shape;
  };
  const auto block_of = [&](const Tensor& x, size_t block) {
    return ConstView(x).rows(cuts[block], cuts[block + 1] - cuts[block]);
  };
  for (const size_t block : order) {
    backend.attention_forward_block(
        block_shape(block), p.q, block_of(p.k, block), block_of(p.v, block), r.out, r.lse, *stream);
  }
  backend.attention_backward_prepare(p.shape, r.out, p.d_out, r.delta, *stream);
  for (const size_t block : order) {
    backend.attention_backward_block(block_shape(block),
                                     p.q,
                                     block_of(p.k, block),
                                     block_of(p.v, block),
                                     p.d_out,
                                     r.lse,
                                     r.delta,
                                     r.d_q,
                                     View(r.d_k).rows(cuts[block], cuts[block + 1] - cuts[block]),
                                     View(r.d_v).rows(cuts[block], cuts[block + 1] - cuts[block]),
                                     block % 2 == 0 ? Write::overwrite : Write::accumulate,
                                     *stream);
  }
  return r;
}

Result run_whole(Backend& backend, const Problem& p) {
  return run_blocks(backend, p, {0, p.shape.num_keys}, {0});
}

/// A score is a sum of D products with magnitude up to `reach`; its error moves a weight by as much
/// relatively. Sums over keys (out, d_q) or queries (d_k, d_v) add their own roundings.
void require_reference(const Problem& p, const Result& r) {
  const Attention want = attention(p.shape, p.q.wide(), p.k.wide(), p.v.wide(), p.d_out.wide());
  const double size = static_cast<double>(p.shape.head_dim);
  const double reach = std::sqrt(size) * largest(p.q.wide()) * largest(p.k.wide());
  const double weight_error = 2 * reach * sum_tolerance(p.shape.head_dim) +
                              sum_tolerance(std::max(p.shape.num_keys, p.shape.num_queries));
  for (int64_t i = 0; i < r.lse.size(); ++i) {
    if (std::isinf(want.lse[static_cast<size_t>(i)])) REQUIRE(r.lse[i] == kNothing);
  }
  Vector out = want.out;
  for (int64_t i = 0; i < p.shape.num_queries; ++i) {
    for (int64_t h = 0; h < p.shape.num_query_heads; ++h) {
      if (r.lse[h * p.shape.num_queries + i] != kNothing) continue;
      const int64_t at = (i * p.shape.num_query_heads + h) * p.shape.head_dim;
      std::fill_n(out.begin() + at, p.shape.head_dim, 99.0);  // left as it was
    }
  }
  const double values = largest(p.v.wide());
  require_close(r.out, out, weight_error, values);
  // delta and d_weights are sums of D products. The roundings of different queries, over which d_k
  // and d_v sum, are independent: they grow with the root of their number.
  const double gradients = largest(p.d_out.wide());
  const double d_weights = 2 * size * gradients * values / std::sqrt(size);
  const double terms =
      static_cast<double>(p.shape.num_query_heads / p.shape.num_kv_heads * p.shape.num_queries);
  require_close(r.d_q, want.d_q, 2 * weight_error * d_weights, largest(p.k.wide()));
  require_close(
      r.d_k, want.d_k, 2 * weight_error * d_weights * std::sqrt(terms), largest(p.q.wide()));
  require_close(r.d_v, want.d_v, weight_error * std::sqrt(terms), gradients);
}

}  // namespace

TEST_CASE("attention equals plain loops in double, for odd sizes, groups and positions") {
  auto backend = cpu_backend();
  const AttentionShape shape = GENERATE(AttentionShape{1, 1, 1, 1, 1, 0, 0},
                                        AttentionShape{5, 7, 2, 1, 3, 2, 0},
                                        AttentionShape{33, 33, 4, 2, 16, 0, 0},
                                        AttentionShape{131, 300, 6, 2, 40, 169, 0},
                                        AttentionShape{257, 257, 2, 2, 64, 1000, 1000},
                                        AttentionShape{40, 30, 2, 1, 8, 20, 35},   // partly seen
                                        AttentionShape{40, 30, 2, 1, 8, 1000, 3},  // all seen
                                        AttentionShape{40, 30, 2, 1, 8, 3, 1000},  // none seen
                                        AttentionShape{300, 290, 1, 1, 32, 5, 140},
                                        AttentionShape{9, 520, 3, 1, 128, 511, 0});
  const Problem p = make_problem(shape);
  require_reference(p, run_whole(*backend, p));
}

TEST_CASE("attention's keys may come in blocks of any size and order") {
  auto backend = cpu_backend();
  const Problem p = make_problem({150, 160, 4, 2, 24, 20, 10});
  std::vector<size_t> order{0, 1, 2, 3};
  do {
    require_reference(p, run_blocks(*backend, p, {0, 1, 40, 133, 160}, order));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("attention with extreme logits stays finite and right") {
  auto backend = cpu_backend();
  // Logits up to about 1e5; a float score is good to 1e-2 there, so compare what must hold anyway.
  Problem p = make_problem({70, 90, 2, 1, 16, 20, 0}, 200);
  const Result whole = run_whole(*backend, p);
  const Result reversed = run_blocks(*backend, p, {0, 30, 60, 90}, {2, 1, 0});
  const double values = largest(p.v.wide());
  for (const Result* r : {&whole, &reversed}) {
    for (const Tensor* x : {&r->out, &r->lse, &r->d_q, &r->d_k, &r->d_v}) {
      for (const float value : x->values) REQUIRE(std::isfinite(value));
    }
    // A weighted mean of v: never outside of it, but for roundings.
    for (const float value : r->out.values) REQUIRE(std::abs(value) <= values * 1.001);
  }
  const Attention want = attention(p.shape, p.q.wide(), p.k.wide(), p.v.wide());
  const double reach = 4 * largest(p.q.wide()) * largest(p.k.wide());
  require_close(whole.lse, want.lse, sum_tolerance(p.shape.head_dim + 3), reach);
  require_close(reversed.lse, want.lse, sum_tolerance(p.shape.head_dim + 3), reach);
}

TEST_CASE("a block that moves the maximum by 1e4 drops what came before, and the other way round") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  const AttentionShape shape{1, 1, 1, 1, 1, 5, 0};
  Tensor q({1, 1}, 1), low({1, 1}, -1e4F), high({1, 1}, 1e4F), one({1, 1}, 1), two({1, 1}, 2);
  for (const bool high_first : {false, true}) {
    Tensor out({1, 1}), lse({1, 1}, kNothing);
    const Tensor& first = high_first ? high : low;
    const Tensor& second = high_first ? low : high;
    backend->attention_forward_block(shape, q, first, one, out, lse, *stream);
    backend->attention_forward_block(shape, q, second, two, out, lse, *stream);
    REQUIRE(out[0] == (high_first ? 1 : 2));
    REQUIRE(lse[0] == Approx(1e4).epsilon(1e-6));
  }
}

TEST_CASE("NaN in attention's inputs is not lost") {
  auto backend = cpu_backend();
  Problem p = make_problem({20, 20, 1, 1, 8, 0, 0});
  p.k[3 * 8] = std::numeric_limits<float>::quiet_NaN();
  const Result r = run_whole(*backend, p);
  for (int64_t i = 0; i < 20; ++i) REQUIRE(std::isnan(r.out[i * 8]) == (i >= 3));
}

TEST_CASE("attention's bits do not depend on the number of threads") {
  // One kv head and three threads: the wave front runs; two heads and one thread: it does not.
  const Problem p = make_problem(GENERATE(AttentionShape{600, 700, 2, 1, 16, 100, 0},
                                          AttentionShape{300, 600, 4, 4, 32, 300, 0}));
  auto one = cpu_backend(1);
  auto three = cpu_backend(3);
  const Result a = run_whole(*one, p);
  const Result b = run_whole(*three, p);
  REQUIRE(same_bits(a.out, b.out));
  REQUIRE(same_bits(a.lse, b.lse));
  REQUIRE(same_bits(a.d_q, b.d_q));
  REQUIRE(same_bits(a.d_k, b.d_k));
  REQUIRE(same_bits(a.d_v, b.d_v));
}

TEST_CASE("attention is the same on every instruction set, to rounding") {
  const Problem p = make_problem({131, 300, 2, 1, 40, 169, 0});
  auto backend = cpu_backend();
  for_each_target([&] { require_reference(p, run_whole(*backend, p)); });
}

TEST_CASE("attention refuses extents that disagree") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  const Problem p = make_problem({4, 4, 4, 2, 8, 0, 0});
  Tensor out(p.q.shape), lse({4, 4}), short_lse({4, 3});
  REQUIRE_THROWS_AS(
      backend->attention_forward_block(p.shape, p.q, p.k, p.v, out, short_lse, *stream), Error);
  REQUIRE_THROWS_AS(backend->attention_forward_block(p.shape, p.k, p.k, p.v, out, lse, *stream),
                    Error);
  AttentionShape uneven = p.shape;
  uneven.num_kv_heads = 3;
  REQUIRE_THROWS_AS(backend->attention_forward_block(uneven, p.q, p.k, p.v, out, lse, *stream),
                    Error);
}
