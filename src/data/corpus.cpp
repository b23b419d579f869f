#include "subring/data/corpus.hpp"

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "output_directory.hpp"
#include "subring/core/error.hpp"
#include "subring/data/document_reader.hpp"
#include "subring/data/sentencepiece.hpp"
#include "subring/data/shard_writer.hpp"
#include "subring/data/staged_file.hpp"
#include "subring/data/tokenizer.hpp"

namespace subring::data {
namespace {

namespace fs = std::filesystem;
using Report = std::function<void(const CorpusProgress&)>;

void check_options(const CorpusOptions& options) {
  const double fraction = options.validation_fraction;
  SUBRING_CHECK(fraction >= 0 && fraction <= 0.5,
                ErrorKind::config,
                "--validation-fraction {}: must be in [0, 0.5]",
                fraction);
  SUBRING_CHECK(options.tokenizer.empty() != (options.train_vocab == 0),
                ErrorKind::config,
                "give either --tokenizer bytes|FILE.model or --train-vocab N");
  // 3 control ids, 256 bytes and at least one more; a million is four times today's largest.
  SUBRING_CHECK(
      options.train_vocab == 0 || (options.train_vocab >= 260 && options.train_vocab <= 1'000'000),
      ErrorKind::config,
      "--train-vocab {}: must be in [260, 1000000]",
      options.train_vocab);
  SUBRING_CHECK(!options.inputs.empty(), ErrorKind::config, "no input");
  if (options.train_vocab == 0) return;
  // Training and encoding each read the text.
  for (const std::string& input : options.inputs) {
    SUBRING_CHECK(input != "-" && !(fs::exists(input) && !fs::is_regular_file(input) &&
                                    !fs::is_directory(input)),
                  ErrorKind::config,
                  "--train-vocab reads the text twice, which '{}' does not allow; give a file",
                  input);
  }
}

std::string train_model(const CorpusOptions& options, const Report& report) {
  DocumentReader reader(options.inputs);
  LineSample sample;
  DocumentPiece piece;
  while (reader.next(piece)) {
    sample.add(piece.text);
    if (piece.ends_document) sample.end_document();
    report({"sampling", reader.bytes_read(), reader.total_bytes(), 0});
  }
  report({"training tokenizer", reader.bytes_read(), reader.total_bytes(), 0});
  return train_sentencepiece(sample.take(), options.train_vocab);
}

/// Both splits while they are written.
class Splits {
 public:
  Splits(const CorpusOptions& options, int64_t vocab_size)
      : fraction_(options.validation_fraction),
        train_({options.out, "train", vocab_size, options.shard_tokens}),
        validation_({options.out, "validation", vocab_size, options.shard_tokens}) {}

  int64_t num_tokens() const { return train_.num_tokens() + validation_.num_tokens(); }

  void append(std::span<const int32_t> tokens) {
    (holding_out_ ? validation_ : train_).append(tokens);
  }

  void end_document() {
    ++(holding_out_ ? validation_documents_ : train_documents_);
    // Only hold_out_tail() needs them, which a text with more documents does not come to.
    if (validation_documents_ == 0 && fraction_ > 0) {
      document_ends_.push_back(train_.num_tokens());
    } else {
      document_ends_ = {};
    }
    holding_out_ = next_is_held_out();
  }

  CorpusSummary finish() {
    CorpusSummary summary;
    summary.split_by_documents = validation_.num_tokens() > 0;
    if (!summary.split_by_documents && fraction_ > 0) hold_out_tail();
    train_.finish();
    validation_.finish();
    summary.train = {train_documents_, train_.num_tokens(), train_.num_shards()};
    summary.validation = {
        validation_documents_, validation_.num_tokens(), validation_.num_shards()};
    return summary;
  }

  void commit() {
    train_.commit();
    validation_.commit();
  }

 private:
  // Looks only at what came before, never at the document itself: neither short nor long ones are
  // preferred, and a document can be written while it is read.
  bool next_is_held_out() const {
    const int64_t documents = train_documents_ + validation_documents_;
    if (static_cast<double>(documents) * fraction_ < 0.5) return false;
    return static_cast<double>(validation_.num_tokens()) <
           fraction_ * static_cast<double>(num_tokens());
  }

  void hold_out_tail() {
    const auto tail = std::ceil(static_cast<double>(train_.num_tokens()) * fraction_);
    train_.move_tail(static_cast<int64_t>(tail), validation_);
    for (const int64_t end : document_ends_) {
      if (end <= train_.num_tokens()) continue;
      --train_documents_;
      ++validation_documents_;
    }
  }

