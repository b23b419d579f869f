#include <array>
#include <bit>

#include "backend/targets.hpp"
#include "support/reference.hpp"

using namespace subring;
using namespace subring::reference;

namespace {

constexpr std::array kFormats{
    FrameFormat::fp32, FrameFormat::bf16, FrameFormat::int8, FrameFormat::int4};
constexpr FrameRounding kNearest{};

struct Codec {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Stream> stream;

  explicit Codec(int64_t threads = 1)
      : backend(cpu_backend(threads)), stream(backend->make_stream()) {}

  std::vector<uint8_t> encode(FrameFormat format, const Tensor& x, FrameRounding rounding) {
    std::vector<uint8_t> bytes(static_cast<size_t>(frame_bytes(format, x.shape[0], x.shape[1])),
                               0xa5);
    backend->encode_frame(format, rounding, x, view(bytes), *stream);
    return bytes;
  }
  Tensor decode(FrameFormat format, std::vector<uint8_t> bytes, Shape shape) {
    Tensor x(shape);
    backend->decode_frame(format, view(bytes), x, Write::overwrite, *stream);
    return x;
  }
  Tensor roundtrip(FrameFormat format, const Tensor& x, FrameRounding rounding) {
    return decode(format, encode(format, x, rounding), x.shape);
  }
  static View view(std::vector<uint8_t>& bytes) {
    return {bytes.data(), DType::u8, {static_cast<int64_t>(bytes.size())}};
  }
};

double scale_of(int code) { return std::exp2((code - 203) / 4.0); }

double limit_of(FrameFormat format) { return format == FrameFormat::int8 ? 127 : 7; }

/// Largest step of the format at x: what a roundtrip may be off by is half (nearest) or all of it.
double step_of(FrameFormat format, double row_largest, double x) {
  if (format == FrameFormat::fp32) return 0;
  if (format == FrameFormat::bf16) return std::exp2(std::floor(std::log2(std::abs(x))) - 7);
  // The smallest scale of quarter octaves that reaches the largest value.
  return row_largest / limit_of(format) * std::exp2(0.25);
}

}  // namespace

TEST_CASE("frames have exactly the bytes that were promised") {
  REQUIRE(frame_bytes(FrameFormat::fp32, 3, 5) == 60);
  REQUIRE(frame_bytes(FrameFormat::bf16, 3, 5) == 30);
  REQUIRE(frame_bytes(FrameFormat::int8, 3, 5) == 18);
  REQUIRE(frame_bytes(FrameFormat::int4, 3, 5) == 12);
  REQUIRE(frame_bytes(FrameFormat::int4, 3, 4) == 9);
  Codec codec;
  std::vector<uint8_t> bytes(17);
  Tensor x({3, 5});
  REQUIRE_THROWS_AS(codec.backend->encode_frame(
                        FrameFormat::int8, kNearest, x, Codec::view(bytes), *codec.stream),
                    Error);
  REQUIRE_THROWS_AS(codec.backend->decode_frame(
                        FrameFormat::int8, Codec::view(bytes), x, Write::overwrite, *codec.stream),
                    Error);
}

TEST_CASE("a roundtrip is off by at most half a step, or a step when rounded at random") {
  Codec codec;
  const FrameFormat format =
      GENERATE(FrameFormat::fp32, FrameFormat::bf16, FrameFormat::int8, FrameFormat::int4);
  const int64_t width = GENERATE(1, 2, 7, 255, 256, 513);
  const Tensor x = random_tensor({11, width}, 1, GENERATE(1e-6, 1.0, 1e4));
  for_each_target([&] {
    for (const Rounding mode : {Rounding::nearest, Rounding::stochastic}) {
      const Tensor y = codec.roundtrip(format, x, {mode, 7});
      for (int64_t i = 0; i < 11; ++i) {
        const Tensor& source = x;
        double top = 0;
        for (int64_t j = 0; j < width; ++j) {
          top = std::max(top, std::abs(double{source[i * width + j]}));
        }
        for (int64_t j = 0; j < width; ++j) {
          const double want = double{source[i * width + j]};
          const double share = mode == Rounding::nearest ? 0.5 : 1;
          // The division and the product with the scale round once each.
          REQUIRE(std::abs(y[i * width + j] - want) <=
                  share * step_of(format, top, want) * (1 + 1e-5) +
                      (format == FrameFormat::fp32 ? 0 : 4 * kRounding * std::abs(want)));
        }
      }
    }
  });
}

