#pragma once

#include <cstdint>
#include <vector>

#include "subring/backend/shapes.hpp"
#include "subring/core/view.hpp"

namespace subring::codec {

/// What one chunk of one layer looks like on the wire, forward and (its gradient) backward:
///   [ angles: f32 | a frame for each tensor of coordinates ]
/// The tensors are K's and V's, or one joint latent. Angles come first so that frames of f32 and
/// bf16 stay aligned.
struct BlockLayout {
  FrameFormat format = FrameFormat::fp32;
  int64_t num_tokens = 0;       ///< n of a chunk
  std::vector<int64_t> widths;  ///< r of each tensor: coordinates a token
  int64_t num_angles = 0;       ///< k, each for K and V
  int64_t kept = 0;  ///< largest coordinates of a row that travel, with their columns; 0: all

  int64_t angle_bytes() const { return 2 * num_angles * 4; }
  int64_t tensor_bytes(int64_t width) const {
    return kept > 0 ? sparse_frame_bytes(format, num_tokens, kept)
                    : frame_bytes(format, num_tokens, width);
  }
  int64_t block_bytes() const;
  /// Numbers of a block: angles and coordinates.
  int64_t num_elements() const;
};

/// A block, or the gradient of one, as numbers.
struct BlockTensors {
  View theta;           ///< [2, k] f32, row 0 for K, row 1 for V; empty when k = 0
  std::vector<View> z;  ///< [n, r] each: of K and of V, or the latent

  /// Lays the tensors of `layout` into the front of f32 memory [at least layout.num_elements()].
  static BlockTensors carve(View memory, const BlockLayout& layout);
};

}  // namespace subring::codec
