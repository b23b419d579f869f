#include "subring/data/corpus.hpp"

#include <algorithm>
#include <set>

#include "subring/core/error.hpp"
#include "subring/core/random.hpp"
#include "subring/data/shard.hpp"
#include "subring/data/tokenizer.hpp"
#include "support/catch.hpp"
#include "temporary_directory.hpp"

using namespace subring;
using namespace subring::data;

namespace {

CorpusSummary run(const CorpusOptions& options) {
  return tokenize_corpus(options, [](const CorpusProgress&) {});
}

CorpusOptions bytes_options(const TemporaryDirectory& dir, std::vector<std::string> inputs) {
  CorpusOptions options;
  options.tokenizer = "bytes";
  options.out = dir / "out";
  options.inputs = std::move(inputs);
  return options;
}

/// .jsonl of documents "0: ...", "1: ...", ... of 20 to 220 bytes.
std::string numbered_documents(int count) {
  Random random(9);
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += fmt::format("{{\"text\": \"{}: {}\"}}\n", i, std::string(20 + random.below(200), 'x'));
  }
  return lines;
}

std::vector<int32_t> split_tokens(const std::string& pattern) {
  std::vector<int32_t> all;
  for (const std::string& path : match_paths(pattern)) {
    const Shard shard(path);
    std::vector<int32_t> tokens(static_cast<size_t>(shard.num_tokens()));
    shard.read(0, tokens, kMaxShardTokens);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

/// Texts between document ends; the last one may lack its end.
std::vector<std::string> documents_of(const std::vector<int32_t>& tokens,
                                      const Tokenizer& tokenizer) {
  std::vector<std::string> documents;
  auto begin = tokens.begin();
  while (begin != tokens.end()) {
    const auto end = std::find(begin, tokens.end(), tokenizer.document_end());
    documents.push_back(tokenizer.decode(std::vector<int32_t>(begin, end)));
    begin = end == tokens.end() ? end : end + 1;
  }
  return documents;
}

std::string error_of(const CorpusOptions& options, ErrorKind kind) {
  try {
    run(options);
  } catch (const Error& error) {
    REQUIRE(error.kind() == kind);
    return error.what();
  }
  return "";
}

std::set<std::string> names_in(const std::filesystem::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

}  // namespace

TEST_CASE("whole documents are held out, once each, at the fraction asked for") {
  const TemporaryDirectory dir;
  const double fraction = GENERATE(0.02, 0.05, 0.3, 0.5);
  auto options = bytes_options(dir, {dir.file("x.jsonl", numbered_documents(1000))});
  options.validation_fraction = fraction;
  options.shard_tokens = 10000;
  const CorpusSummary summary = run(options);
  const auto tokenizer = load_tokenizer(dir / "out");
  const auto train = documents_of(split_tokens(dir / "out/train_*.bin"), *tokenizer);
  const auto validation = documents_of(split_tokens(dir / "out/validation_*.bin"), *tokenizer);
  REQUIRE(summary.split_by_documents);
  REQUIRE(summary.train.documents == static_cast<int64_t>(train.size()));
  REQUIRE(summary.validation.documents == static_cast<int64_t>(validation.size()));
  std::set<std::string> all(train.begin(), train.end());
  all.insert(validation.begin(), validation.end());
  REQUIRE(all.size() == 1000);
  REQUIRE(train.size() + validation.size() == 1000);
  // The rule is off by one document at most, 226 tokens.
  const auto total = static_cast<double>(summary.train.tokens + summary.validation.tokens);
  REQUIRE(std::abs(static_cast<double>(summary.validation.tokens) - fraction * total) <= 226);
  REQUIRE(summary.text_bytes + 1000 == summary.train.tokens + summary.validation.tokens);
}

TEST_CASE("a text of few documents gives up its end") {
  const TemporaryDirectory dir;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += fmt::format("line {}\n", i);
  auto options = bytes_options(dir, {dir.file("a.txt", "short"), dir.file("b.txt", text)});
  options.validation_fraction = 0.1;
  options.shard_tokens = 3000;
  const CorpusSummary summary = run(options);
  REQUIRE_FALSE(summary.split_by_documents);
  auto train = split_tokens(dir / "out/train_*.bin");
  const auto validation = split_tokens(dir / "out/validation_*.bin");
  const auto total = static_cast<int64_t>(text.size()) + 5 + 2;
  REQUIRE(static_cast<int64_t>(validation.size()) == (total + 9) / 10);
  REQUIRE(summary.train.documents == 1);
  REQUIRE(summary.validation.documents == 1);
  train.insert(train.end(), validation.begin(), validation.end());
  REQUIRE(documents_of(train, *make_bytes_tokenizer()) == std::vector<std::string>{"short", text});
}

TEST_CASE("nothing is held out on request") {
  const TemporaryDirectory dir;
  auto options = bytes_options(dir, {dir.file("x.jsonl", numbered_documents(100))});
  options.validation_fraction = 0;
  REQUIRE(run(options).validation.tokens == 0);
  REQUIRE(names_in(dir / "out") == std::set<std::string>{"tokenizer.json", "train_00000.bin"});
}

TEST_CASE("the same inputs give the same bytes, with a trained tokenizer too") {
  const TemporaryDirectory dir;
  auto options = bytes_options(dir, {dir.file("x.jsonl", numbered_documents(300))});
  options.tokenizer = "";
  options.train_vocab = 275;
  run(options);
  options.out = dir / "again";
  const CorpusSummary summary = run(options);
  REQUIRE(summary.vocab_size == 275);
  for (const char* name :
       {"train_00000.bin", "validation_00000.bin", "tokenizer.model", "tokenizer.json"}) {
    REQUIRE(content_of(dir.path() / "out" / name) == content_of(dir.path() / "again" / name));
  }
  const auto tokenizer = load_tokenizer(dir / "out");
  REQUIRE(tokenizer->kind() == "sentencepiece");
  const auto documents = documents_of(split_tokens(dir / "out/*.bin"), *tokenizer);
  REQUIRE(documents.size() == 300);
  REQUIRE(documents.front().starts_with("0: xxxxx"));
  // The set's own model makes the same set.
  options.tokenizer = dir / "out/tokenizer.model";
  options.train_vocab = 0;
  options.out = dir / "third";
  run(options);
  REQUIRE(content_of(dir / "third/train_00000.bin") == content_of(dir / "out/train_00000.bin"));
}

TEST_CASE("empty documents are left out") {
  const TemporaryDirectory dir;
  auto options = bytes_options(dir,
                               {dir.file("a.txt", ""),
                                dir.file("b.jsonl", "{\"text\":\"\"}\n{\"text\":\"x\"}\n"),
                                dir.file("c.txt", "y")});
  options.validation_fraction = 0;
  const CorpusSummary summary = run(options);
  REQUIRE(summary.empty_documents == 2);
  REQUIRE(split_tokens(dir / "out/train_*.bin") == std::vector<int32_t>{'x', 256, 'y', 256});
  options.out = dir / "none";
  options.inputs = {dir.file("a.txt", "")};
  CHECK_THAT(error_of(options, ErrorKind::data), contains("a.txt: no text"));
}

TEST_CASE("an error leaves the output as it was") {
  const TemporaryDirectory dir;
  auto options = bytes_options(dir, {dir.file("good.txt", std::string(3000000, 'a'))});
  options.inputs.push_back(dir.file("bad.txt", "\xff"));
  options.shard_tokens = 1000000;
  SECTION("it was not there") {
    CHECK_THAT(error_of(options, ErrorKind::data), contains("bad.txt: offset 0"));
    REQUIRE_FALSE(std::filesystem::exists(dir / "out"));
  }
  SECTION("it held something else") {
    std::filesystem::create_directory(dir / "out");
    dir.file("out/notes.txt", "mine");
    error_of(options, ErrorKind::data);
    REQUIRE(names_in(dir / "out") == std::set<std::string>{"notes.txt"});
  }
  SECTION("it held a token set that was to be replaced") {
    options.inputs.resize(1);
    run(options);
    const auto before = names_in(dir / "out");
    options.inputs.push_back(dir / "bad.txt");
    options.overwrite = true;
    error_of(options, ErrorKind::data);
    REQUIRE(names_in(dir / "out") == before);
  }
}

TEST_CASE("a token set is replaced only on request, and then wholly") {
  const TemporaryDirectory dir;
  auto options = bytes_options(dir, {dir.file("x.jsonl", numbered_documents(300))});
  options.shard_tokens = 5000;
  options.tokenizer = "";
  options.train_vocab = 280;
  run(options);
  dir.file("out/notes.txt", "mine");
  dir.file("out/train_00009.bin.partial", "of a killed run");
  options = bytes_options(dir, options.inputs);
  CHECK_THAT(error_of(options, ErrorKind::config), contains("holds a token set already"));
  options.overwrite = true;
  run(options);
  REQUIRE(names_in(dir / "out") ==
          std::set<std::string>{
              "notes.txt", "tokenizer.json", "train_00000.bin", "validation_00000.bin"});
}

TEST_CASE("options that cannot be are named") {
  const TemporaryDirectory dir;
  const auto good = bytes_options(dir, {dir.file("a.txt", "abc")});
  const auto message = [&](auto&& change) {
    CorpusOptions options = good;
    change(options);
    return error_of(options, ErrorKind::config);
  };
  CHECK_THAT(message([](auto& o) { o.validation_fraction = 0.6; }), contains("[0, 0.5]"));
  CHECK_THAT(message([](auto& o) { o.validation_fraction = -0.1; }), contains("[0, 0.5]"));
  CHECK_THAT(message([](auto& o) { o.shard_tokens = 0; }), contains("--shard-tokens 0"));
  CHECK_THAT(message([](auto& o) { o.shard_tokens = int64_t{1} << 31; }), contains("2147483647"));
  CHECK_THAT(message([](auto& o) { o.tokenizer = ""; }), contains("either --tokenizer"));
  CHECK_THAT(message([](auto& o) { o.train_vocab = 300; }), contains("either --tokenizer"));
  CHECK_THAT(message([](auto& o) {
               o.tokenizer = "";
               o.train_vocab = 100;
             }),
             contains("[260, 1000000]"));
  CHECK_THAT(message([](auto& o) {
               o.tokenizer = "";
               o.train_vocab = 300;
               o.inputs = {"-"};
             }),
             contains("reads the text twice"));
  CHECK_THAT(message([](auto& o) { o.inputs = {}; }), contains("no input"));
  REQUIRE_FALSE(std::filesystem::exists(dir / "out"));
}
