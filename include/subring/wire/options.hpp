#pragma once

#include "subring/core/enum_names.hpp"

namespace subring::wire {

enum class TransportKind { automatic, local, mpi };
constexpr EnumNames<TransportKind, 3> enum_names(TransportKind) {
  return {{{TransportKind::automatic, "auto"},
           {TransportKind::local, "local"},
           {TransportKind::mpi, "mpi"}}};
}

/// Section `wire`.
struct WireOptions {
  TransportKind transport = TransportKind::automatic;
  double timeout_seconds =
      600.0;  ///< a transfer that takes longer ends the run, with its peer named
};

}  // namespace subring::wire