TEST_CASE("the bytes of int8 and int4 frames are laid out as documented") {
  Codec codec;
  Tensor x({2, 3});
  x.values = {1, -2, 3, 0, 0, 0};
  // Scale 1 reaches 127 exactly, 7 in int4.
  x[2] = 127;
  REQUIRE(codec.encode(FrameFormat::int8, x, kNearest) ==
          std::vector<uint8_t>{1, 0xfe, 127, 0, 0, 0, 203, 0});
  x[2] = 7;
  REQUIRE(codec.encode(FrameFormat::int4, x, kNearest) ==
          std::vector<uint8_t>{0xe1, 0x07, 0x00, 0x00, 203, 0});
}

TEST_CASE("the scale is the smallest that clips nothing, to the last bit") {
  Codec codec;
  for (const FrameFormat format : {FrameFormat::int8, FrameFormat::int4}) {
    const double limit = limit_of(format);
    for (int code = 2; code <= 253; ++code) {
      // The largest float that this code still reaches, and its successor.
      const double reach = double{static_cast<float>(scale_of(code))} * limit;
      auto edge = static_cast<float>(reach);
      if (double{edge} > reach) edge = std::nextafter(edge, 0.0F);
      for (const bool above : {false, true}) {
        Tensor x({1, 1}, above ? std::nextafter(edge, 1e30F) : edge);
        for (const Rounding mode : {Rounding::nearest, Rounding::stochastic}) {
          const auto bytes = codec.encode(format, x, {mode, 3});
          REQUIRE(int{bytes.back()} == code + (above ? 1 : 0));
          const int q = static_cast<int8_t>(format == FrameFormat::int8 ? bytes[0] : bytes[0] & 15);
          REQUIRE(q <= static_cast<int>(limit));
          REQUIRE(q >= static_cast<int>(limit / std::exp2(0.25)) - 1);
        }
      }
    }
  }
}

TEST_CASE("rows of zeros, tiny, huge and non-finite values") {
  Codec codec;
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor x({6, 2});
  x.values = {0, -0.0F, 1e-30F, -1e-40F, 1e30F, 1, inf, 1, 1, nan, 1, 2};
  for (const FrameFormat format : {FrameFormat::int8, FrameFormat::int4}) {
    const auto bytes = codec.encode(format, x, kNearest);
    const std::vector<uint8_t> codes(bytes.end() - 6, bytes.end());
    REQUIRE(codes[0] == 0);
    REQUIRE(codes[1] == 1);
    for (const size_t row : {2, 3, 4}) REQUIRE(codes[row] == 255);
    const Tensor y = codec.decode(format, bytes, x.shape);
    for (const int64_t i : {0, 1, 2, 3}) REQUIRE(y[i] == 0);
    for (const int64_t i : {4, 5, 6, 7, 8, 9}) REQUIRE(std::isnan(y[i]));
    REQUIRE(y[11] == Approx(2).epsilon(0.1));
  }
  for (const Rounding mode : {Rounding::nearest, Rounding::stochastic}) {
    const Tensor y = codec.roundtrip(FrameFormat::bf16, x, {mode, 1});
    REQUIRE(y[0] == 0);
    REQUIRE(y[6] == inf);
    REQUIRE(std::isnan(y[9]));
    REQUIRE(y[4] == Approx(1e30).epsilon(0.01));
  }
}

TEST_CASE("bf16 rounds to nearest, ties to even") {
  Codec codec;
  Tensor x({1, 4});
  const auto set = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  x.values = {set(0x3f808000), set(0x3f818000), set(0x3f808001), set(0x3f807fff)};
  const Tensor y = codec.roundtrip(FrameFormat::bf16, x, kNearest);
  REQUIRE(std::bit_cast<uint32_t>(y[0]) == 0x3f800000);
  REQUIRE(std::bit_cast<uint32_t>(y[1]) == 0x3f820000);
  REQUIRE(std::bit_cast<uint32_t>(y[2]) == 0x3f810000);
  REQUIRE(std::bit_cast<uint32_t>(y[3]) == 0x3f800000);
}

