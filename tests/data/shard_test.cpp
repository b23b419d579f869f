#include "subring/data/shard.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "subring/core/error.hpp"
#include "support/catch.hpp"
#include "temporary_directory.hpp"

using namespace subring;
using namespace subring::data;

namespace {

/// The message of the Error{data} that `action` throws; empty when it throws nothing.
template <typename Action>
std::string data_error(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::data);
    return error.what();
  }
  return "";
}

std::string with_word(std::string bytes, size_t index, int32_t value) {
  std::memcpy(bytes.data() + 4 * index, &value, 4);
  return bytes;
}

int64_t resident_bytes() {
  int64_t pages = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

TEST_CASE("shards of llm.c's layout are read unchanged") {
  const TemporaryDirectory dir;
  const int token_bytes = GENERATE(2, 4);
  std::vector<uint32_t> tokens(1000);
  std::iota(tokens.begin(), tokens.end(), token_bytes == 2 ? 64000U : 100000U);
  const Shard shard(dir.file("a.bin", llmc_shard(tokens, token_bytes)));
  REQUIRE(shard.num_tokens() == 1000);
  REQUIRE(shard.token_bytes() == token_bytes);
  std::vector<int32_t> read(998);
  shard.read(2, read, 200000);
  REQUIRE(std::equal(read.begin(), read.end(), tokens.begin() + 2));
}

TEST_CASE("malformed shards are named with file, offset and what would be right") {
  const TemporaryDirectory dir;
  const std::string good = llmc_shard({1, 2, 3}, 2);
  const auto message = [&](std::string_view content) {
    const std::string path = dir.file("x.bin", content);
    const std::string text = data_error([&] { Shard shard(path); });
    REQUIRE(text.starts_with(path + ": "));
    return text.substr(path.size() + 2);
  };
  CHECK(message("") == "is empty; a token shard has a header of 1024 bytes");
  CHECK(message("abc") == "ends at offset 3, within the header of 1024 bytes");
  CHECK(message(good.substr(0, 1023)) == "ends at offset 1023, within the header of 1024 bytes");
  CHECK(message(with_word(good, 0, 42)) ==
        "offset 0: magic 42; a token shard begins with 20240520 (uint16) or 20240801 (uint32)");
  CHECK(message(with_word(good, 1, 2)) ==
        "offset 4: version 2; magic 20240520 goes with version 1");
  CHECK(message(with_word(llmc_shard({1}, 4), 1, 1)) ==
        "offset 4: version 1; magic 20240801 goes with version 7");
  CHECK(message(with_word(good, 2, -5)) == "offset 8: a count of -5 tokens");
  CHECK(message(good.substr(0, good.size() - 1)) ==
        "offset 8: the header counts 3 tokens, which end at offset 1030; the file ends at 1029 "
        "(truncated)");
  CHECK(message(good + "x") ==
        "offset 8: the header counts 3 tokens, which end at offset 1030; the file ends at 1031");
  // 4 bytes times this count passes 32 bits: 2^32 - 4 + 1024 would wrap to 1020.
  CHECK(message(with_word(llmc_shard({}, 4), 2, 0x3fffffff)) ==
        "offset 8: the header counts 1073741823 tokens, which end at offset 4294968316; the file "
        "ends at 1024 (truncated)");
}

TEST_CASE("what is no file is named") {
  const TemporaryDirectory dir;
  CHECK_THAT(data_error([&] { Shard shard(dir / "none.bin"); }), contains("No such file"));
  CHECK_THAT(data_error([&] { Shard shard(dir.path().string()); }), contains("regular file"));
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(data_error([&] { Shard shard(dir / "pipe"); }), contains("regular file"));
}

TEST_CASE("a token past the vocabulary is named by its byte offset when it is read") {
  const TemporaryDirectory dir;
  const int token_bytes = GENERATE(2, 4);
  std::vector<uint32_t> tokens(100, 5);
  tokens[40] = 257;
  if (token_bytes == 4) tokens[70] = 0xffffffffU;
  const Shard shard(dir.file("a.bin", llmc_shard(tokens, token_bytes)));
  std::vector<int32_t> out(20);
  REQUIRE_NOTHROW(shard.read(0, out, 257));
  CHECK_THAT(data_error([&] { shard.read(30, out, 257); }),
             contains(fmt::format("offset {}: token 257 is not below vocab_size 257",
                                  1024 + 40 * token_bytes)));
  if (token_bytes == 4) {
    CHECK_THAT(data_error([&] { shard.read(60, out, 2147483647); }),
               contains("offset 1304: token 4294967295 "));
  }
}

TEST_CASE("a shard that is truncated or rewritten while open is an error, not a crash") {
  const TemporaryDirectory dir;
  const std::string path = dir.file("a.bin", llmc_shard(std::vector<uint32_t>(100000, 1), 2));
  const Shard shard(path);
  std::vector<int32_t> out(10);
  shard.read(99000, out, 257);
  SECTION("truncated") {
    REQUIRE(::truncate(path.c_str(), 2000) == 0);
    CHECK_THAT(data_error([&] { shard.read(99000, out, 257); }),
               contains("was 201024 bytes when opened and is 2000 now"));
  }
  SECTION("rewritten") {
    const timespec times[2] = {{1, 0}, {1, 0}};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
    CHECK_THAT(data_error([&] { shard.read(99000, out, 257); }), contains("modified"));
  }
  SECTION("removed or replaced by rename: the mapping stays whole") {
    std::filesystem::rename(dir.file("b.bin", "other"), path);
    REQUIRE_NOTHROW(shard.read(99000, out, 257));
    std::filesystem::remove(path);
    REQUIRE_NOTHROW(shard.read(99000, out, 257));
  }
}

TEST_CASE("a shard of 4 GB costs the pages that are read") {
  const TemporaryDirectory dir;
  const std::string path =
      dir.file("big.bin", with_word(llmc_shard({}, 2), 2, 2147483647));    // all tokens 0
  REQUIRE(::truncate(path.c_str(), 1024 + int64_t{2147483647} * 2) == 0);  // sparse
  const int64_t before = resident_bytes();
  const Shard shard(path);
  std::vector<int32_t> out(1000);
  for (int64_t at = 0; at < 10; ++at) shard.read(at * 214748364, out, 257);
  REQUIRE(shard.num_tokens() == 2147483647);
  // Ten reads touch at most two pages each; the kernel maps up to 64 KiB around a fault.
  REQUIRE(resident_bytes() - before < int64_t{10} * 2 * 65536 + (int64_t{1} << 20));
}

TEST_CASE("globs match in byte order and must match") {
  const TemporaryDirectory dir;
  for (const char* name : {"b.bin", "a.bin", "B.bin", "a10.bin", "a.txt"}) dir.file(name, "");
  REQUIRE(match_paths(dir / "*.bin") ==
          std::vector<std::string>{dir / "B.bin", dir / "a.bin", dir / "a10.bin", dir / "b.bin"});
  CHECK_THAT(data_error([&] { match_paths(dir / "*.none"); }), contains("no file matches"));
  CHECK_THAT(data_error([&] { match_paths(""); }), contains("glob"));
}
