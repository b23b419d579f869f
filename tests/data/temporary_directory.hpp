#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"

namespace subring::data {

/// A directory of one test, removed at its end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "subring-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }

  std::string operator/(std::string_view name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

  /// Makes a file and returns its path.
  std::string file(std::string_view name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return *this / name;
  }

 private:
  std::filesystem::path path_;
};

/// Matches a message with `part` in it; Catch2 3 renamed the matcher.
inline auto contains(const std::string& part) {
#ifdef SUBRING_CATCH2_V3
  return Catch::Matchers::ContainsSubstring(part);
#else
  return Catch::Matchers::Contains(part);
#endif
}

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A shard as llm.c's dev/data/data_common.py writes it, byte for byte, independent of ShardWriter.
inline std::string llmc_shard(const std::vector<uint32_t>& tokens, int token_bytes) {
  std::string bytes;
  const auto put = [&](uint64_t value, int num_bytes) {
    for (int i = 0; i < num_bytes; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  };
  put(token_bytes == 2 ? 20240520 : 20240801, 4);
  put(token_bytes == 2 ? 1 : 7, 4);
  put(tokens.size(), 4);
  for (int i = 3; i < 256; ++i) put(0, 4);
  for (const uint32_t token : tokens) put(token, token_bytes);
  return bytes;
}

}  // namespace subring::data
