#include "subring/data/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace subring::data {
namespace {

struct Lead {
  int continuation_bytes;  // 0: not a lead byte
  uint8_t second_min;      // bounds of the second byte exclude overlong forms and surrogates
  uint8_t second_max;
};

// Table 3-7 of the Unicode standard, "Well-Formed UTF-8 Byte Sequences".
Lead classify(uint8_t byte) {
  if (byte >= 0xc2 && byte <= 0xdf) return {1, 0x80, 0xbf};
  if (byte == 0xe0) return {2, 0xa0, 0xbf};
  if (byte == 0xed) return {2, 0x80, 0x9f};
  if (byte >= 0xe1 && byte <= 0xef) return {2, 0x80, 0xbf};
  if (byte == 0xf0) return {3, 0x90, 0xbf};
  if (byte >= 0xf1 && byte <= 0xf3) return {3, 0x80, 0xbf};
  if (byte == 0xf4) return {3, 0x80, 0x8f};
  return {0, 0, 0};
}

size_t skip_ascii(std::string_view text, size_t at) {
  constexpr uint64_t kHighBits = 0x8080808080808080ULL;
  uint64_t word = 0;
  while (at + sizeof(word) <= text.size()) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    if ((word & kHighBits) != 0) break;
    at += sizeof(word);
  }
  while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

Utf8Prefix check_utf8(std::string_view text) {
  size_t at = skip_ascii(text, 0);
  while (at < text.size()) {
    const Lead lead = classify(static_cast<uint8_t>(text[at]));
    if (lead.continuation_bytes == 0) return {at, true};
    for (int i = 1; i <= lead.continuation_bytes; ++i) {
      if (at + static_cast<size_t>(i) >= text.size()) return {at, false};
      const auto byte = static_cast<uint8_t>(text[at + static_cast<size_t>(i)]);
      const uint8_t low = i == 1 ? lead.second_min : 0x80;
      const uint8_t high = i == 1 ? lead.second_max : 0xbf;
      if (byte < low || byte > high) return {at, true};
    }
    at = skip_ascii(text, at + static_cast<size_t>(lead.continuation_bytes) + 1);
  }
  return {at, false};
}

}  // namespace subring::data
