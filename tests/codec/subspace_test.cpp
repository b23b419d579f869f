#include "subring/codec/subspace.hpp"

#include "subring/codec/block_codec.hpp"
#include "support/reference.hpp"

using namespace subring;
using namespace subring::codec;
using reference::random_tensor;
using reference::Tensor;

namespace {

constexpr int64_t kTokens = 9, kInput = 6, kWidth = 12, kRank = 4, kAngles = 2;

/// A subspace with all its parameters on the host.
struct Fixture {
  std::unique_ptr<Backend> backend = reference::cpu_backend();
  std::unique_ptr<Stream> stream = backend->make_stream();
  PlanePairing pairing = make_plane_pairing(7, kWidth, kAngles);
  Tensor basis = random_tensor({kWidth, kRank}, 1);
  Tensor d_basis{Shape{kWidth, kRank}};
  Tensor angle_weight = random_tensor({kAngles, kInput}, 2, 0.5);
  Tensor d_angle_weight{Shape{kAngles, kInput}};
  Tensor angle_bias = random_tensor({1, kAngles}, 3, 0.5);
  Tensor d_angle_bias{Shape{1, kAngles}};
  Tensor u{Shape{kWidth, kRank}}, d_u{Shape{kWidth, kRank}};

  Fixture() { backend->orthonormalize(basis, *stream); }

  std::unique_ptr<Projection> projection(RotationKind kind) {
    const RotationPlanes planes{
        kind == RotationKind::taylor2 ? RotationFunction::taylor2 : RotationFunction::exact,
        {pairing.partner.data(), DType::i32, {kWidth}},
        {pairing.sign.data(), DType::f32, {kWidth}},
        {pairing.generator.data(), DType::i32, {kWidth}}};
    return make_subspace_projection(
        *backend,
        kind,
        planes,
        {basis, d_basis, angle_weight, d_angle_weight, angle_bias, d_angle_bias},
        {u, d_u});
  }

  /// <weight, decode(encode(plain))> with the angles of `mean`.
  double value(Projection& projection,
               const Tensor& plain,
               const Tensor& mean,
               const Tensor& weight) {
    Tensor theta({1, kAngles}), z({kTokens, kRank}), decoded({kTokens, kWidth});
    projection.angles_forward(mean, theta, *stream);
    projection.encode_forward(plain, theta, z, *stream);
    projection.decode_forward(z, theta, decoded, *stream);
    double sum = 0;
    for (int64_t i = 0; i < decoded.size(); ++i) sum += double(decoded[i]) * weight[i];
    return sum;
  }
};

/// Slope of value() along one element, by a central difference.
template <typename Evaluate>
double slope(float& x, const Evaluate& evaluate) {
  constexpr float kStep = 1.0F / 128;
  const float saved = x;
  x = saved + kStep;
  const double above = evaluate();
  x = saved - kStep;
  const double below = evaluate();
  x = saved;
  return (above - below) / (2 * double(kStep));
}

}  // namespace

TEST_CASE("planes pair every coordinate once, with opposite signs, dealt over generators") {
  const int64_t generators = GENERATE(1, 2, 3);
  const PlanePairing pairing = make_plane_pairing(5, 12, generators);
  std::vector<int> count(static_cast<size_t>(generators), 0);
  for (size_t p = 0; p < 12; ++p) {
    const auto q = static_cast<size_t>(pairing.partner[p]);
    REQUIRE(q != p);
    CHECK(pairing.partner[q] == static_cast<int32_t>(p));
    CHECK(pairing.sign[p] == -pairing.sign[q]);
    CHECK(pairing.generator[p] == pairing.generator[q]);
    ++count[static_cast<size_t>(pairing.generator[p])];
  }
  for (int coordinates : count) CHECK(coordinates == 12 / generators);
  CHECK_THROWS_AS(make_plane_pairing(5, 12, 7), Error);
}

