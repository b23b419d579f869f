#include "subring/data/shard_writer.hpp"

#include <numeric>

#include "subring/core/error.hpp"
#include "subring/data/shard.hpp"
#include "support/catch.hpp"
#include "temporary_directory.hpp"

using namespace subring;
using namespace subring::data;

namespace {

std::vector<int32_t> count_up(int64_t first, int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(first));
  return tokens;
}

std::vector<int32_t> read_all(const TemporaryDirectory& dir, const std::string& split) {
  std::vector<int32_t> all;
  for (const std::string& path : match_paths(dir / (split + "_*.bin"))) {
    const Shard shard(path);
    std::vector<int32_t> tokens(static_cast<size_t>(shard.num_tokens()));
    shard.read(0, tokens, kMaxShardTokens);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

}  // namespace

TEST_CASE("the writer's bytes are llm.c's, 16 bits as long as the vocabulary allows") {
  const TemporaryDirectory dir;
  const int64_t vocab_size = GENERATE(257, 65536, 65537);
  ShardWriter writer({dir.path(), "train", vocab_size, 100});
  const std::vector<int32_t> tokens = {0, 256, static_cast<int32_t>(vocab_size - 1)};
  writer.append(tokens);
  writer.finish();
  REQUIRE_FALSE(std::filesystem::exists(dir / "train_00000.bin"));
  writer.commit();
  REQUIRE(content_of(dir / "train_00000.bin") ==
          llmc_shard({tokens.begin(), tokens.end()}, vocab_size <= 65536 ? 2 : 4));
}

TEST_CASE("tokens go on from shard to shard") {
  const TemporaryDirectory dir;
  ShardWriter writer({dir.path(), "train", 1000, 64});
  for (int64_t at = 0; at < 200; at += 50) writer.append(count_up(at, 50));
  writer.finish();
  writer.commit();
  REQUIRE(writer.num_shards() == 4);
  REQUIRE(Shard(dir / "train_00003.bin").num_tokens() == 200 - 3 * 64);
  REQUIRE(read_all(dir, "train") == count_up(0, 200));
}

TEST_CASE("a moved tail ends one split and makes the other") {
  const TemporaryDirectory dir;
  const int64_t vocab_size = GENERATE(2000000, 60000);        // 32 and 16 bits
  const int64_t total = vocab_size == 60000 ? 5000 : 700000;  // the latter past a block
  const int64_t shard_tokens = GENERATE(700, 100000000);
  if (total > 100000 && shard_tokens == 700) return;  // a thousand files
  for (const int64_t tail : {int64_t{0}, int64_t{1}, total / 3, total - 1, total}) {
    ShardWriter train({dir.path(), "train", vocab_size, shard_tokens});
    ShardWriter validation({dir.path(), "validation", vocab_size, shard_tokens});
    train.append(count_up(0, total));
    train.move_tail(tail, validation);
    train.finish();
    validation.finish();
    train.commit();
    validation.commit();
    REQUIRE(train.num_tokens() == total - tail);
    if (tail < total) REQUIRE(read_all(dir, "train") == count_up(0, total - tail));
    if (tail > 0) REQUIRE(read_all(dir, "validation") == count_up(total - tail, tail));
    for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
      std::filesystem::remove(entry.path());
    }
  }
}

TEST_CASE("a writer that ends early leaves nothing") {
  const TemporaryDirectory dir;
  {
    ShardWriter writer({dir.path(), "train", 257, 10});
    writer.append(count_up(0, 100));
    REQUIRE_THROWS_AS(writer.append(std::vector<int32_t>{257}), Error);
    REQUIRE_FALSE(std::filesystem::is_empty(dir.path()));
  }
  REQUIRE(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("what the system refuses is an io error that names the file") {
  const TemporaryDirectory dir;
  ShardWriter writer({dir.path() / "missing", "train", 257, 10});
  try {
    writer.append(count_up(0, 1));
    FAIL("no error");
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::io);
    REQUIRE_THAT(error.what(), contains("missing/train_00000.bin.partial"));
  }
}
