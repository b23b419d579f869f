#pragma once

#include <cstdint>

#include "subring/core/enum_names.hpp"

namespace subring {

enum class BackendKind { automatic, cpu };
constexpr EnumNames<BackendKind, 2> enum_names(BackendKind) {
  return {{{BackendKind::automatic, "auto"}, {BackendKind::cpu, "cpu"}}};
}

/// Top-level keys `backend` and `threads`.
struct BackendOptions {
  BackendKind backend = BackendKind::automatic;
  int64_t threads = 0;  ///< per rank; 0 ("auto"): cores of the host / its ranks, at least 1
};

}  // namespace subring
