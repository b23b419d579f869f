#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace subring {

/// What went wrong, as far as a caller can act on it. `app` maps kinds to exit codes.
enum class ErrorKind {
  config,      ///< configuration key or command-line argument: exit 2
  data,        ///< input text, tokenizer or token shard: exit 2
  shape,       ///< extents that disagree: a bug of ours, exit 1
  backend,     ///< a device or library refused: exit 1
  wire,        ///< a peer was lost, or a transfer missed its deadline: exit 1
  non_finite,  ///< loss or gradient is NaN or infinite: exit 1
  io,          ///< the operating system refused a read or a write: exit 1
};

std::string_view to_string(ErrorKind kind);

/// 2 for bad input of the user (config, data), 1 for everything else.
int exit_code(ErrorKind kind);

/// The one exception type of subring. `what()` is one complete line: "<where>: <message>".
class Error : public std::runtime_error {
 public:
  /// @param where  file:line, key, rank or object that the message is about; may be empty
  Error(ErrorKind kind, std::string_view message, std::string_view where = "");

  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace subring

/// Throws Error{kind} with an fmt message when `condition` is false.
#define SUBRING_CHECK(condition, kind, ...)                                       \
  do {                                                                            \
    if (!(condition)) throw ::subring::Error((kind), ::fmt::format(__VA_ARGS__)); \
  } while (false)