  double fraction_;
  ShardWriter train_;
  ShardWriter validation_;
  bool holding_out_ = false;  // the document that is being written
  int64_t train_documents_ = 0;
  int64_t validation_documents_ = 0;
  std::vector<int64_t> document_ends_;  // in tokens of train_; at most 1 / (2 fraction_)
};

struct TextCounts {
  int64_t bytes = 0;
  int64_t empty_documents = 0;
};

TextCounts encode_documents(const CorpusOptions& options,
                            const Tokenizer& tokenizer,
                            Splits& splits,
                            const Report& report) {
  DocumentReader reader(options.inputs);
  TextCounts counts;
  std::string pending;  // text that may encode differently with what follows
  std::vector<int32_t> ids;
  bool is_empty = true;
  DocumentPiece piece;
  while (reader.next(piece)) {
    counts.bytes += static_cast<int64_t>(piece.text.size());
    is_empty = is_empty && piece.text.empty();
    pending.append(piece.text);
    ids.clear();
    pending.erase(0, tokenizer.encode_prefix(pending, piece.ends_document, ids));
    if (piece.ends_document && !is_empty) ids.push_back(tokenizer.document_end());
    splits.append(ids);
    if (piece.ends_document) {
      is_empty ? static_cast<void>(++counts.empty_documents) : splits.end_document();
      is_empty = true;
    }
    report({"tokenizing", reader.bytes_read(), reader.total_bytes(), splits.num_tokens()});
  }
  if (splits.num_tokens() == 0) {
    throw Error(ErrorKind::data, "no text: every document is empty", options.inputs.front());
  }
  return counts;
}

std::string describe(const Tokenizer& tokenizer, const CorpusSummary& summary) {
  nlohmann::ordered_json description = {{"kind", tokenizer.kind()},
                                        {"vocab_size", tokenizer.vocab_size()},
                                        {"document_end", tokenizer.document_end()}};
  if (!tokenizer.model().empty()) {
    description["model"] = "tokenizer.model";
    description["model_bytes"] = tokenizer.model().size();
  }
  description["train_tokens"] = summary.train.tokens;
  description["validation_tokens"] = summary.validation.tokens;
  description["text_bytes"] = summary.text_bytes;
  return description.dump(2) + "\n";
}

void stage(StagedFile& file, std::string_view content) {
  file.append(content.data(), content.size());
  file.sync();
}

std::set<std::string> names_of_set(const CorpusSummary& summary, bool has_model) {
  std::set<std::string> names = {"tokenizer.json"};
  if (has_model) names.insert("tokenizer.model");
  for (int64_t i = 0; i < summary.train.shards; ++i)
    names.insert(fmt::format("train_{:05}.bin", i));
  for (int64_t i = 0; i < summary.validation.shards; ++i) {
    names.insert(fmt::format("validation_{:05}.bin", i));
  }
  return names;
}

}  // namespace

CorpusSummary tokenize_corpus(const CorpusOptions& options, const Report& report) {
  check_options(options);
  // Wrong inputs and models are found before anything is made.
  const DocumentReader checked_inputs(options.inputs);
  std::unique_ptr<Tokenizer> tokenizer;
  if (options.train_vocab == 0) tokenizer = load_tokenizer(options.tokenizer);
  OutputDirectory directory(options.out, options.overwrite);
  if (options.train_vocab > 0) {
    tokenizer = make_sentencepiece_tokenizer(train_model(options, report), "trained tokenizer");
  }

  Splits splits(options, tokenizer->vocab_size());
  const TextCounts counts = encode_documents(options, *tokenizer, splits, report);
  CorpusSummary summary = splits.finish();
  summary.vocab_size = tokenizer->vocab_size();
  summary.text_bytes = counts.bytes;
  summary.empty_documents = counts.empty_documents;

  std::unique_ptr<StagedFile> model_file;
  if (!tokenizer->model().empty()) {
    model_file = std::make_unique<StagedFile>(directory.path() / "tokenizer.model");
    stage(*model_file, tokenizer->model());
  }
  StagedFile description(directory.path() / "tokenizer.json");
  stage(description, describe(*tokenizer, summary));

  directory.begin_commit();
  splits.commit();
  if (model_file) model_file->commit();
  directory.end_commit(names_of_set(summary, model_file != nullptr));
  description.commit();
  sync_directory(directory.path());
  return summary;
}

}  // namespace subring::data
