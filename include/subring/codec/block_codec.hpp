#pragma once

#include <memory>

#include "subring/codec/block_layout.hpp"
#include "subring/codec/block_projection.hpp"

namespace subring::codec {

/// Encodes and decodes the blocks of one layer: a projection of K and V, then frames.
///
/// The quantised frame is what everyone decodes, the owner included, so the forward pass does not
/// depend on which rank reads it; its gradient passes straight through (arXiv:1308.3432).
class BlockCodec {
 public:
  /// @param kept  0: every coordinate travels; else the largest of each row, forward and (of the
  /// gradient) backward
  BlockCodec(Backend& backend,
             FrameFormat format,
             int64_t chunk_tokens,
             std::unique_ptr<BlockProjection> projection,
             int64_t kept = 0);

  const BlockLayout& layout() const { return layout_; }
  BlockProjection& projection() { return *projection_; }

  /// block u8 [block_bytes] = the encoded source under the angles theta [2, k].
  /// @param scratch  receives the coordinates before quantisation, and theta
  void encode(const BlockSource& source,
              ConstView theta,
              const BlockTensors& scratch,
              View block,
              Stream& stream);
  /// Reads angles and coordinates.
  void unpack(ConstView block, const BlockTensors& tensors, Write write, Stream& stream);
  /// Writes angles and coordinates; gradients use stochastic rounding.
  void pack(const BlockTensors& tensors, const FrameRounding& rounding, View block, Stream& stream);
  /// k, v [n, e] from unpacked tensors.
  void decode(const BlockTensors& tensors, View k, View v, Stream& stream) {
    projection_->decode_forward(tensors, k, v, stream);
  }
  /// d_tensors is overwritten: a reader's share of the gradient.
  void decode_backward(const BlockTensors& tensors,
                       ConstView d_k,
                       ConstView d_v,
                       const BlockTensors& d_tensors,
                       Stream& stream);
  /// At the owner, with the sum of all readers' shares in d_tensors: the source's gradients are
  /// accumulated, and the encoder's own share is added to d_tensors.theta.
  void encode_backward(const BlockSource& source,
                       ConstView theta,
                       const BlockTensors& d_tensors,
                       const BlockSourceGradients& gradients,
                       Stream& stream) {
    projection_->encode_backward(source, theta, d_tensors, gradients, stream);
  }

 private:
  void pack_tensor(ConstView z, const FrameRounding& rounding, View bytes, Stream& stream);
  void unpack_tensor(ConstView bytes, View z, Write write, Stream& stream);

  Backend& backend_;
  std::unique_ptr<BlockProjection> projection_;
  BlockLayout layout_;
};

}  // namespace subring::codec
