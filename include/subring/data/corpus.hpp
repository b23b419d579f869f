#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace subring::data {

/// What `subring tokenize` is asked to do.
struct CorpusOptions {
  std::string tokenizer;    ///< as load_tokenizer() takes it; empty when one is trained
  int64_t train_vocab = 0;  ///< ids of a SentencePiece model to train on the inputs; 0: none
  std::filesystem::path out;
  double validation_fraction = 0.05;  ///< in [0, 0.5]
  int64_t shard_tokens = 100'000'000;
  bool overwrite = false;           ///< replace the token set that `out` holds
  std::vector<std::string> inputs;  ///< as DocumentReader takes them
};

struct SplitSummary {
  int64_t documents = 0;  ///< that end in this split
  int64_t tokens = 0;     ///< document ends included
  int64_t shards = 0;
};

struct CorpusSummary {
  SplitSummary train;
  SplitSummary validation;
  int64_t vocab_size = 0;
  int64_t text_bytes = 0;       ///< UTF-8 bytes of all documents
  int64_t empty_documents = 0;  ///< left out
  bool split_by_documents = false;
};

struct CorpusProgress {
  std::string_view activity;  ///< "sampling", "training tokenizer", "tokenizing"
  int64_t bytes_read = 0;
  int64_t total_bytes = 0;  ///< -1: unknown
  int64_t tokens = 0;
};

/// Writes train_00000.bin, ..., validation_00000.bin, ..., tokenizer.model (unless bytes) and
/// tokenizer.json to `options.out`, in memory that does not depend on the size of the inputs.
///
/// Held out are whole documents: one begins to be held out when the held-out tokens so far are
/// below their fraction, the first after 1 / (2 validation_fraction) documents. A text with fewer
/// documents gives up its last tokens instead. Either way no token is in both splits.
///
/// All files appear at the end, tokenizer.json last; an error or a full disk before leaves `out`
/// as it was.
///
/// @param report  called about once a block of text
/// @throws Error{config}  options out of range; `out` holds a token set and overwrite is off
/// @throws Error{data}    inputs, tokenizer; Error{io} writing
CorpusSummary tokenize_corpus(const CorpusOptions& options,
                              const std::function<void(const CorpusProgress&)>& report);

}  // namespace subring::data
