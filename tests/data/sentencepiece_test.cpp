#include "subring/data/sentencepiece.hpp"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <set>

#include "subring/core/error.hpp"
#include "subring/data/tokenizer.hpp"
#include "support/catch.hpp"
#include "temporary_directory.hpp"

using namespace subring;
using namespace subring::data;

namespace {

/// Sentences of a small made-up language; enough of them for a few hundred merges.
std::vector<std::string> sentences(int count) {
  static const char* const kWords[] = {"ring",
                                       "attention",
                                       "subspace",
                                       "key",
                                       "value",
                                       "chunk",
                                       "the",
                                       "travels",
                                       "around",
                                       "keeps",
                                       "rank",
                                       "query",
                                       "of",
                                       "token",
                                       "sequence",
                                       "learn",
                                       "slow",
                                       "links"};
  Random random(3);
  std::vector<std::string> lines;
  for (int i = 0; i < count; ++i) {
    std::string line;
    for (int word = 0; word < 12; ++word) {
      line += kWords[random.below(std::size(kWords))];
      line += word == 11 ? "." : " ";
    }
    lines.push_back(line);
  }
  return lines;
}

const std::string& trained_model() {
  static const std::string model = train_sentencepiece(sentences(2000), 340);
  return model;
}

/// A model as SentencePiece trains it by default, with a space before each text (as Llama 2 has).
std::string model_with_prefix() {
  std::string text;
  const auto lines = sentences(2000);
  struct Lines final : sentencepiece::SentenceIterator {
    explicit Lines(const std::vector<std::string>& all) : all_(all) {}
    bool done() const override { return at_ == all_.size(); }
    void Next() override { ++at_; }
    const std::string& value() const override { return all_[at_]; }
    sentencepiece::util::Status status() const override { return {}; }
    const std::vector<std::string>& all_;
    size_t at_ = 0;
  } iterator(lines);
  const auto status =
      sentencepiece::SentencePieceTrainer::Train({{"model_type", "bpe"},
                                                  {"vocab_size", "340"},
                                                  {"byte_fallback", "true"},
                                                  {"normalization_rule_name", "identity"},
                                                  {"remove_extra_whitespaces", "false"},
                                                  {"minloglevel", "2"}},
                                                 &iterator,
                                                 &text);
  REQUIRE(status.ok());
  return text;
}

std::vector<int32_t> encode_in_pieces(const Tokenizer& tokenizer,
                                      const std::string& text,
                                      size_t piece_bytes) {
  std::vector<int32_t> ids;
  std::string pending;
  for (size_t at = 0; at < text.size(); at += piece_bytes) {
    pending += text.substr(at, piece_bytes);
    pending.erase(0, tokenizer.encode_prefix(pending, at + piece_bytes >= text.size(), ids));
  }
  return ids;
}

}  // namespace

TEST_CASE("a trained model gives any text back") {
  const auto tokenizer = make_sentencepiece_tokenizer(trained_model(), "trained");
  REQUIRE(tokenizer->vocab_size() == 340);
  REQUIRE(tokenizer->document_end() == 2);
  for (const std::string& text :
       std::vector<std::string>{"the ring keeps",
                                " two  spaces   and\ttabs\n\n\n  and lines \n",
                                "",
                                " ",
                                "\n",
                                "café, 日本語, 😀, \x01, <s> </s> <0x0A>",
                                "x",
                                std::string("nul\0byte", 8)}) {
    const auto ids = tokenizer->encode(text);
    CHECK(tokenizer->decode(ids) == text);
    // Text that looks like a control id must not become one.
    CHECK(std::count(ids.begin(), ids.end(), 2) == 0);
  }
  auto two = tokenizer->encode("key of");
  REQUIRE(two.size() < 6);  // it did learn more than letters
  two.push_back(2);
  REQUIRE(tokenizer->decode(two) == "key of");
  REQUIRE_THROWS_AS(tokenizer->decode(std::vector<int32_t>{340}), Error);
}

TEST_CASE("training is deterministic") {
  REQUIRE(train_sentencepiece(sentences(2000), 340) == trained_model());
}

TEST_CASE("a vocabulary that the text cannot give is an error") {
  try {
    train_sentencepiece({"a b"}, 5000);
    FAIL("no error");
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::data);
    REQUIRE_THAT(error.what(), contains("5000"));
  }
  REQUIRE_THROWS_AS(train_sentencepiece({}, 300), Error);
}

TEST_CASE("a long text in pieces has the ids of the whole, with and without a space prefix") {
  const bool has_prefix = GENERATE(false, true);
  const auto tokenizer =
      make_sentencepiece_tokenizer(has_prefix ? model_with_prefix() : trained_model(), "model");
  std::string text;
  for (const auto& line : sentences(3000)) text += line + " ";
  REQUIRE(text.size() > 3 * 65536);
  const auto whole = tokenizer->encode(text);
  REQUIRE(encode_in_pieces(*tokenizer, text, 10007) == whole);
  REQUIRE(encode_in_pieces(*tokenizer, text, 150000) == whole);
  REQUIRE((tokenizer->decode(whole) == text));  // without printing 200 KB
  // SentencePiece itself, in one go: the words' ids in turn are those of each word alone.
  std::vector<int32_t> by_line;
  for (const auto& line : sentences(3000)) {
    const auto ids = tokenizer->encode(has_prefix || by_line.empty() ? line : " " + line);
    by_line.insert(by_line.end(), ids.begin(), ids.end());
  }
  const auto last = tokenizer->encode(has_prefix ? "x " : " ");
  REQUIRE(whole.size() >= by_line.size());
  REQUIRE(std::equal(by_line.begin(), by_line.end(), whole.begin()));
  REQUIRE(whole.size() - by_line.size() == 1);
  REQUIRE(whole.back() == last.back());
}

TEST_CASE("text without spaces is cut between characters") {
  const auto tokenizer = make_sentencepiece_tokenizer(trained_model(), "trained");
  std::string text = "a";
  for (int i = 0; i < 70000; ++i) text += "é";
  REQUIRE(tokenizer->decode(tokenizer->encode(text)) == text);
}

TEST_CASE("the sample keeps all lines of a short text and so many of a long one") {
  LineSample all(100);
  all.add("one\ntw");
  all.add("o\n\nthree");
  all.end_document();
  all.add("four");
  REQUIRE(all.take() == std::vector<std::string>{"one", "two", "three", "four"});

  const auto draw = [] {
    LineSample some(50);
    for (int i = 0; i < 5000; ++i) some.add(std::to_string(i) + "\n");
    return some.take();
  };
  const auto lines = draw();
  REQUIRE(lines == draw());
  REQUIRE(std::set<std::string>(lines.begin(), lines.end()).size() == 50);
  // 50 uniform draws of 5000: not one past the middle has a chance of 2^-50.
  REQUIRE(
      std::any_of(lines.begin(), lines.end(), [](auto& line) { return std::stoi(line) > 2500; }));
  REQUIRE(
      std::any_of(lines.begin(), lines.end(), [](auto& line) { return std::stoi(line) < 2500; }));
}

TEST_CASE("long lines count as several, cut between characters") {
  LineSample sample(1000);
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "€";
  sample.add(text);
  std::string joined;
  for (const auto& line : sample.take()) {
    REQUIRE(line.size() <= 1024);
    REQUIRE(line.size() % 3 == 0);
    joined += line;
  }
  REQUIRE(joined == text);
}
