#include <set>
#include <thread>

#include "backend/targets.hpp"
#include "support/reference.hpp"

using namespace subring;
using namespace subring::reference;

TEST_CASE("make_backend divides the cores of a host among its ranks, at least one each") {
  auto many = make_backend({BackendKind::automatic, 0}, 1 << 20);
  REQUIRE(many->name() == "cpu");
  REQUIRE(many->description().find("1 thread") != std::string::npos);
  REQUIRE(cpu_backend(3)->description().find("3 threads") != std::string::npos);
  REQUIRE(cpu_backend()->description().find("Highway") != std::string::npos);
}

TEST_CASE("tests of instruction sets really choose different ones") {
  std::set<std::string> descriptions;
  for_each_target([&] { descriptions.insert(cpu_backend()->description()); });
  const size_t known = hwy::SupportedAndGeneratedTargets().size();
  REQUIRE(descriptions.size() >= std::min<size_t>(known, 2));
}

TEST_CASE("copies check sizes and move bytes") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  const Tensor x = random_tensor({4, 3}, 1);
  Tensor y({4, 3}), z({12}), w({11});
  backend->upload(std::as_bytes(std::span(x.values)), y, *stream);
  REQUIRE(same_bits(x, y));
  backend->copy(y, z, *stream);
  REQUIRE(z.values == x.values);
  std::vector<float> host(12);
  backend->download(z, std::as_writable_bytes(std::span(host)), *stream);
  stream->synchronize();
  REQUIRE(host == x.values);
  REQUIRE_THROWS_AS(backend->copy(y, w, *stream), Error);
  REQUIRE_THROWS_AS(backend->upload(std::as_bytes(std::span(host)), w, *stream), Error);
  REQUIRE_THROWS_AS(backend->download(y, std::as_writable_bytes(std::span(w.values)), *stream),
                    Error);
}

TEST_CASE("backends of several ranks work side by side in one process") {
  // What --local-ranks does; under TSan this is the test for shared state.
  const AttentionShape shape{70, 300, 2, 1, 16, 230, 0};
  const Tensor q = random_tensor({70, 32}, 1), k = random_tensor({300, 16}, 2);
  std::vector<Tensor> outs(3, Tensor(q.shape));
  std::vector<std::thread> ranks;
  for (Tensor& out : outs) {
    ranks.emplace_back([&] {
      auto backend = cpu_backend(2);
      auto stream = backend->make_stream();
      Tensor lse({2, 70}, -std::numeric_limits<float>::infinity());
      Tensor rotated = q;
      backend->rope({2, 16, 230, 1e4}, RopeDirection::forward, rotated, *stream);
      backend->attention_forward_block(shape, rotated, k, k, out, lse, *stream);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  REQUIRE(same_bits(outs[0], outs[1]));
  REQUIRE(same_bits(outs[0], outs[2]));
}

TEST_CASE("operations on no rows do nothing") {
  auto backend = cpu_backend();
  auto stream = backend->make_stream();
  const Tensor none({0, 8}), weight = random_tensor({8}, 1);
  Tensor y({0, 8}), rstd({0}), d_weight = weight;
  backend->rms_norm_forward(none, weight, 1e-5F, y, rstd, *stream);
  backend->rms_norm_backward(none, none, weight, rstd, y, Write::overwrite, d_weight, *stream);
  REQUIRE(same_bits(d_weight, weight));
  backend->rope({1, 8, 0, 1e4}, RopeDirection::forward, y, *stream);
  backend->swiglu_forward(none, none, y, *stream);
  REQUIRE(backend->sum(none, *stream) == 0);
  Tensor mean({8}, 5);
  backend->column_mean(none, mean, *stream);
  REQUIRE(mean[0] == 0);
  Tensor product({8, 8}, 5);
  backend->matmul(none, Transpose::yes, none, Transpose::no, product, Write::overwrite, *stream);
  REQUIRE(product[9] == 0);
}
