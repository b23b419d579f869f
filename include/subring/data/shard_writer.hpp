#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "subring/data/staged_file.hpp"

namespace subring::data {

/// Writes one split as shards "<directory>/<split>_00000.bin", ... . uint16 where the vocabulary
/// allows. Memory: one block of tokens, however long the split. Nothing appears before commit().
class ShardWriter {
 public:
  struct Options {
    std::filesystem::path directory;
    std::string split;  ///< "train" or "validation"
    int64_t vocab_size = 0;
    int64_t shard_tokens = 100'000'000;  ///< in [1, kMaxShardTokens]; llm.c's default
  };
  explicit ShardWriter(Options options);

  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_shards() const { return static_cast<int64_t>(shards_.size()); }

  /// @throws Error{io}
  void append(std::span<const int32_t> tokens);
  /// Takes the last `count` tokens away and appends them to `target`.
  void move_tail(int64_t count, ShardWriter& target);
  /// Writes out what is buffered, and the headers; all is on the disk. Nothing can be added after.
  void finish();
  /// Renames all shards to their names. Call finish() first.
  void commit();

 private:
  struct Staged {
    std::unique_ptr<StagedFile> file;
    int64_t num_tokens;
  };
  void open_shard();
  void close_shard();
  void flush();

  Options options_;
  int64_t token_bytes_;
  std::vector<Staged> shards_;
  std::vector<unsigned char> buffer_;
  int64_t num_tokens_ = 0;
};

}  // namespace subring::data
