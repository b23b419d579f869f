#include "subring/data/loader.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <thread>

#include "subring/core/error.hpp"
#include "support/catch.hpp"
#include "temporary_directory.hpp"

using namespace subring;
using namespace subring::data;

namespace {

/// Shards of 1000, 5 and 537 tokens that count up through all of them.
void make_set(const TemporaryDirectory& dir) {
  uint32_t next = 0;
  for (const auto& [name, count] : {std::pair("a.bin", 1000), {"b.bin", 5}, {"c.bin", 537}}) {
    std::vector<uint32_t> tokens(static_cast<size_t>(count));
    std::iota(tokens.begin(), tokens.end(), next);
    next += static_cast<uint32_t>(count);
    dir.file(name, llmc_shard(tokens, 2));
  }
}

std::vector<int32_t> first_tokens(const Loader& loader, int64_t epoch) {
  std::vector<int32_t> firsts;
  for (int64_t i = 0; i < loader.num_sequences(); ++i) {
    int32_t token = 0;
    int32_t label = 0;
    loader.read(epoch * loader.num_sequences() + i, 0, {&token, 1}, {&label, 1});
    firsts.push_back(token);
  }
  return firsts;
}

std::vector<int32_t> sorted(std::vector<int32_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

TEST_CASE("windows fill each shard and the tails are counted") {
  const TemporaryDirectory dir;
  make_set(dir);
  const Loader loader(dir / "*.bin", 2000, 64, false, 0);
  REQUIRE(loader.num_sequences() == 15 + 0 + 8);  // (1000 - 1) / 64, (5 - 1) / 64, (537 - 1) / 64
  REQUIRE(loader.num_tokens() == 1542);
  REQUIRE(loader.unused_tokens() == (999 - 15 * 64) + 5 + (536 - 8 * 64));
  REQUIRE(loader.num_valid_labels(3) == 64);
  std::vector<int32_t> expected;
  for (int i = 0; i < 15; ++i) expected.push_back(64 * i);
  for (int i = 0; i < 8; ++i) expected.push_back(1005 + 64 * i);
  REQUIRE(first_tokens(loader, 0) == expected);
  REQUIRE(first_tokens(loader, 3) == expected);
}

TEST_CASE("a window that ends at the last token is used") {
  const TemporaryDirectory dir;
  make_set(dir);
  REQUIRE(Loader(dir / "a.bin", 2000, 999, false, 0).num_sequences() == 1);
  REQUIRE(Loader(dir / "b.bin", 2000, 4, false, 0).num_sequences() == 1);
  REQUIRE(Loader(dir / "b.bin", 2000, 2, false, 0).unused_tokens() == 0);
}

TEST_CASE("chunks of any size give the tokens and labels of one piece") {
  const TemporaryDirectory dir;
  make_set(dir);
  const Loader loader(dir / "*.bin", 2000, 60, true, 5);
  for (int64_t index : {int64_t{0}, loader.num_sequences() - 1, 7 * loader.num_sequences() + 3}) {
    std::vector<int32_t> tokens(60);
    std::vector<int32_t> labels(60);
    loader.read(index, 0, tokens, labels);
    for (size_t i = 0; i < 60; ++i) REQUIRE(labels[i] == tokens[i] + 1);  // tokens count up
    for (const int64_t chunk : {1, 7, 15, 20, 30}) {
      for (int64_t first = 0; first < 60; first += chunk) {
        const auto size = static_cast<size_t>(std::min(chunk, 60 - first));
        std::vector<int32_t> part(size);
        std::vector<int32_t> part_labels(size);
        loader.read(index, first, part, part_labels);
        REQUIRE(std::equal(part.begin(), part.end(), tokens.begin() + first));
        REQUIRE(std::equal(part_labels.begin(), part_labels.end(), labels.begin() + first));
      }
    }
  }
}

TEST_CASE("an epoch has every sequence once, order differs by epoch and seed, and repeats") {
  const TemporaryDirectory dir;
  make_set(dir);
  const Loader plain(dir / "*.bin", 2000, 16, false, 1);
  const Loader one(dir / "*.bin", 2000, 16, true, 1);
  const Loader two(dir / "*.bin", 2000, 16, true, 2);
  std::set<std::vector<int32_t>> orders = {first_tokens(plain, 0)};
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    REQUIRE(sorted(first_tokens(one, epoch)) == sorted(first_tokens(plain, 0)));
    orders.insert(first_tokens(one, epoch));
    orders.insert(first_tokens(two, epoch));
  }
  REQUIRE(orders.size() == 11);
  REQUIRE(first_tokens(Loader(dir / "*.bin", 2000, 16, true, 1), 4) == first_tokens(one, 4));
}

TEST_CASE("threads may read at once") {
  const TemporaryDirectory dir;
  make_set(dir);
  const Loader loader(dir / "*.bin", 2000, 16, true, 1);
  const auto expected = first_tokens(loader, 2);
  std::vector<std::vector<int32_t>> found(4);
  std::vector<std::thread> threads;
  for (auto& mine : found) threads.emplace_back([&] { mine = first_tokens(loader, 2); });
  for (auto& thread : threads) thread.join();
  for (const auto& mine : found) REQUIRE(mine == expected);
}

TEST_CASE("sets that cannot be read are named") {
  const TemporaryDirectory dir;
  make_set(dir);
  const auto message = [](auto&& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      REQUIRE(error.kind() == ErrorKind::data);
      return error.what();
    }
    return "";
  };
  CHECK(message([&] { Loader(dir / "*.bin", 2000, 1000, true, 0); }) ==
        (dir / "*.bin") +
            ": the longest of 3 shard(s) has 1000 tokens; one sequence needs seq_len + 1 = 1001");
  CHECK(message([&] {
          Loader(dir / "*.none", 2000, 8, true, 0);
        }).starts_with((dir / "*.none") + ": no file matches"));
  // Token 1541 is the last: no sequence of 100 has it, and still the set is refused.
  CHECK(message([&] { Loader(dir / "c.bin", 1541, 100, false, 0); }) ==
        (dir / "c.bin") + ": offset 2096: token 1541 is not below vocab_size 1541");
}