TEST_CASE("rounding at random is unbiased and its spread is that of a coin") {
  Codec codec;
  const FrameFormat format = GENERATE(FrameFormat::bf16, FrameFormat::int8, FrameFormat::int4);
  const int64_t width = 24;
  const Tensor x = random_tensor({2, width}, 5);
  constexpr int kSeeds = 4000;
  Vector mean(x.values.size()), square(x.values.size());
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Tensor y = codec.roundtrip(format, x, {Rounding::stochastic, seed});
    for (int64_t i = 0; i < x.size(); ++i) {
      const double error = double{y[i]} - x[i];
      mean[static_cast<size_t>(i)] += error / kSeeds;
      square[static_cast<size_t>(i)] += error * error / kSeeds;
    }
  }
  const std::vector<uint8_t> bytes = codec.encode(format, x, kNearest);
  for (int64_t i = 0; i < x.size(); ++i) {
    const double value = double{x[i]};
    double step = step_of(format, 0, value);
    if (format != FrameFormat::bf16) {
      step = double{
          static_cast<float>(scale_of(bytes[bytes.size() - 2 + static_cast<size_t>(i / width)]))};
    }
    const double fraction = value / step - std::floor(value / step);
    const double variance = step * step * fraction * (1 - fraction);
    // Five standard errors of a mean over kSeeds; the division rounds values of up to 2^7 steps.
    const double bias = mean[static_cast<size_t>(i)];
    REQUIRE(std::abs(bias) <= 5 * std::sqrt(variance / kSeeds) + 128 * 2 * kRounding * step);
    // (error^2 lies in [0, step^2], so its own spread is at most step^2 / 2.)
    REQUIRE(std::abs(square[static_cast<size_t>(i)] - variance) <=
            5 * step * step / 2 / std::sqrt(kSeeds) + 128 * 4 * kRounding * step * step);
  }
}

TEST_CASE("random rounding of neighbours, and of neighbouring seeds, is not correlated") {
  Codec codec;
  // Half a step everywhere: every element is a fair coin.
  constexpr int64_t kCount = 1 << 15;
  Tensor x({1, kCount}, 0.5F);
  x[0] = 127;  // scale 1
  const auto coins = [&](uint64_t seed) {
    const Tensor y = codec.roundtrip(FrameFormat::int8, x, {Rounding::stochastic, seed});
    Vector signs;
    for (int64_t i = 1; i < kCount; ++i) signs.push_back(y[i] > 0.5F ? 1 : -1);
    return signs;
  };
  const Vector a = coins(1), b = coins(2);
  // Sums of kCount independent signs: five standard deviations.
  const double bound = 5 * std::sqrt(static_cast<double>(kCount));
  for (const size_t lag : {1, 2, 3, 8, 64, 1024}) {
    double total = 0;
    for (size_t i = lag; i < a.size(); ++i) total += a[i] * a[i - lag];
    REQUIRE(std::abs(total) <= bound);
  }
  double between = 0;
  for (size_t i = 0; i < a.size(); ++i) between += a[i] * b[i];
  REQUIRE(std::abs(between) <= bound);
}

TEST_CASE("frames have the same bytes for any number of threads and on every instruction set") {
  const Tensor x = random_tensor({90, 301}, 1);
  for (const FrameFormat format : kFormats) {
    for (const Rounding mode : {Rounding::nearest, Rounding::stochastic}) {
      Codec one(1), three(3);
      const auto want = one.encode(format, x, {mode, 11});
      REQUIRE(three.encode(format, x, {mode, 11}) == want);
      for_each_target([&] { REQUIRE(one.encode(format, x, {mode, 11}) == want); });
      if (mode == Rounding::stochastic && format != FrameFormat::fp32) {
        REQUIRE(one.encode(format, x, {mode, 12}) != want);
      }
    }
  }
}

TEST_CASE("a frame can be added to what a matrix holds") {
  Codec codec(2);
  const Tensor x = random_tensor({20, 33}, 1), start = random_tensor({20, 33}, 2);
  for (const FrameFormat format : kFormats) {
    auto bytes = codec.encode(format, x, kNearest);
    const Tensor alone = codec.decode(format, bytes, x.shape);
    Tensor added = start;
    codec.backend->decode_frame(
        format, Codec::view(bytes), added, Write::accumulate, *codec.stream);
    for (int64_t i = 0; i < x.size(); ++i) REQUIRE(added[i] == start[i] + alone[i]);
  }
}
