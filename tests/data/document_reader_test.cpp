#include "subring/data/document_reader.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "subring/core/error.hpp"
#include "support/catch.hpp"
#include "temporary_directory.hpp"

using namespace subring;
using namespace subring::data;

namespace {

std::vector<std::string> read_documents(const std::vector<std::string>& inputs) {
  DocumentReader reader(inputs);
  std::vector<std::string> documents = {""};
  DocumentPiece piece;
  while (reader.next(piece)) {
    documents.back() += piece.text;
    if (piece.ends_document) documents.emplace_back();
  }
  REQUIRE(documents.back().empty());
  documents.pop_back();
  return documents;
}

std::string data_error(const std::vector<std::string>& inputs) {
  try {
    read_documents(inputs);
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::data);
    return error.what();
  }
  return "";
}

constexpr size_t kBlock = size_t{1} << 20;  // the reader's

}  // namespace

TEST_CASE("files are documents in the order given, lines of .jsonl too") {
  const TemporaryDirectory dir;
  const auto b = dir.file("b.txt", "second");
  const auto a = dir.file("a.txt",
                          "\xef\xbb\xbf"
                          "first");
  const auto lines = dir.file("c.jsonl",
                              "\xef\xbb\xbf{\"text\": \"x\\ny\\u00e9\", \"id\": 1}\r\n"
                              "\n"
                              "{\"id\": {\"text\": 3}, \"text\": \"\"}\n"
                              "{\"text\": \"last\"}");
  REQUIRE(read_documents({b, lines, a, dir.file("empty.txt", "")}) ==
          std::vector<std::string>{"second", "x\ny\u00e9", "", "last", "first", ""});
  DocumentReader reader({b, a});
  REQUIRE(reader.total_bytes() == 6 + 8);
}

TEST_CASE("characters across the reader's blocks come whole") {
  const TemporaryDirectory dir;
  for (size_t shift = 0; shift < 4; ++shift) {
    std::string text(kBlock - 4 + shift, 'a');
    for (int i = 0; i < 400000; ++i) text += "\U0001F600";
    REQUIRE(read_documents({dir.file("x.txt", text)}) == std::vector<std::string>{text});
  }
}

TEST_CASE("lines longer than a block come whole") {
  const TemporaryDirectory dir;
  const std::string text(3 * kBlock + 17, 'z');
  const auto path = dir.file("x.jsonl", "{\"text\":\"" + text + "\"}\n{\"text\":\"b\"}\n");
  REQUIRE(read_documents({path}) == std::vector<std::string>{text, "b"});
}

TEST_CASE("invalid UTF-8 is named with file and offset") {
  const TemporaryDirectory dir;
  const std::string name = dir / "x.txt";
  dir.file("x.txt",
           "abc\xff"
           "def");
  CHECK(data_error({name}) == name + ": offset 3: byte 0xff is not valid UTF-8");
  dir.file("x.txt",
           "\xef\xbb\xbf"
           "abc\xc3");  // cut at the end of the file
  CHECK(data_error({name}) == name + ": offset 6: byte 0xc3 is not valid UTF-8");
  for (const size_t before : {kBlock - 1, kBlock, 2 * kBlock - 2, 2 * kBlock + 5}) {
    dir.file("x.txt", std::string(before, 'a') + "\xe2\x82(");
    CHECK_THAT(data_error({name}), contains(fmt::format("offset {}: byte 0xe2", before)));
  }
  const auto lines = dir.file("y.jsonl", "{\"text\":\"a\"}\n{\"text\":\"\xc0\"}\n");
  CHECK(data_error({lines}) == lines + ":2: offset 22: byte 0xc0 is not valid UTF-8");
}

TEST_CASE("a line that is no object with a string text is named") {
  const TemporaryDirectory dir;
  const auto message = [&](const std::string& line) {
    const auto path = dir.file("x.jsonl", "{\"text\":\"fine\"}\n\n" + line + "\n");
    const std::string text = data_error({path});
    REQUIRE(text.starts_with(path + ":3: "));
    return text.substr(path.size() + 4);
  };
  CHECK(message("{\"text\":\"a\"") == "is not JSON; expected one object a line");
  CHECK(message("{\"text\":\"a\"} x") == "is not JSON; expected one object a line");
  CHECK(message("{\"text\":\"\\ud800\"}") == "is not JSON; expected one object a line");
  CHECK(message("[\"text\"]") == "is not a JSON object with a \"text\"");
  CHECK(message("{\"Text\":\"a\"}") == "has no \"text\"");
  CHECK(message("{\"text\":5}") == "\"text\" is a JSON number, not a string");
  CHECK(message("{\"text\":null}") == "\"text\" is a JSON null, not a string");
}

TEST_CASE("inputs that cannot be read are named before any is") {
  const TemporaryDirectory dir;
  const auto bad = dir.file("bad.txt", "\xff");
  CHECK(data_error({bad, dir / "none.txt"}) ==
        (dir / "none.txt") + ": cannot open: No such file or directory");
  CHECK_THAT(data_error({bad, dir.path().string()}), contains("is a directory"));
  if (::geteuid() == 0) return;  // root reads anything
  REQUIRE(::chmod(bad.c_str(), 0) == 0);
  CHECK_THAT(data_error({bad}), contains("cannot open: Permission denied"));
}
