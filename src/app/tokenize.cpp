#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "commands.hpp"
#include "subring/core/error.hpp"
#include "subring/data/corpus.hpp"

namespace subring::app {
namespace {

using Clock = std::chrono::steady_clock;

/// Progress on stderr: one line that changes on a terminal, a line now and then elsewhere.
class ProgressLine {
 public:
  void show(const data::CorpusProgress& progress) {
    const auto now = Clock::now();
    const auto pause = is_terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(5);
    if (progress.activity == activity_ && now - shown_ < pause) return;
    if (activity_.empty()) start_ = now;
    activity_ = progress.activity;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    std::string line = fmt::format("{}: {:.1f} MB", activity_, to_megabytes(progress.bytes_read));
    if (progress.total_bytes > 0) {
      line += fmt::format(" of {:.1f}", to_megabytes(progress.total_bytes));
    }
    if (progress.tokens > 0) line += fmt::format(", {:.2f} M tokens", progress.tokens * 1e-6);
    line += fmt::format(", {:.0f} s", seconds);
    if (is_terminal_) {
      fmt::print(stderr, "\r{:<78}", line);
      std::fflush(stderr);
    } else {
      fmt::print(stderr, "{}\n", line);
    }
  }

  /// Leaves the terminal's line, for whatever is printed next.
  ~ProgressLine() {
    if (is_terminal_ && !activity_.empty()) std::fputc('\n', stderr);
  }

 private:
  static double to_megabytes(int64_t bytes) { return static_cast<double>(bytes) * 1e-6; }

  bool is_terminal_ = ::isatty(STDERR_FILENO) == 1;
  std::string activity_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
};

void print_split(const char* name, const data::SplitSummary& split) {
  fmt::print(stderr,
             "  {:<11} {} tokens, {} documents, {} shard(s)\n",
             name,
             split.tokens,
             split.documents,
             split.shards);
}

void print_summary(const data::CorpusOptions& options, const data::CorpusSummary& summary) {
  const int64_t tokens = summary.train.tokens + summary.validation.tokens;
  fmt::print(stderr,
             "{}: {} tokens, {} documents, {:.3f} bytes per token, vocab_size {}\n",
             options.out.string(),
             tokens,
             summary.train.documents + summary.validation.documents,
             static_cast<double>(summary.text_bytes) / static_cast<double>(tokens),
             summary.vocab_size);
  print_split("train", summary.train);
  print_split("validation", summary.validation);
  if (summary.validation.tokens > 0 && !summary.split_by_documents) {
    fmt::print(stderr, "  held out is the end of the text: too few documents to hold out whole\n");
  }
  if (summary.empty_documents > 0) {
    fmt::print(stderr, "  left out: {} empty document(s)\n", summary.empty_documents);
  }
}

void tokenize(const data::CorpusOptions& options) {
  data::CorpusSummary summary;
  {
    ProgressLine line;
    summary = data::tokenize_corpus(
        options, [&](const data::CorpusProgress& progress) { line.show(progress); });
  }
  print_summary(options, summary);
}

}  // namespace

void add_tokenize_command(CLI::App& program) {
  auto options = std::make_shared<data::CorpusOptions>();
  CLI::App* command = program.add_subcommand(
      "tokenize", "Turn text into token shards (llm.c format), with a held-out part");
  command->add_option("--tokenizer",
                      options->tokenizer,
                      "'bytes', a SentencePiece FILE.model, or the directory of a token set");
  command->add_option(
      "--train-vocab", options->train_vocab, "train a SentencePiece model of so many ids instead");
  command->add_option("--out", options->out, "directory of the token set")->required();
  command
      ->add_option("--validation-fraction",
                   options->validation_fraction,
                   "held-out part, whole documents where there are enough (0 to 0.5)")
      ->capture_default_str();
  command->add_option("--shard-tokens", options->shard_tokens, "tokens of one shard file")
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "replace the token set that --out holds");
  command->add_option("INPUT",
                      options->inputs,
                      "text files (one document each), .jsonl files with a \"text\" field (one "
                      "document a line), '-' for standard input, which is also the default");
  command->callback([options] {
    if (options->inputs.empty()) options->inputs = {"-"};
    tokenize(*options);
  });
}

}  // namespace subring::app
