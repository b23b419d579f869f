#pragma once

#include <memory>
#include <vector>

#include "subring/codec/block_layout.hpp"
#include "subring/codec/projection.hpp"

namespace subring::codec {

/// What the owner of a chunk makes its block from, one layer.
struct BlockSource {
  ConstView x;  ///< [n, d] input of the K and V projections
  ConstView k;  ///< [n, e] plain keys, before RoPE
  ConstView v;  ///< [n, e]
};

/// Gradients of a BlockSource; all are accumulated.
struct BlockSourceGradients {
  View d_x;
  View d_k;
  View d_v;
};

/// The first stage of a codec for K and V of a layer together: what travels, and what a reader
/// makes of it. Trainable; parameters and gradients live outside. Readers compute from tensors
/// alone.
class BlockProjection {
 public:
  virtual ~BlockProjection() = default;

  virtual std::vector<int64_t> widths() const = 0;  ///< of the tensors of coordinates
  virtual int64_t num_angles() const = 0;           ///< k, each for K and V; 0: nothing rotates

  /// As Projection::angles_forward, theta [2, k].
  virtual void angles_forward(ConstView mean, View theta, Stream& stream) = 0;
  virtual void angles_backward(ConstView mean, ConstView d_theta, View d_mean, Stream& stream) = 0;

  /// Overwrites tensors.z; tensors.theta is read.
  virtual void encode_forward(const BlockSource& source,
                              const BlockTensors& tensors,
                              Stream& stream) = 0;
  /// Accumulates the source's gradients, d_tensors.theta, and the parameters' gradients.
  virtual void encode_backward(const BlockSource& source,
                               ConstView theta,
                               const BlockTensors& d_tensors,
                               const BlockSourceGradients& gradients,
                               Stream& stream) = 0;

  /// k, v [n, e] = what the tensors stand for.
  virtual void decode_forward(const BlockTensors& tensors, View k, View v, Stream& stream) = 0;
  /// Overwrites d_tensors.z; accumulates d_tensors.theta and the parameters' gradients.
  virtual void decode_backward(const BlockTensors& tensors,
                               ConstView d_k,
                               ConstView d_v,
                               const BlockTensors& d_tensors,
                               Stream& stream) = 0;
};

/// K and V each by a projection of its own, with as many angles.
std::unique_ptr<BlockProjection> make_pair_projection(std::unique_ptr<Projection> key,
                                                      std::unique_ptr<Projection> value);

}  // namespace subring::codec
