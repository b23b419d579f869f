#include "subring/data/loader.hpp"

#include <algorithm>
#include <utility>

#include "subring/core/error.hpp"
#include "subring/core/random.hpp"
#include "subring/data/order.hpp"

namespace subring::data {
namespace {

constexpr uint64_t kOrderStream = 0x6f72646572;  // "order"

/// Sets up to this size are checked for foreign tokens when they are opened; a fraction of a
/// second.
constexpr int64_t kCheckedTokens = 128 << 20;

void check_tokens(const Shard& shard, int64_t vocab_size) {
  std::vector<int32_t> piece(1 << 16);
  for (int64_t first = 0; first < shard.num_tokens();) {
    const int64_t count =
        std::min<int64_t>(static_cast<int64_t>(piece.size()), shard.num_tokens() - first);
    shard.read(first, std::span(piece).first(static_cast<size_t>(count)), vocab_size);
    first += count;
  }
}

}  // namespace

Loader::Loader(
    std::string pattern, int64_t vocab_size, int64_t seq_len, bool shuffle, uint64_t seed)
    : pattern_(std::move(pattern)),
      vocab_size_(vocab_size),
      seq_len_(seq_len),
      shuffle_(shuffle),
      seed_(seed) {
  SUBRING_CHECK(seq_len >= 1 && vocab_size >= 1,
                ErrorKind::shape,
                "seq_len {} and vocab_size {} must be positive",
                seq_len,
                vocab_size);
  first_sequence_.push_back(0);
  int64_t longest = 0;
  for (const std::string& path : match_paths(pattern_)) {
    const Shard& shard = shards_.emplace_back(path);
    const int64_t tokens = shard.num_tokens();
    const int64_t sequences = tokens > 0 ? (tokens - 1) / seq_len : 0;
    first_sequence_.push_back(first_sequence_.back() + sequences);
    num_tokens_ += tokens;
    unused_tokens_ += sequences > 0 ? tokens - 1 - sequences * seq_len : tokens;
    longest = std::max(longest, tokens);
  }
  if (num_sequences() > 0) {
    if (num_tokens_ > kCheckedTokens) return;
    for (const Shard& shard : shards_) check_tokens(shard, vocab_size_);
    return;
  }
  throw Error(
      ErrorKind::data,
      fmt::format("the longest of {} shard(s) has {} tokens; one sequence needs seq_len + 1 "
                  "= {}",
                  shards_.size(),
                  longest,
                  seq_len + 1),
      pattern_);
}

int64_t Loader::sequence_of_set(int64_t index) const {
  SUBRING_CHECK(index >= 0, ErrorKind::shape, "sequence {} of a run", index);
  const int64_t epoch = index / num_sequences();
  const int64_t within = index % num_sequences();
  if (!shuffle_) return within;
  const auto key = derive_seed(seed_, kOrderStream, static_cast<uint64_t>(epoch));
  return Permutation(num_sequences(), key)(within);
}

void Loader::read(int64_t index,
                  int64_t first_position,
                  std::span<int32_t> tokens,
                  std::span<int32_t> labels) const {
  const auto count = static_cast<int64_t>(tokens.size());
  SUBRING_CHECK(
      labels.size() == tokens.size() && first_position >= 0 && first_position + count <= seq_len_,
      ErrorKind::shape,
      "positions [{}, {}) with {} labels of a sequence of {}",
      first_position,
      first_position + count,
      labels.size(),
      seq_len_);
  if (count == 0) return;
  const int64_t sequence = sequence_of_set(index);
  const auto after = std::upper_bound(first_sequence_.begin(), first_sequence_.end(), sequence);
  const auto shard_index = static_cast<size_t>(after - first_sequence_.begin() - 1);
  const int64_t window = sequence - first_sequence_[shard_index];
  const int64_t first = window * seq_len_ + first_position;
  const Shard& shard = shards_[shard_index];
  shard.read(first, tokens, vocab_size_);
  std::copy(tokens.begin() + 1, tokens.end(), labels.begin());
  shard.read(first + count, labels.last(1), vocab_size_);
}

int64_t Loader::num_valid_labels(int64_t index) const {
  SUBRING_CHECK(index >= 0, ErrorKind::shape, "sequence {} of a run", index);
  return seq_len_;
}

}  // namespace subring::data
