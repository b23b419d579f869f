#pragma once

#include <memory>

#include "subring/backend/backend.hpp"
#include "subring/codec/options.hpp"

namespace subring::codec {

/// The first stage of a codec: maps one tensor of a chunk (K or V of one layer, before RoPE) to the
/// coordinates that travel, and back. Trainable; parameters and gradients live outside.
///
/// Letters: n tokens of a chunk, d model width, e = d_kv, r coordinates a token, k angles a chunk.
/// Coordinates and angles are inputs of decode, so every reader computes from the wire's content.
class Projection {
 public:
  virtual ~Projection() = default;

  virtual int64_t num_coordinates() const = 0;  ///< r
  virtual int64_t num_angles() const = 0;       ///< k; 0 when the subspace does not move

  /// theta [1, k] = what the heads make of the mean of a chunk's input, mean [1, d];
  /// an empty mean (before the first chunk) counts as zero.
  virtual void angles_forward(ConstView mean, View theta, Stream& stream) = 0;
  /// Accumulates the heads' gradients; d_mean [1, d] is accumulated unless `mean` is empty.
  virtual void angles_backward(ConstView mean, ConstView d_theta, View d_mean, Stream& stream) = 0;

  /// z [n, r] = coordinates of plain [n, e].
  virtual void encode_forward(ConstView plain, ConstView theta, View z, Stream& stream) = 0;
  /// d_plain and d_theta are accumulated, and so are the parameters' gradients.
  virtual void encode_backward(ConstView plain,
                               ConstView theta,
                               ConstView d_z,
                               View d_plain,
                               View d_theta,
                               Stream& stream) = 0;

  /// decoded [n, e] = what the coordinates stand for.
  virtual void decode_forward(ConstView z, ConstView theta, View decoded, Stream& stream) = 0;
  /// d_z is overwritten, d_theta accumulated, and so are the parameters' gradients.
  virtual void decode_backward(ConstView z,
                               ConstView theta,
                               ConstView d_decoded,
                               View d_z,
                               View d_theta,
                               Stream& stream) = 0;
};

/// Codec none: coordinates are the tensor itself.
std::unique_ptr<Projection> make_plain_projection(Backend& backend, int64_t kv_width);

}  // namespace subring::codec
