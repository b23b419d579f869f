#include "subring/codec/projection.hpp"

namespace subring::codec {
namespace {

class PlainProjection final : public Projection {
 public:
  PlainProjection(Backend& backend, int64_t kv_width) : backend_(backend), kv_width_(kv_width) {}

  int64_t num_coordinates() const override { return kv_width_; }
  int64_t num_angles() const override { return 0; }
  void angles_forward(ConstView, View, Stream&) override {}
  void angles_backward(ConstView, ConstView, View, Stream&) override {}

  void encode_forward(ConstView plain, ConstView, View z, Stream& stream) override {
    backend_.copy(plain, z, stream);
  }
  void encode_backward(
      ConstView, ConstView, ConstView d_z, View d_plain, View, Stream& stream) override {
    backend_.axpby(1, d_z, 1, d_plain, stream);
  }
  void decode_forward(ConstView z, ConstView, View decoded, Stream& stream) override {
    backend_.copy(z, decoded, stream);
  }
  void decode_backward(
      ConstView, ConstView, ConstView d_decoded, View d_z, View, Stream& stream) override {
    backend_.copy(d_decoded, d_z, stream);
  }

 private:
  Backend& backend_;
  int64_t kv_width_;
};

}  // namespace

std::unique_ptr<Projection> make_plain_projection(Backend& backend, int64_t kv_width) {
  return std::make_unique<PlainProjection>(backend, kv_width);
}

}  // namespace subring::codec
