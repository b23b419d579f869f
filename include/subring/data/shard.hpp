#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace subring::data {

// Token shards of llm.c (github.com/karpathy/llm.c, dev/data/data_common.py): a header of 256
// little-endian int32 {magic, version, num_tokens, 0...}, then the tokens.
inline constexpr int64_t kShardHeaderBytes = 256 * 4;
inline constexpr int32_t kShardMagic16 = 20240520;
inline constexpr int32_t kShardVersion16 = 1;
inline constexpr int32_t kShardMagic32 = 20240801;
inline constexpr int32_t kShardVersion32 = 7;
/// The header's count is an int32.
inline constexpr int64_t kMaxShardTokens = 2147483647;

/// One shard, memory-mapped read-only: opening costs a page, reading costs the pages touched, and
/// the kernel may drop them again, so a set may be larger than memory. Const calls are thread-safe.
///
/// A file that shrank or changed after it was opened is reported by read(). Not covered: a file
/// that is truncated while read() copies from it, and a disk that fails under the mapping; both
/// end the process by SIGBUS.
class Shard {
 public:
  /// @throws Error{data}  missing, not a regular file, empty, truncated, wrong magic or version, a
  ///                      count that is negative or disagrees with the size
  explicit Shard(std::string path);
  ~Shard();
  Shard(Shard&& other) noexcept;
  Shard& operator=(Shard&&) = delete;

  const std::string& path() const { return path_; }
  int64_t num_tokens() const { return num_tokens_; }
  /// 2 or 4.
  int64_t token_bytes() const { return token_bytes_; }

  /// Copies tokens [first, first + out.size()).
  /// @throws Error{data}  a token not below `vocab_size`, by file and byte offset; a changed file
  void read(int64_t first, std::span<int32_t> out, int64_t vocab_size) const;

 private:
  void check_unchanged() const;

  std::string path_;
  const unsigned char* mapping_ = nullptr;
  int64_t size_bytes_ = 0;
  int64_t num_tokens_ = 0;
  int64_t token_bytes_ = 0;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
  int64_t modified_nanoseconds_ = 0;
};

/// Paths that match a glob (with ~ and {a,b}), sorted by bytes, so that every machine agrees.
/// @throws Error{data} when there are none
std::vector<std::string> match_paths(const std::string& pattern);

}  // namespace subring::data
