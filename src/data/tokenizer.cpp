#include "subring/data/tokenizer.hpp"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "subring/core/error.hpp"

namespace subring::data {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kByteDocumentEnd = 256;
constexpr int64_t kByteVocabSize = 257;

class BytesTokenizer final : public Tokenizer {
 public:
  std::string_view kind() const override { return "bytes"; }
  int64_t vocab_size() const override { return kByteVocabSize; }
  int32_t document_end() const override { return kByteDocumentEnd; }

  size_t encode_prefix(std::string_view text,
                       bool /*is_last*/,
                       std::vector<int32_t>& ids) const override {
    ids.reserve(ids.size() + text.size());
    for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
    return text.size();
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (const int32_t id : ids) {
      SUBRING_CHECK(id >= 0 && id < kByteVocabSize,
                    ErrorKind::data,
                    "token {} is not in [0, {})",
                    id,
                    kByteVocabSize);
      if (id != kByteDocumentEnd) text.push_back(static_cast<char>(id));
    }
    return text;
  }
};

std::unique_ptr<Tokenizer> load_described(const fs::path& path) {
  const auto description = nlohmann::json::parse(read_file(path), nullptr, false);
  const auto fail = [&](std::string_view what) -> Error {
    return Error(ErrorKind::data, what, path.string());
  };
  if (!description.is_object() || !description.contains("kind") ||
      !description["kind"].is_string()) {
    throw fail("is not a tokenizer.json of 'subring tokenize' (no string \"kind\")");
  }
  std::unique_ptr<Tokenizer> tokenizer;
  if (description["kind"] == "bytes") {
    tokenizer = make_bytes_tokenizer();
  } else if (description["kind"] == "sentencepiece" && description.contains("model") &&
             description["model"].is_string()) {
    const fs::path file = path.parent_path() / description["model"].get<std::string>();
    const std::string model = read_file(file);
    if (description.value("model_bytes", int64_t{-1}) != static_cast<int64_t>(model.size())) {
      throw fail(
          fmt::format("\"model_bytes\" is not the size of {}: another model?", file.string()));
    }
    tokenizer = make_sentencepiece_tokenizer(model, file.string());
  } else {
    throw fail("\"kind\" must be \"bytes\" or \"sentencepiece\", the latter with a \"model\"");
  }
  if (description.value("vocab_size", int64_t{-1}) != tokenizer->vocab_size()) {
    throw fail(fmt::format("\"vocab_size\" is not the tokenizer's, {}", tokenizer->vocab_size()));
  }
  return tokenizer;
}

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  encode_prefix(text, true, ids);
  return ids;
}

std::unique_ptr<Tokenizer> make_bytes_tokenizer() { return std::make_unique<BytesTokenizer>(); }

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name) {
  if (name == "bytes") return make_bytes_tokenizer();
  const fs::path path = name;
  if (fs::is_directory(path)) return load_described(path / "tokenizer.json");
  if (path.extension() == ".json") return load_described(path);
  return make_sentencepiece_tokenizer(read_file(path), name);
}

std::string read_file(const fs::path& path) {
  if (fs::is_directory(path)) throw Error(ErrorKind::data, "is a directory", path.string());
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(ErrorKind::data,
                fmt::format("cannot open: {}", std::generic_category().message(errno)),
                path.string());
  }
  std::string content{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) throw Error(ErrorKind::data, "cannot read", path.string());
  return content;
}

}  // namespace subring::data
