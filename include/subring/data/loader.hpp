#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "subring/data/shard.hpp"

namespace subring::data {

/// Sequences of a set of token shards, in the order of a run: sequence 0, 1, 2, ... over epochs.
/// Each epoch has every sequence once, in a seeded order of its own. The data position of a run is
/// the plain number of sequences read. Nothing is held in memory but the mapping of the shards.
/// Const calls are thread-safe.
class Loader {
 public:
  /// Opens every shard (a page each). A set of up to 2^27 tokens is read once, so that a token that
  /// is not below vocab_size is found before training; in larger sets it is found when it is read.
  /// @param pattern     glob of shards
  /// @param vocab_size  every token read must be below it
  /// @param seq_len     tokens of a sequence
  /// @param shuffle     false: the order of the files, in every epoch
  /// @throws Error{data}  no match, a malformed shard, no shard with seq_len + 1 tokens
  Loader(std::string pattern, int64_t vocab_size, int64_t seq_len, bool shuffle, uint64_t seed);

  /// Of one epoch: windows of seq_len tokens that do not overlap, each within one shard. The last
  /// label of a window is the token after it.
  int64_t num_sequences() const { return first_sequence_.back(); }
  int64_t num_tokens() const { return num_tokens_; }
  /// Tokens that no sequence reads as input or label: the tails of shards.
  int64_t unused_tokens() const { return unused_tokens_; }
  int64_t seq_len() const { return seq_len_; }

  /// Tokens and labels of positions [first_position, first_position + tokens.size()) of the
  /// `index`-th sequence of the run; epoch = index / num_sequences(). labels[i] is the token that
  /// follows tokens[i] in the text, also where a chunk ends.
  /// @throws Error{data}  a token not below vocab_size; a shard that changed
  void read(int64_t index,
            int64_t first_position,
            std::span<int32_t> tokens,
            std::span<int32_t> labels) const;

  /// Labels >= 0 of the whole sequence (ignored ones are -1). Windows lie within a shard, so that
  /// every position has a label; the one of a document's end is the next document's first token.
  int64_t num_valid_labels(int64_t index) const;

 private:
  int64_t sequence_of_set(int64_t index) const;

  std::string pattern_;
  int64_t vocab_size_;
  int64_t seq_len_;
  bool shuffle_;
  uint64_t seed_;
  std::vector<Shard> shards_;
  std::vector<int64_t> first_sequence_;  // of each shard, and the end
  int64_t num_tokens_ = 0;
  int64_t unused_tokens_ = 0;
};

}  // namespace subring::data
