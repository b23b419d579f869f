#include "subring/data/sentencepiece.hpp"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <unordered_map>
#include <utility>

#include "subring/core/error.hpp"
#include "subring/data/tokenizer.hpp"
#include "subring/data/utf8.hpp"

namespace subring::data {
namespace {

constexpr size_t kSegmentBytes = size_t{64} << 10;       // encoding costs n log n in its length
constexpr size_t kMaxLineBytes = 1024;                   // of a training sample; bounds its memory
constexpr std::string_view kSpaceSign = "\xe2\x96\x81";  // U+2581

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Largest place <= at that does not split a character.
size_t character_boundary(std::string_view text, size_t at) {
  if (at >= text.size()) return text.size();
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

/// Last single space in text[1, limit), between characters that are no spaces; 0: none.
size_t last_single_space(std::string_view text, size_t limit) {
  for (size_t at = limit - 1; at >= 1; --at) {
    if (text[at] == ' ' && !is_space(text[at - 1]) && !is_space(text[at + 1])) return at;
  }
  return 0;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string_view model, std::string name)
      : name_(std::move(name)), model_(model) {
    check(processor_.LoadFromSerializedProto(model_), "is not a SentencePiece model");
    if (processor_.eos_id() < 0) {
      throw Error(ErrorKind::data, "has no eos id; a document's end needs one", name_);
    }
    std::vector<std::string> pieces;
    check(processor_.Encode("x", &pieces), "cannot encode");
    adds_prefix_ = !pieces.empty() && pieces[0].starts_with(kSpaceSign);
  }

  std::string_view kind() const override { return "sentencepiece"; }
  int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  int32_t document_end() const override { return processor_.eos_id(); }
  std::string_view model() const override { return model_; }

  // Pieces begin with a space but hold none inside, so a cut before a single space changes no id.
  // A model that puts a space before each text puts back the one that the cut swallows.
  size_t encode_prefix(std::string_view text,
                       bool is_last,
                       std::vector<int32_t>& ids) const override {
    size_t begin = 0;
    while (text.size() - begin > kSegmentBytes) {
      const std::string_view rest = text.substr(begin);
      const size_t space = last_single_space(rest, kSegmentBytes);
      const size_t end = space > 0 ? space : character_boundary(rest, kSegmentBytes);
      encode_segment(rest.substr(0, end), ids);
      begin += space > 0 && adds_prefix_ ? end + 1 : end;
    }
    if (!is_last) return begin;
    encode_segment(text.substr(begin), ids);
    return text.size();
  }

  std::string decode(std::span<const int32_t> ids) const override {
    for (const int32_t id : ids) {
      SUBRING_CHECK(id >= 0 && id < vocab_size(),
                    ErrorKind::data,
                    "{}: token {} is not in [0, {})",
                    name_,
                    id,
                    vocab_size());
    }
    std::string text;
    check(processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text), "cannot decode");
    return text;
  }

 private:
  void check(const sentencepiece::util::Status& status, std::string_view what) const {
    if (!status.ok()) {
      throw Error(ErrorKind::data, fmt::format("{}: {}", what, status.ToString()), name_);
    }
  }

  void encode_segment(std::string_view text, std::vector<int32_t>& ids) const {
    if (text.empty()) return;
    std::vector<int> segment;
    check(processor_.Encode(text, &segment), "cannot encode");
    ids.insert(ids.end(), segment.begin(), segment.end());
  }

  std::string name_;
  std::string model_;
  sentencepiece::SentencePieceProcessor processor_;
  bool adds_prefix_ = false;
};

class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::vector<std::string>& lines) : lines_(lines) {}
  bool done() const override { return at_ == lines_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& lines_;
  size_t at_ = 0;
};

}  // namespace

void LineSample::add(std::string_view text) {
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    open_line_.append(text.substr(0, newline));
    while (open_line_.size() > kMaxLineBytes) {
      const size_t cut = character_boundary(open_line_, kMaxLineBytes);
      add_line(std::string_view(open_line_).substr(0, cut));
      open_line_.erase(0, cut);
    }
    if (newline == std::string_view::npos) return;
    end_document();
    text.remove_prefix(newline + 1);
  }
}

void LineSample::end_document() {
  add_line(open_line_);
  open_line_.clear();
}

void LineSample::add_line(std::string_view line) {
  if (line.empty()) return;
  const int64_t index = num_lines_++;
  if (index < capacity_) {
    lines_.emplace_back(line);
    return;
  }
  const auto slot = static_cast<int64_t>(random_.below(static_cast<uint64_t>(num_lines_)));
  if (slot < capacity_) lines_[static_cast<size_t>(slot)] = line;
}

std::vector<std::string> LineSample::take() {
  end_document();
  return std::exchange(lines_, {});
}

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(std::string_view model,
                                                        const std::string& name) {
  return std::make_unique<SentencePieceTokenizer>(model, name);
}

std::string train_sentencepiece(const std::vector<std::string>& lines, int64_t vocab_size) {
  if (lines.empty()) throw Error(ErrorKind::data, "no text to train a tokenizer on");
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocab_size)},
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"split_digits", "true"},
      {"input_sentence_size", "0"},  // all of the sample
      {"num_threads", "1"},          // the same model on every machine
      {"minloglevel", "2"},
  };
  Lines iterator(lines);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &iterator, &model);
  if (!status.ok()) {
    throw Error(ErrorKind::data,
                fmt::format("cannot train a tokenizer of {} ids on {} lines: {}",
                            vocab_size,
                            lines.size(),
                            status.ToString()),
                "--train-vocab");
  }
  return model;
}

}  // namespace subring::data
