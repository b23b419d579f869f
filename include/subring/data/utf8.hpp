#pragma once

#include <cstddef>
#include <string_view>

namespace subring::data {

/// What check_utf8 found.
struct Utf8Prefix {
  size_t valid_bytes = 0;  ///< longest prefix that is whole, valid characters
  bool invalid = false;    ///< the byte after it can never continue; false: text ends or is cut
};

/// Checks text as RFC 3629 defines UTF-8 (no overlong form, no surrogate, nothing past U+10FFFF).
/// A reader of a stream keeps the up to three bytes after `valid_bytes` for its next buffer.
Utf8Prefix check_utf8(std::string_view text);

}  // namespace subring::data
