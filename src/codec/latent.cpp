#include "subring/codec/latent.hpp"

namespace subring::codec {
namespace {

class LatentProjection final : public BlockProjection {
 public:
  LatentProjection(Backend& backend,
                   const LatentParameters& parameters,
                   double rms_norm_eps,
                   const LatentScratch& scratch)
      : backend_(backend),
        parameters_(parameters),
        eps_(static_cast<float>(rms_norm_eps)),
        scratch_(scratch) {}

  std::vector<int64_t> widths() const override { return {parameters_.down.shape[0]}; }
  int64_t num_angles() const override { return 0; }
  void angles_forward(ConstView, View, Stream&) override {}
  void angles_backward(ConstView, ConstView, View, Stream&) override {}

  void encode_forward(const BlockSource& source,
                      const BlockTensors& tensors,
                      Stream& stream) override {
    latent(source.x, tensors.z[0], stream);
  }

  void encode_backward(const BlockSource& source,
                       ConstView /*theta*/,
                       const BlockTensors& d_tensors,
                       const BlockSourceGradients& gradients,
                       Stream& stream) override {
    latent(source.x, scratch_.c, stream);
    backend_.rms_norm_backward(d_tensors.z[0],
                               scratch_.raw,
                               parameters_.norm,
                               scratch_.rstd,
                               scratch_.d_raw,
                               Write::overwrite,
                               parameters_.d_norm,
                               stream);
    product_gradient(scratch_.d_raw, source.x, parameters_.d_down, stream);
    backend_.matmul(scratch_.d_raw,
                    Transpose::no,
                    parameters_.down,
                    Transpose::no,
                    gradients.d_x,
                    Write::accumulate,
                    stream);
  }

  void decode_forward(const BlockTensors& tensors, View k, View v, Stream& stream) override {
    const View c = tensors.z[0];
    const auto up = [&](ConstView weight, View out) {
      backend_.matmul(c, Transpose::no, weight, Transpose::yes, out, Write::overwrite, stream);
    };
    up(parameters_.up_key, k);
    up(parameters_.up_value, v);
  }

  void decode_backward(const BlockTensors& tensors,
                       ConstView d_k,
                       ConstView d_v,
                       const BlockTensors& d_tensors,
                       Stream& stream) override {
    const View c = tensors.z[0], d_c = d_tensors.z[0];
    product_gradient(d_k, c, parameters_.d_up_key, stream);
    product_gradient(d_v, c, parameters_.d_up_value, stream);
    const auto down = [&](ConstView d_out, ConstView weight, Write write) {
      backend_.matmul(d_out, Transpose::no, weight, Transpose::no, d_c, write, stream);
    };
    down(d_k, parameters_.up_key, Write::overwrite);
    down(d_v, parameters_.up_value, Write::accumulate);
  }

 private:
  /// c [n, r] of x, and the scratch's raw and rstd on the way.
  void latent(ConstView x, View c, Stream& stream) {
    backend_.matmul(
        x, Transpose::no, parameters_.down, Transpose::yes, scratch_.raw, Write::overwrite, stream);
    backend_.rms_norm_forward(scratch_.raw, parameters_.norm, eps_, c, scratch_.rstd, stream);
  }

  /// dW += d_y^T x of y = x W^T.
  void product_gradient(ConstView d_y, ConstView x, View d_weight, Stream& stream) {
    backend_.matmul(d_y, Transpose::yes, x, Transpose::no, d_weight, Write::accumulate, stream);
  }

  Backend& backend_;
  LatentParameters parameters_;
  float eps_;
  LatentScratch scratch_;
};

}  // namespace

LatentScratch LatentScratch::allocate(Arena& arena, int64_t chunk_tokens, int64_t rank) {
  const auto rows = [&] { return arena.allocate("latents", DType::f32, {chunk_tokens, rank}); };
  LatentScratch scratch;
  scratch.raw = rows();
  scratch.c = rows();
  scratch.d_raw = rows();
  scratch.rstd = arena.allocate("latents", DType::f32, {chunk_tokens});
  return scratch;
}

std::unique_ptr<BlockProjection> make_latent_projection(Backend& backend,
                                                        const LatentParameters& parameters,
                                                        double rms_norm_eps,
                                                        const LatentScratch& scratch) {
  return std::make_unique<LatentProjection>(backend, parameters, rms_norm_eps, scratch);
}

}  // namespace subring::codec
