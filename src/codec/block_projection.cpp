#include "subring/codec/block_projection.hpp"

#include <utility>

namespace subring::codec {
namespace {

class PairProjection final : public BlockProjection {
 public:
  PairProjection(std::unique_ptr<Projection> key, std::unique_ptr<Projection> value)
      : key_(std::move(key)), value_(std::move(value)) {
    SUBRING_CHECK(key_->num_angles() == value_->num_angles(),
                  ErrorKind::shape,
                  "{} angles of K and {} of V",
                  key_->num_angles(),
                  value_->num_angles());
  }

  std::vector<int64_t> widths() const override {
    return {key_->num_coordinates(), value_->num_coordinates()};
  }
  int64_t num_angles() const override { return key_->num_angles(); }

  void angles_forward(ConstView mean, View theta, Stream& stream) override {
    key_->angles_forward(mean, theta.rows(0, 1), stream);
    value_->angles_forward(mean, theta.rows(1, 1), stream);
  }

  void angles_backward(ConstView mean, ConstView d_theta, View d_mean, Stream& stream) override {
    key_->angles_backward(mean, d_theta.rows(0, 1), d_mean, stream);
    value_->angles_backward(mean, d_theta.rows(1, 1), d_mean, stream);
  }

  void encode_forward(const BlockSource& source,
                      const BlockTensors& tensors,
                      Stream& stream) override {
    key_->encode_forward(source.k, tensors.theta.rows(0, 1), tensors.z[0], stream);
    value_->encode_forward(source.v, tensors.theta.rows(1, 1), tensors.z[1], stream);
  }

  void encode_backward(const BlockSource& source,
                       ConstView theta,
                       const BlockTensors& d_tensors,
                       const BlockSourceGradients& gradients,
                       Stream& stream) override {
    const View d_theta = d_tensors.theta;
    key_->encode_backward(
        source.k, theta.rows(0, 1), d_tensors.z[0], gradients.d_k, d_theta.rows(0, 1), stream);
    value_->encode_backward(
        source.v, theta.rows(1, 1), d_tensors.z[1], gradients.d_v, d_theta.rows(1, 1), stream);
  }

  void decode_forward(const BlockTensors& tensors, View k, View v, Stream& stream) override {
    key_->decode_forward(tensors.z[0], tensors.theta.rows(0, 1), k, stream);
    value_->decode_forward(tensors.z[1], tensors.theta.rows(1, 1), v, stream);
  }

  void decode_backward(const BlockTensors& tensors,
                       ConstView d_k,
                       ConstView d_v,
                       const BlockTensors& d_tensors,
                       Stream& stream) override {
    const View theta = tensors.theta, d_theta = d_tensors.theta;
    key_->decode_backward(
        tensors.z[0], theta.rows(0, 1), d_k, d_tensors.z[0], d_theta.rows(0, 1), stream);
    value_->decode_backward(
        tensors.z[1], theta.rows(1, 1), d_v, d_tensors.z[1], d_theta.rows(1, 1), stream);
  }

 private:
  std::unique_ptr<Projection> key_;
  std::unique_ptr<Projection> value_;
};

}  // namespace

std::unique_ptr<BlockProjection> make_pair_projection(std::unique_ptr<Projection> key,
                                                      std::unique_ptr<Projection> value) {
  return std::make_unique<PairProjection>(std::move(key), std::move(value));
}

}  // namespace subring::codec
