#include "subring/data/utf8.hpp"

#include <string>

#include "support/catch.hpp"

using subring::data::check_utf8;
using namespace std::string_literals;

namespace {

// The encoding of RFC 3629, section 3, without its exclusions.
std::string encode(uint32_t code) {
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xc0 | code >> 6), byte(0x80 | (code & 0x3f))};
  if (code < 0x10000) {
    return {byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 0x3f)), byte(0x80 | (code & 0x3f))};
  }
  return {byte(0xf0 | code >> 18),
          byte(0x80 | (code >> 12 & 0x3f)),
          byte(0x80 | (code >> 6 & 0x3f)),
          byte(0x80 | (code & 0x3f))};
}

}  // namespace

TEST_CASE("every code point is valid but surrogates and what lies past U+10FFFF") {
  int64_t wrong = 0;
  for (uint32_t code = 0; code < 0x120000; ++code) {
    const bool expected = !(code >= 0xd800 && code <= 0xdfff) && code <= 0x10ffff;
    const auto found = check_utf8(encode(code));
    wrong += (!found.invalid && found.valid_bytes == encode(code).size()) != expected;
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("malformed bytes are found where they are") {
  for (const std::string& bad : {"\xff"s,
                                 "\x80"s,
                                 "\xc0\x80"s,
                                 "\xc1\xbf"s,
                                 "\xe0\x9f\xbf"s,
                                 "\xf0\x8f\xbf\xbf"s,
                                 "\xc3("s,
                                 "\xe2\x82("s,
                                 "\xf5\x80\x80\x80"s}) {
    for (size_t before : {0, 1, 7, 8, 9, 30}) {
      const auto found = check_utf8(std::string(before, 'a') + bad + "bbbbbbbbbbbbbbbb");
      REQUIRE(found.invalid);
      REQUIRE(found.valid_bytes == before);
    }
  }
}

TEST_CASE("a character that the end cuts is not invalid") {
  for (const uint32_t code : {0xe9U, 0x20acU, 0x1f600U}) {
    const std::string character = encode(code);
    for (size_t cut = 1; cut < character.size(); ++cut) {
      const auto found = check_utf8("ab" + character.substr(0, cut));
      REQUIRE_FALSE(found.invalid);
      REQUIRE(found.valid_bytes == 2);
    }
  }
}
