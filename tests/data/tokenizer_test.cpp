#include "subring/data/tokenizer.hpp"

#include "subring/core/error.hpp"
#include "support/catch.hpp"
#include "temporary_directory.hpp"

using namespace subring;
using namespace subring::data;

namespace {

std::string load_error(const std::string& name) {
  try {
    load_tokenizer(name);
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::data);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("bytes go to their own ids and back, whatever they are") {
  const auto tokenizer = load_tokenizer("bytes");
  REQUIRE(tokenizer->vocab_size() == 257);
  REQUIRE(tokenizer->document_end() == 256);
  std::string text;
  for (int i = 255; i >= 0; --i) text.push_back(static_cast<char>(i));
  std::vector<int32_t> ids = tokenizer->encode(text);
  REQUIRE(ids.size() == 256);
  for (int i = 0; i < 256; ++i) REQUIRE(ids[static_cast<size_t>(i)] == 255 - i);
  ids.push_back(256);
  REQUIRE(tokenizer->decode(ids) == text);
  REQUIRE(tokenizer->encode("").empty());
  REQUIRE_THROWS_AS(tokenizer->decode(std::vector<int32_t>{257}), Error);
  REQUIRE_THROWS_AS(tokenizer->decode(std::vector<int32_t>{-1}), Error);
}

TEST_CASE("what is no tokenizer is named") {
  const TemporaryDirectory dir;
  CHECK_THAT(load_error(dir / "none.model"), contains("none.model: cannot open: No such file"));
  CHECK_THAT(load_error(dir.file("x.model", "not a model")), contains("not a SentencePiece model"));
  CHECK_THAT(load_error(dir.file("e.model", "")), contains("e.model"));
  CHECK_THAT(load_error(dir.path().string()), contains("tokenizer.json: cannot open"));
  CHECK_THAT(load_error(dir.file("a.json", "{")), contains("no string \"kind\""));
  CHECK_THAT(load_error(dir.file("b.json", R"({"kind": "words"})")), contains("must be \"bytes\""));
  CHECK_THAT(load_error(dir.file("c.json", R"({"kind": "bytes", "vocab_size": 300})")),
             contains("not the tokenizer's, 257"));
  CHECK_THAT(load_error(dir.file(
                 "d.json", R"({"kind": "sentencepiece", "model": "x.model", "model_bytes": 3})")),
             contains("another model"));
}
