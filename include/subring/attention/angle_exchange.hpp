#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "subring/backend/backend.hpp"
#include "subring/codec/block_codec.hpp"
#include "subring/ring/chunk_map.hpp"
#include "subring/wire/group.hpp"

namespace subring::attention {

/// Whose mean input steers a chunk's subspaces: its own, or (strictly causal) that of the chunk
/// before it, with a zero mean before the first (method.md section 2).
enum class AngleSource { chunk, previous_chunk };

/// Some of a rank's chunks: `count` owned ones from the one with index `first`.
struct ChunkRange {
  int64_t first = 0;
  int64_t count = 0;
  int64_t end() const { return first + count; }
};

/// Angles of one layer on their way to other ranks, and the memory they leave from.
struct AngleTransit {
  View memory;  ///< [L, 2, k]: by owned chunk, what goes to or comes from the owner of the next one
  std::vector<std::pair<wire::Envelope, std::unique_ptr<wire::Transfer>>> sends;
};

/// Makes the angles of this rank's chunks from chunk means, and takes their gradients back.
///
/// With previous_chunk the rank that holds chunk c - 1 computes the angles of chunk c and sends the
/// 2 k numbers to the owner of c where that is another rank; gradients go the other way. A rank
/// does its chunks in ascending order, backward in descending order: then no one waits in a circle.
class AngleExchange {
 public:
  /// @param progress  called while a rank waits: others may need its blocks to get there
  AngleExchange(AngleSource source, std::function<void()> progress)
      : source_(source), progress_(std::move(progress)) {}

  void set_chunks(const wire::Group& group, const ring::ChunkMap& map);

  /// theta [L, 2, k] of the range from means [L, d]; L owned chunks, ascending. Those of a chunk
  /// whose predecessor is another rank's are waited for.
  void forward(codec::BlockCodec& codec,
               ConstView means,
               ChunkRange chunks,
               View theta,
               AngleTransit& transit,
               Stream& stream);
  /// From d_theta [L, 2, k] of the range, accumulates the heads' gradients, and d_means [L, d] of
  /// the range to the end: all others' shares have come.
  void backward(codec::BlockCodec& codec,
                ConstView means,
                ChunkRange chunks,
                ConstView d_theta,
                View d_means,
                AngleTransit& transit,
                Stream& stream);
  /// Returns when all has left.
  void finish(AngleTransit& transit);

 private:
  int64_t index_of(int chunk) const;  ///< among the owned chunks; -1 when another rank's
  wire::Envelope envelope(wire::TrafficKind kind, int chunk, int peer_chunk) const;

  void wait(wire::Transfer& transfer, const wire::Envelope& envelope);

  AngleSource source_;
  std::function<void()> progress_;
  wire::Group group_;
  ring::ChunkMap map_;
  std::vector<int> owned_;
};

}  // namespace subring::attention
