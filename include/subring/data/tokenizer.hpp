#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace subring::data {

/// Text <-> token ids. Const calls are thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// "bytes" or "sentencepiece".
  virtual std::string_view kind() const = 0;
  virtual int64_t vocab_size() const = 0;
  /// The id that ends a document. encode() never adds it; decode() gives nothing for it.
  virtual int32_t document_end() const = 0;

  /// The content of a .model file that makes this tokenizer again; empty for bytes.
  virtual std::string_view model() const { return {}; }

  /// Appends the ids of a prefix of `text` to `ids` and returns the bytes they stand for: all of
  /// `text` when `is_last`, otherwise up to a place where cutting changes no id, so that a document
  /// of any size can be encoded piece by piece. Feed the rest again with what follows it.
  /// @param text  whole UTF-8 characters
  /// @throws Error{data}
  virtual size_t encode_prefix(std::string_view text,
                               bool is_last,
                               std::vector<int32_t>& ids) const = 0;
  /// @throws Error{data}  an id outside [0, vocab_size)
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  std::vector<int32_t> encode(std::string_view text) const;
};

/// Ids 0 to 255 are bytes, 256 ends a document. Any text, no loss.
std::unique_ptr<Tokenizer> make_bytes_tokenizer();

/// A SentencePiece model from its serialized form (the content of a .model file); document end is
/// its eos id. Text without a space in 64 KiB is cut between characters there.
/// @param name  for messages
/// @throws Error{data}  not a model, or one without an eos id
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(std::string_view model,
                                                        const std::string& name);

/// A tokenizer by what a user writes: "bytes", FILE.model, or the tokenizer.json (or the directory
/// with it) that `subring tokenize` wrote. @throws Error{data}
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name);

/// A whole file, such as a model. @throws Error{data}
std::string read_file(const std::filesystem::path& path);

}  // namespace subring::data
