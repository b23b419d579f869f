#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "subring/wire/transport.hpp"

namespace subring::wire {

/// The functions below use the tags from here on; others use tags in [0, kFirstCollectiveTag).
/// (MPI promises tags up to 32767 only.)
constexpr int kFirstCollectiveTag = 32000;

/// Some ranks of a transport, in ring order, as one of them sees them.
struct Group {
  Transport* transport = nullptr;
  std::vector<int> ranks;  ///< world ranks
  int index = 0;           ///< of this rank in `ranks`
  std::chrono::duration<double> timeout{600};

  int size() const { return static_cast<int>(ranks.size()); }
  /// World rank `distance` places further round the ring (negative: back).
  int neighbour(int distance) const;
};

/// Sums `values` over the ranks of the group, in place; the same bits on every rank.
/// Ring reduce-scatter, then ring all-gather: each rank sends 2 (m - 1) / m of the buffer. To the
/// byte: segment s of n values is [s n / m, (s + 1) n / m), and the member with index i sends all
/// segments but i + 1 (mod m), then all but i + 2 (mod m).
/// Host memory; scratch of two pieces of at most 4 MiB. Source: Patarasuk and Yuan, 2009.
/// @throws Error{wire}
void all_reduce_sum(const Group& group, std::span<float> values, TrafficKind kind);
void all_reduce_sum(const Group& group, std::span<double> values, TrafficKind kind);

/// Copies `bytes` of the group's member `root` (an index into ranks) to all, round the ring, in
/// pieces, so that it takes little longer than one hop. Every member but the last of the chain
/// sends bytes.size() bytes.
void broadcast(const Group& group, int root, std::span<std::byte> bytes, TrafficKind kind);

/// Every member's `text` in order of index, on the first member; empty on the others. Straight to
/// the first, one after the other: for what is seldom and small.
std::vector<std::string> gather_to_first(const Group& group,
                                         std::string_view text,
                                         TrafficKind kind);

/// Returns when every rank of the group has called it. Sends no payload (dissemination: log2 m
/// rounds).
void barrier(const Group& group);

}  // namespace subring::wire
