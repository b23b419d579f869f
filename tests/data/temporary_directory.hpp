#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/temporary_directory.hpp"

namespace subring::data {

using test::TemporaryDirectory;

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