TEST_CASE("gradients of encode, decode and angles are slopes") {
  Fixture f;
  const auto projection = f.projection(GENERATE(RotationKind::taylor2, RotationKind::exact));
  Tensor plain = random_tensor({kTokens, kWidth}, 4);
  Tensor mean = random_tensor({1, kInput}, 5);
  const Tensor weight = random_tensor({kTokens, kWidth}, 6);

  Tensor theta({1, kAngles}), d_theta({1, kAngles}), z({kTokens, kRank}), d_z({kTokens, kRank});
  Tensor d_plain({kTokens, kWidth}), d_mean({1, kInput});
  projection->angles_forward(mean, theta, *f.stream);
  projection->encode_forward(plain, theta, z, *f.stream);
  projection->decode_backward(z, theta, weight, d_z, d_theta, *f.stream);
  projection->encode_backward(plain, theta, d_z, d_plain, d_theta, *f.stream);
  projection->angles_backward(mean, d_theta, d_mean, *f.stream);

  const auto check = [&](Tensor& x, const Tensor& gradient) {
    for (int64_t i = 0; i < x.size(); ++i) {
      const double expected =
          slope(x[i], [&] { return f.value(*projection, plain, mean, weight); });
      CAPTURE(i);
      // Values near 30 in f32 over a step of 2^-7, and the third derivative over 6 times its
      // square.
      CHECK(gradient[i] == Approx(expected).margin(5e-3));
    }
  };
  check(plain, d_plain);
  check(mean, d_mean);
  check(f.basis, f.d_basis);
  check(f.angle_weight, f.d_angle_weight);
  check(f.angle_bias, f.d_angle_bias);
}

TEST_CASE("the exact rotation keeps the basis orthonormal at any angle") {
  Fixture f;
  const auto projection = f.projection(RotationKind::exact);
  Tensor theta({1, kAngles}), eye({kRank, kRank}), rows({kRank, kWidth});
  theta[0] = 2.5F;
  theta[1] = -40;
  for (int64_t i = 0; i < kRank; ++i) eye[i * kRank + i] = 1;
  projection->decode_forward(eye, theta, rows, *f.stream);  // U^T
  for (int64_t a = 0; a < kRank; ++a) {
    for (int64_t b = 0; b < kRank; ++b) {
      double dot = 0;
      for (int64_t i = 0; i < kWidth; ++i)
        dot += double(rows[a * kWidth + i]) * rows[b * kWidth + i];
      CHECK(dot == Approx(a == b ? 1 : 0).margin(20 * reference::kRounding));
    }
  }
}

TEST_CASE("a block has the bytes that its layout says, and gives back what was packed") {
  Fixture f;
  const FrameFormat format =
      GENERATE(FrameFormat::fp32, FrameFormat::bf16, FrameFormat::int8, FrameFormat::int4);
  BlockCodec codec(
      *f.backend,
      format,
      kTokens,
      make_pair_projection(f.projection(RotationKind::exact), f.projection(RotationKind::exact)));
  const BlockLayout& layout = codec.layout();
  const int64_t angle_bytes = 2 * kAngles * 4;
  const int64_t frame = [&] {
    switch (format) {
      case FrameFormat::fp32: return kTokens * kRank * 4;
      case FrameFormat::bf16: return kTokens * kRank * 2;
      case FrameFormat::int8: return kTokens * kRank + kTokens;
      case FrameFormat::int4: return kTokens * kRank / 2 + kTokens;
    }
    return int64_t{0};
  }();
  REQUIRE(layout.block_bytes() == angle_bytes + 2 * frame);

  Tensor memory(Shape{layout.num_elements()}), unpacked(Shape{layout.num_elements()});
  for (int64_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(1 + i % 7);
  std::vector<std::byte> bytes(static_cast<size_t>(layout.block_bytes()));
  const View block{bytes.data(), DType::u8, {layout.block_bytes()}};
  codec.pack(BlockTensors::carve(memory, layout), {}, block, *f.stream);
  codec.unpack(block, BlockTensors::carve(unpacked, layout), Write::overwrite, *f.stream);
  // Relative step of each format at the largest value, 7: int4 has 7 steps of up to 2^(1/4).
  const double step = format == FrameFormat::int4   ? 7 * 1.19 / 7 / 2
                      : format == FrameFormat::int8 ? 7 * 1.19 / 127 / 2
                                                    : 0;
  for (int64_t i = 0; i < memory.size(); ++i) {
    CAPTURE(i);
    CHECK(unpacked[i] == Approx(memory[i]).margin(step + 1e-6));
  }
}
