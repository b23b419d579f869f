#include "subring/core/error.hpp"

namespace subring {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::config: return "config";
    case ErrorKind::data: return "data";
    case ErrorKind::shape: return "shape";
    case ErrorKind::backend: return "backend";
    case ErrorKind::wire: return "wire";
    case ErrorKind::non_finite: return "non_finite";
    case ErrorKind::io: return "io";
  }
  return "unknown";
}

int exit_code(ErrorKind kind) {
  return kind == ErrorKind::config || kind == ErrorKind::data ? 2 : 1;
}

Error::Error(ErrorKind kind, std::string_view message, std::string_view where)
    : std::runtime_error(where.empty() ? std::string(message)
                                       : std::string(where).append(": ").append(message)),
      kind_(kind) {}

}  // namespace subring
