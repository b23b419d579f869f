#include <algorithm>
#include <limits>
#include <numeric>

#include "backend/targets.hpp"
#include "support/reference.hpp"

using namespace subring;
using namespace subring::reference;

namespace {

struct Codec {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Stream> stream;

  explicit Codec(int64_t threads = 1)
      : backend(cpu_backend(threads)), stream(backend->make_stream()) {}

  std::vector<uint8_t> encode(FrameFormat format,
                              int64_t kept,
                              const Tensor& x,
                              FrameRounding rounding = {}) {
    std::vector<uint8_t> bytes(static_cast<size_t>(sparse_frame_bytes(format, x.shape[0], kept)),
                               0xa5);
    backend->encode_sparse_frame(format, kept, rounding, x, view(bytes), *stream);
    return bytes;
  }
  void decode(
      FrameFormat format, int64_t kept, std::vector<uint8_t> bytes, Write write, Tensor& x) {
    backend->decode_sparse_frame(format, kept, view(bytes), x, write, *stream);
  }
  static View view(std::vector<uint8_t>& bytes) {
    return {bytes.data(), DType::u8, {static_cast<int64_t>(bytes.size())}};
  }
};

/// What is left of x when only the `kept` largest of each row stay, by sorting.
Tensor thinned(const Tensor& x, int64_t kept) {
  Tensor result(x.shape);
  const int64_t width = x.shape[1];
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    std::vector<int64_t> columns(static_cast<size_t>(width));
    std::iota(columns.begin(), columns.end(), 0);
    std::stable_sort(columns.begin(), columns.end(), [&](int64_t a, int64_t b) {
      return std::abs(x[i * width + a]) > std::abs(x[i * width + b]);
    });
    for (int64_t j = 0; j < kept; ++j) {
      const int64_t at = i * width + columns[static_cast<size_t>(j)];
      result[at] = x[at];
    }
  }
  return result;
}

}  // namespace

TEST_CASE("a sparse frame holds the largest of each row, and nothing else") {
  const int64_t width = GENERATE(1, 5, 64, 301);
  Tensor x = random_tensor({37, width}, 3);
  // Ties, also of opposite sign: the first columns win.
  for (int64_t i = 0; i < x.size(); i += 3) x[i] = i % 2 == 0 ? 1.5F : -1.5F;
  for (const int64_t kept : {int64_t{1}, (width + 9) / 10, (width + 1) / 2, width}) {
    const Tensor want = thinned(x, kept);
    for_each_target([&] {
      Codec codec(2);
      Tensor y({37, width}, 8), added({37, width}, 8);
      const auto bytes = codec.encode(FrameFormat::fp32, kept, x);
      codec.decode(FrameFormat::fp32, kept, bytes, Write::overwrite, y);
      codec.decode(FrameFormat::fp32, kept, bytes, Write::accumulate, added);
      for (int64_t i = 0; i < x.size(); ++i) {
        REQUIRE(y[i] == want[i]);
        REQUIRE(added[i] == 8 + want[i]);
      }
    });
  }
}

TEST_CASE("the bytes of a sparse frame are laid out as documented") {
  Codec codec;
  Tensor x({2, 4});
  x.values = {1, -127, 3, 127, 0, 0, 0, -127};
  // Columns of both rows, little end first, then an int8 frame [2, 2] of scale 1.
  REQUIRE(codec.encode(FrameFormat::int8, 2, x) ==
          std::vector<uint8_t>{1, 0, 3, 0, 0, 0, 3, 0, 0x81, 127, 0, 0x81, 203, 203});
  REQUIRE(sparse_frame_bytes(FrameFormat::bf16, 3, 5) == 3 * 5 * 4);
  REQUIRE(sparse_frame_bytes(FrameFormat::int4, 3, 5) == 3 * (5 * 2 + 3 + 1));
}

TEST_CASE("sparse frames: NaN is kept, wrong sizes and columns are refused") {
  Codec codec;
  Tensor x({1, 4}), y({1, 4});
  x.values = {1e30F, std::numeric_limits<float>::quiet_NaN(), 2, 3};
  auto bytes = codec.encode(FrameFormat::bf16, 1, x);
  codec.decode(FrameFormat::bf16, 1, bytes, Write::overwrite, y);
  REQUIRE(std::isnan(y[1]));
  REQUIRE(y[0] == 0);
  bytes[0] = 4;
  REQUIRE_THROWS_AS(codec.decode(FrameFormat::bf16, 1, bytes, Write::overwrite, y), Error);
  REQUIRE_THROWS_AS(codec.encode(FrameFormat::bf16, 5, x), Error);
  REQUIRE_THROWS_AS(codec.encode(FrameFormat::bf16, 0, x), Error);
  bytes.push_back(0);
  REQUIRE_THROWS_AS(codec.decode(FrameFormat::bf16, 1, bytes, Write::overwrite, y), Error);
}

TEST_CASE("sparse frames have the same bytes for any number of threads") {
  const Tensor x = random_tensor({90, 301}, 1);
  const FrameRounding rounding{Rounding::stochastic, 11};
  Codec one(1), three(3);
  const auto want = one.encode(FrameFormat::int4, 30, x, rounding);
  REQUIRE(three.encode(FrameFormat::int4, 30, x, rounding) == want);
  for_each_target([&] { REQUIRE(one.encode(FrameFormat::int4, 30, x, rounding) == want); });
}
