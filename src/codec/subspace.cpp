#include "subring/codec/subspace.hpp"

#include <numeric>
#include <utility>

#include "subring/core/random.hpp"

namespace subring::codec {
namespace {

class SubspaceProjection final : public Projection {
 public:
  SubspaceProjection(Backend& backend,
                     RotationKind rotation,
                     const RotationPlanes& planes,
                     const SubspaceParameters& parameters,
                     const SubspaceScratch& scratch)
      : backend_(backend),
        rotates_(rotation != RotationKind::none),
        planes_(planes),
        parameters_(parameters),
        scratch_(scratch) {}

  int64_t num_coordinates() const override { return parameters_.basis.shape[1]; }
  int64_t num_angles() const override { return rotates_ ? parameters_.angle_bias.shape[1] : 0; }

  void angles_forward(ConstView mean, View theta, Stream& stream) override {
    if (!rotates_) return;
    backend_.copy(parameters_.angle_bias, theta, stream);
    if (mean.empty()) return;
    backend_.matmul(mean,
                    Transpose::no,
                    parameters_.angle_weight,
                    Transpose::yes,
                    theta,
                    Write::accumulate,
                    stream);
  }

  void angles_backward(ConstView mean, ConstView d_theta, View d_mean, Stream& stream) override {
    if (!rotates_) return;
    const bool learned = !parameters_.d_angle_bias.empty();
    if (learned) backend_.axpby(1, d_theta, 1, parameters_.d_angle_bias, stream);
    if (mean.empty()) return;
    if (learned) {
      backend_.matmul(d_theta,
                      Transpose::yes,
                      mean,
                      Transpose::no,
                      parameters_.d_angle_weight,
                      Write::accumulate,
                      stream);
    }
    backend_.matmul(d_theta,
                    Transpose::no,
                    parameters_.angle_weight,
                    Transpose::no,
                    d_mean,
                    Write::accumulate,
                    stream);
  }

  void encode_forward(ConstView plain, ConstView theta, View z, Stream& stream) override {
    backend_.matmul(plain,
                    Transpose::no,
                    rotated_basis(theta, stream),
                    Transpose::no,
                    z,
                    Write::overwrite,
                    stream);
  }

  void encode_backward(ConstView plain,
                       ConstView theta,
                       ConstView d_z,
                       View d_plain,
                       View d_theta,
                       Stream& stream) override {
    backend_.matmul(d_z,
                    Transpose::no,
                    rotated_basis(theta, stream),
                    Transpose::yes,
                    d_plain,
                    Write::accumulate,
                    stream);
    basis_backward(plain, d_z, theta, d_theta, stream);
  }

  void decode_forward(ConstView z, ConstView theta, View decoded, Stream& stream) override {
    backend_.matmul(z,
                    Transpose::no,
                    rotated_basis(theta, stream),
                    Transpose::yes,
                    decoded,
                    Write::overwrite,
                    stream);
  }

  void decode_backward(ConstView z,
                       ConstView theta,
                       ConstView d_decoded,
                       View d_z,
                       View d_theta,
                       Stream& stream) override {
    backend_.matmul(d_decoded,
                    Transpose::no,
                    rotated_basis(theta, stream),
                    Transpose::no,
                    d_z,
                    Write::overwrite,
                    stream);
    basis_backward(d_decoded, z, theta, d_theta, stream);
  }

 private:
  /// The scratch matrices for this projection's rank.
  View u() const { return {scratch_.u.data, DType::f32, parameters_.basis.shape}; }
  View d_u() const { return {scratch_.d_u.data, DType::f32, parameters_.basis.shape}; }

  ConstView rotated_basis(ConstView theta, Stream& stream) {
    if (!rotates_) return parameters_.basis;
    backend_.rotate_basis_forward(planes_, parameters_.basis, theta, u(), stream);
    return u();
  }

  /// dU = wide^T narrow with wide [n, e], narrow [n, r]; chained into d_basis and d_theta.
  void basis_backward(
      ConstView wide, ConstView narrow, ConstView theta, View d_theta, Stream& stream) {
    const bool learned = !parameters_.d_basis.empty();
    if (!rotates_) {
      if (learned) {
        backend_.matmul(wide,
                        Transpose::yes,
                        narrow,
                        Transpose::no,
                        parameters_.d_basis,
                        Write::accumulate,
                        stream);
      }
      return;
    }
    backend_.matmul(wide, Transpose::yes, narrow, Transpose::no, d_u(), Write::overwrite, stream);
    backend_.rotate_basis_backward(
        planes_, parameters_.basis, theta, d_u(), parameters_.d_basis, d_theta, stream);
  }

  Backend& backend_;
  bool rotates_;
  RotationPlanes planes_;
  SubspaceParameters parameters_;
  SubspaceScratch scratch_;
};

}  // namespace

PlanePairing make_plane_pairing(uint64_t seed, int64_t kv_width, int64_t generators) {
  SUBRING_CHECK(kv_width % 2 == 0 && generators >= 1 && generators <= kv_width / 2,
                ErrorKind::shape,
                "{} generators of a rotation in {} dimensions",
                generators,
                kv_width);
  const auto size = static_cast<size_t>(kv_width);
  std::vector<int32_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  Random random(seed);
  for (size_t i = size - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);

  PlanePairing pairing{
      std::vector<int32_t>(size), std::vector<float>(size), std::vector<int32_t>(size)};
  for (size_t plane = 0; plane < size / 2; ++plane) {
    const auto p = static_cast<size_t>(order[2 * plane]);
    const auto q = static_cast<size_t>(order[2 * plane + 1]);
    pairing.partner[p] = static_cast<int32_t>(q);
    pairing.partner[q] = static_cast<int32_t>(p);
    pairing.sign[p] = -1;
    pairing.sign[q] = 1;
    pairing.generator[p] = pairing.generator[q] =
        static_cast<int32_t>(plane % static_cast<size_t>(generators));
  }
  return pairing;
}

SubspaceScratch SubspaceScratch::allocate(Arena& arena, int64_t kv_width, int64_t max_rank) {
  return {arena.allocate("subspace basis", DType::f32, {kv_width, max_rank}),
          arena.allocate("subspace basis gradient", DType::f32, {kv_width, max_rank})};
}

std::unique_ptr<Projection> make_subspace_projection(Backend& backend,
                                                     RotationKind rotation,
                                                     const RotationPlanes& planes,
                                                     const SubspaceParameters& parameters,
                                                     const SubspaceScratch& scratch) {
  return std::make_unique<SubspaceProjection>(backend, rotation, planes, parameters, scratch);
}

}  // namespace subring::codec
