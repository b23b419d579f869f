#pragma once

#include <memory>

#include "subring/codec/projection.hpp"

namespace subring::codec {

/// What one chunk of one layer looks like on the wire, forward and (its gradient) backward:
///   [ angles of K, angles of V: f32 | frame of K's coordinates | frame of V's coordinates ]
/// Angles come first so that frames of f32 and bf16 stay aligned.
struct BlockLayout {
  FrameFormat format = FrameFormat::fp32;
  int64_t num_tokens = 0;       ///< n of a chunk
  int64_t key_coordinates = 0;  ///< r of K
  int64_t value_coordinates = 0;
  int64_t num_angles = 0;  ///< k, each for K and V
  int64_t kept = 0;        ///< largest coordinates of a row that travel, with their columns; 0: all

  int64_t key_bytes() const { return tensor_bytes(key_coordinates); }
  int64_t value_bytes() const { return tensor_bytes(value_coordinates); }
  int64_t angle_bytes() const { return 2 * num_angles * 4; }
  int64_t block_bytes() const { return angle_bytes() + key_bytes() + value_bytes(); }
  /// Numbers of a block: angles and coordinates.
  int64_t num_elements() const {
    return 2 * num_angles + num_tokens * (key_coordinates + value_coordinates);
  }

 private:
  int64_t tensor_bytes(int64_t coordinates) const {
    return kept > 0 ? sparse_frame_bytes(format, num_tokens, kept)
                    : frame_bytes(format, num_tokens, coordinates);
  }
};

/// A block, or the gradient of one, as numbers.
struct BlockTensors {
  View theta;    ///< [2, k] f32, row 0 for K, row 1 for V; empty when k = 0
  View z_key;    ///< [n, r_K]
  View z_value;  ///< [n, r_V]

  /// Lays the tensors of `layout` into the front of f32 memory [at least layout.num_elements()].
  static BlockTensors carve(View memory, const BlockLayout& layout);
  View theta_row(int row) const;
};

/// Encodes and decodes the blocks of one layer: a projection each for K and V, then frames.
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
             std::unique_ptr<Projection> key,
             std::unique_ptr<Projection> value,
             int64_t kept = 0);

  const BlockLayout& layout() const { return layout_; }
  Projection& key() { return *key_; }
  Projection& value() { return *value_; }

  /// block u8 [block_bytes] = encoded k, v [n, e] under the angles theta [2, k].
  /// @param scratch  receives the coordinates before quantisation, and theta
  void encode(ConstView k,
              ConstView v,
              ConstView theta,
              const BlockTensors& scratch,
              View block,
              Stream& stream);
  /// Reads angles and coordinates.
  void unpack(ConstView block, const BlockTensors& tensors, Write write, Stream& stream);
  /// Writes angles and coordinates; gradients use stochastic rounding.
  void pack(const BlockTensors& tensors, const FrameRounding& rounding, View block, Stream& stream);
  /// k, v [n, e] from unpacked tensors.
  void decode(const BlockTensors& tensors, View k, View v, Stream& stream);
  /// d_tensors is overwritten: a reader's share of the gradient.
  void decode_backward(const BlockTensors& tensors,
                       ConstView d_k,
                       ConstView d_v,
                       const BlockTensors& d_tensors,
                       Stream& stream);
  /// At the owner, with the sum of all readers' shares in d_tensors: d_k, d_v are accumulated, and
  /// the encoder's own share is added to d_tensors.theta.
  void encode_backward(ConstView k,
                       ConstView v,
                       ConstView theta,
                       const BlockTensors& d_tensors,
                       View d_k,
                       View d_v,
                       Stream& stream);

 private:
  void pack_tensor(ConstView z, const FrameRounding& rounding, View bytes, Stream& stream);
  void unpack_tensor(ConstView bytes, View z, Write write, Stream& stream);

  Backend& backend_;
  std::unique_ptr<Projection> key_;
  std::unique_ptr<Projection> value_;
  BlockLayout layout_;
};

}  // namespace subring::codec
