#pragma once

#include "subring/backend/backend.hpp"
#include "subring/codec/block_codec.hpp"
#include "subring/ring/chunk_map.hpp"
#include "subring/wire/group.hpp"

namespace subring::attention {

/// Whose mean input steers a chunk's subspaces: its own, or (strictly causal) that of the chunk
/// before it, with a zero mean before the first (method.md section 2).
enum class AngleSource { chunk, previous_chunk };

/// Makes the angles of this rank's chunks from chunk means, and takes their gradients back.
///
/// With previous_chunk the rank that holds chunk c - 1 computes the angles of chunk c and sends the
/// 2 k numbers to the owner of c where that is another rank; gradients go the other way.
class AngleExchange {
 public:
  AngleExchange(Backend& backend, AngleSource source) : backend_(backend), source_(source) {}

  void set_chunks(const wire::Group& group, const ring::ChunkMap& map);

  /// theta [L, 2, k] from means [L, d]; L owned chunks, ascending. @param transit  [L, 2, k]
  /// scratch
  void forward(codec::BlockCodec& codec, ConstView means, View theta, View transit, Stream& stream);
  /// Accumulates the heads' gradients and d_means [L, d] from d_theta [L, 2, k].
  void backward(codec::BlockCodec& codec,
                ConstView means,
                ConstView d_theta,
                View d_means,
                View transit,
                Stream& stream);

 private:
  int64_t index_of(int chunk) const;  ///< among the owned chunks; -1 when another rank's

  Backend& backend_;
  AngleSource source_;
  wire::Group group_;
  ring::ChunkMap map_;
  std::vector<int> owned_;
};

}  // namespace subring::attention
