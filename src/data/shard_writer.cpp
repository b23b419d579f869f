#include "subring/data/shard_writer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "subring/core/error.hpp"
#include "subring/data/shard.hpp"

namespace subring::data {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;  // of one write, and of one step of move_tail

}  // namespace

ShardWriter::ShardWriter(Options options)
    : options_(std::move(options)), token_bytes_(options_.vocab_size <= 65536 ? 2 : 4) {
  SUBRING_CHECK(options_.vocab_size >= 1 && options_.vocab_size <= kMaxShardTokens,
                ErrorKind::data,
                "vocab_size {} does not fit a token shard",
                options_.vocab_size);
  SUBRING_CHECK(options_.shard_tokens >= 1 && options_.shard_tokens <= kMaxShardTokens,
                ErrorKind::config,
                "--shard-tokens {}: must be in [1, {}]",
                options_.shard_tokens,
                kMaxShardTokens);
}

void ShardWriter::open_shard() {
  const std::string name = fmt::format("{}_{:05}.bin", options_.split, shards_.size());
  shards_.push_back({std::make_unique<StagedFile>(options_.directory / name), 0});
  buffer_.assign(static_cast<size_t>(kShardHeaderBytes), 0);  // written when the count is known
}

void ShardWriter::flush() {
  if (buffer_.empty()) return;
  shards_.back().file->append(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void ShardWriter::close_shard() {
  flush();
  Staged& shard = shards_.back();
  std::array<int32_t, 3> header = {token_bytes_ == 2 ? kShardMagic16 : kShardMagic32,
                                   token_bytes_ == 2 ? kShardVersion16 : kShardVersion32,
                                   static_cast<int32_t>(shard.num_tokens)};
  shard.file->write_at(0, header.data(), sizeof(header));
  shard.file->sync();
}

void ShardWriter::append(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    SUBRING_CHECK(token >= 0 && token < options_.vocab_size,
                  ErrorKind::data,
                  "token {} is not in [0, {})",
                  token,
                  options_.vocab_size);
    if (shards_.empty()) open_shard();
    if (shards_.back().num_tokens == options_.shard_tokens) {
      close_shard();
      open_shard();
    }
    const auto* bytes = reinterpret_cast<const unsigned char*>(&token);  // little-endian
    buffer_.insert(buffer_.end(), bytes, bytes + token_bytes_);
    ++shards_.back().num_tokens;
    ++num_tokens_;
    if (buffer_.size() >= kBlockBytes) flush();
  }
}

void ShardWriter::move_tail(int64_t count, ShardWriter& target) {
  SUBRING_CHECK(count >= 0 && count <= num_tokens_,
                ErrorKind::shape,
                "tail of {} tokens out of {}",
                count,
                num_tokens_);
  if (count == 0) return;
  flush();
  const int64_t kept = num_tokens_ - count;
  std::vector<int32_t> tokens(kBlockBytes / sizeof(int32_t));
  std::vector<unsigned char> raw(tokens.size() * static_cast<size_t>(token_bytes_));
  for (int64_t at = kept; at < num_tokens_;) {
    Staged& shard = shards_[static_cast<size_t>(at / options_.shard_tokens)];
    const int64_t first = at % options_.shard_tokens;
    const int64_t n = std::min(static_cast<int64_t>(tokens.size()), shard.num_tokens - first);
    shard.file->read_at(kShardHeaderBytes + first * token_bytes_,
                        raw.data(),
                        static_cast<size_t>(n * token_bytes_));
    std::fill(tokens.begin(), tokens.end(), 0);
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(&tokens[static_cast<size_t>(i)],
                  raw.data() + i * token_bytes_,
                  static_cast<size_t>(token_bytes_));
    }
    target.append(std::span<const int32_t>(tokens).first(static_cast<size_t>(n)));
    at += n;
  }
  shards_.resize(static_cast<size_t>((kept + options_.shard_tokens - 1) / options_.shard_tokens));
  num_tokens_ = kept;
  if (shards_.empty()) return;
  Staged& last = shards_.back();
  last.num_tokens = kept - (num_shards() - 1) * options_.shard_tokens;
  last.file->truncate(kShardHeaderBytes + last.num_tokens * token_bytes_);
}

void ShardWriter::finish() {
  if (!shards_.empty()) close_shard();
}

void ShardWriter::commit() {
  for (Staged& shard : shards_) shard.file->commit();
}

}  // namespace subring::data
