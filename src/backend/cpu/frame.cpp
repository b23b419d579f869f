#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels.hpp"
#include "simd_targets.hpp"
#include "subring/core/random.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/frame.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Integer loops that the compiler turns into vectors of each target; chunks of kChunk elements live
// on the stack, since rows of a frame start at any byte.

#ifndef SUBRING_CPU_FRAME_ONCE
#define SUBRING_CPU_FRAME_ONCE
namespace subring::cpu {

constexpr int64_t kChunk = 256;

/// Random stream of one frame, per element: hash of (keys, low 32 bits of the element's index).
struct RoundingKeys {
  uint32_t first = 0;
  uint32_t second = 0;
};

}  // namespace subring::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace subring::cpu::HWY_NAMESPACE {

/// 32 random bits; the multipliers are those of Wellons' "lowbias32".
HWY_INLINE uint32_t hash_bits(RoundingKeys keys, uint32_t index) {
  uint32_t h = index ^ keys.first;
  h ^= h >> 16;
  h *= 0x7feb352dU;
  h ^= keys.second;
  h ^= h >> 15;
  h *= 0x846ca68bU;
  return h ^ (h >> 16);
}

/// Bits of the largest |x|; as integers they sort like the numbers, and NaN above infinity.
int32_t largest_magnitude_bits(int64_t count, const float* x) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t bits = std::bit_cast<int32_t>(x[i]) & 0x7fffffff;
    largest = largest < bits ? bits : largest;
  }
  return largest;
}

/// q = round(x / scale), |q| <= limit.
void quantise_nearest(int64_t count, const float* x, float scale, float limit, int8_t* q) {
  constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: rounds to nearest, ties to even
  for (int64_t i = 0; i < count; ++i) {
    float t = x[i] / scale;
    t = t > limit ? limit : t;
    t = t < -limit ? -limit : t;
    q[i] = static_cast<int8_t>(static_cast<int32_t>((t + kMagic) - kMagic));
  }
}

/// q = floor(x / scale) or one more, with the probability that makes the mean exact.
void quantise_stochastic(int64_t count,
                         const float* x,
                         float scale,
                         float limit,
                         RoundingKeys keys,
                         uint32_t first_index,
                         int8_t* q) {
  for (int64_t i = 0; i < count; ++i) {
    float t = x[i] / scale;
    t = t > limit ? limit : t;
    t = t < -limit ? -limit : t;
    auto below = static_cast<int32_t>(t);
    below -= t < static_cast<float>(below) ? 1 : 0;
    const float fraction = t - static_cast<float>(below);
    const uint32_t bits = hash_bits(keys, first_index + static_cast<uint32_t>(i));
    const float uniform = static_cast<float>(static_cast<int32_t>(bits >> 8)) * 0x1.0p-24F;
    q[i] = static_cast<int8_t>(below + (uniform < fraction ? 1 : 0));
  }
}

/// bf16 bits of x; `noise` (16 bits an element) is added below the cut.
HWY_INLINE uint16_t bf16_bits(uint32_t bits, uint32_t noise) {
  const uint32_t rounded = (bits + noise) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40U;
  return static_cast<uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
}

void to_bf16_nearest(int64_t count, const float* x, uint16_t* y) {
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(x[i]);
    y[i] = bf16_bits(bits, 0x7fffU + ((bits >> 16) & 1U));
  }
}

void to_bf16_stochastic(
    int64_t count, const float* x, RoundingKeys keys, uint32_t first_index, uint16_t* y) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t noise = hash_bits(keys, first_index + static_cast<uint32_t>(i)) & 0xffffU;
    const auto bits = std::bit_cast<uint32_t>(x[i]);
    // Infinity takes no noise: below it every pattern up to 0xffff more is still NaN's.
    y[i] = bf16_bits(bits, (bits & 0x7fffffffU) == 0x7f800000U ? 0U : noise);
  }
}

void from_bf16(int64_t count, const uint16_t* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = std::bit_cast<float>(uint32_t{x[i]} << 16);
}

void pack_nibbles(int64_t pairs, const int8_t* q, uint8_t* bytes) {
  for (int64_t i = 0; i < pairs; ++i) {
    bytes[i] = static_cast<uint8_t>((q[2 * i] & 15) | ((q[2 * i + 1] & 15) << 4));
  }
}

void unpack_nibbles(int64_t pairs, const uint8_t* bytes, int8_t* q) {
  for (int64_t i = 0; i < pairs; ++i) {
    // Flip and subtract the sign bit of four: two's complement.
    q[2 * i] = static_cast<int8_t>(((bytes[i] & 15) ^ 8) - 8);
    q[2 * i + 1] = static_cast<int8_t>(((bytes[i] >> 4) ^ 8) - 8);
  }
}

void dequantise(int64_t count, const int8_t* q, float scale, float* x) {
  for (int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(q[i]) * scale;
}

void deliver(int64_t count, const float* from, Write write, float* to) {
  if (write == Write::overwrite) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
  }
}

}  // namespace subring::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace subring::cpu {
namespace {

HWY_EXPORT(largest_magnitude_bits);
HWY_EXPORT(quantise_nearest);
HWY_EXPORT(quantise_stochastic);
HWY_EXPORT(to_bf16_nearest);
HWY_EXPORT(to_bf16_stochastic);
HWY_EXPORT(from_bf16);
HWY_EXPORT(pack_nibbles);
HWY_EXPORT(unpack_nibbles);
HWY_EXPORT(dequantise);
HWY_EXPORT(deliver);

constexpr int kZeroCode = 0;
constexpr int kFirstCode = 1;
constexpr int kLastCode = 254;
constexpr int kInvalidCode = 255;
constexpr int kUnitCode = 203;  ///< scale 1; codes step by quarter octaves

/// scale of a code, 2^((code - 203) / 4); NaN for the invalid one, so that its rows decode to NaN.
const std::array<float, 256>& scales() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (int code = kFirstCode; code <= kLastCode; ++code) {
      values[static_cast<size_t>(code)] = static_cast<float>(std::exp2((code - kUnitCode) / 4.0));
    }
    values[kInvalidCode] = std::numeric_limits<float>::quiet_NaN();
    return values;
  }();
  return table;
}

/// The smallest code whose scale times `limit` reaches `largest`: nothing is clipped.
int scale_code(float largest, float limit) {
  if (largest == 0) return kZeroCode;
  if (!std::isfinite(largest)) return kInvalidCode;
  // float * small integer is exact in double, so the comparison is.
  const auto reaches = [&](int code) {
    return double{scales()[static_cast<size_t>(code)]} * double{limit} >= double{largest};
  };
  const double exact = kUnitCode + 4 * std::log2(double{largest} / double{limit});
  int code = std::clamp(static_cast<int>(std::ceil(exact)), kFirstCode, kLastCode);
  while (code > kFirstCode && reaches(code - 1)) --code;
  while (code <= kLastCode && !reaches(code)) ++code;
  return code <= kLastCode ? code : kInvalidCode;
}

struct Rounder {
  FrameRounding rounding;

  bool stochastic() const { return rounding.mode == Rounding::stochastic; }
  RoundingKeys keys(int64_t element) const {
    const uint64_t bits = derive_seed(rounding.seed, static_cast<uint64_t>(element) >> 32);
    return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
  }
  /// Elements from `element` on, at most `wanted`, that share keys and fit a chunk.
  static int64_t chunk(int64_t element, int64_t wanted) {
    const int64_t to_next_key = (int64_t{1} << 32) - (element & 0xffffffff);
    return std::min({kChunk, wanted, to_next_key});
  }
};

void quantise(const Rounder& rounder,
              int64_t element,
              int64_t count,
              const float* x,
              float scale,
              float limit,
              int8_t* q) {
  if (rounder.stochastic()) {
    HWY_DYNAMIC_DISPATCH(quantise_stochastic)
    (count, x, scale, limit, rounder.keys(element), static_cast<uint32_t>(element), q);
  } else {
    HWY_DYNAMIC_DISPATCH(quantise_nearest)(count, x, scale, limit, q);
  }
}

/// One row of int8 (limit 127) or int4 (limit 7); returns its scale code.
int encode_row(const Rounder& rounder,
               FrameFormat format,
               int64_t first_element,
               int64_t width,
               const float* x,
               std::byte* bytes) {
  const float limit = format == FrameFormat::int8 ? 127.0F : 7.0F;
  const auto largest = std::bit_cast<float>(HWY_DYNAMIC_DISPATCH(largest_magnitude_bits)(width, x));
  const int code = scale_code(largest, limit);
  if (code == kZeroCode || code == kInvalidCode) {
    std::memset(bytes, 0, static_cast<size_t>(frame_bytes(format, 1, width) - 1));
    return code;
  }
  const float scale = scales()[static_cast<size_t>(code)];
  int8_t q[kChunk + 1];
  for (int64_t j = 0; j < width;) {
    // Chunks start at even columns, as pairs of nibbles do; where the random stream changes within
    // one (every 2^32 elements), it is quantised in two parts.
    const int64_t count = std::min(kChunk, width - j);
    for (int64_t done = 0; done < count;) {
      const int64_t element = first_element + j + done;
      const int64_t part = Rounder::chunk(element, count - done);
      quantise(rounder, element, part, x + j + done, scale, limit, q + done);
      done += part;
    }
    if (format == FrameFormat::int8) {
      std::memcpy(bytes + j, q, static_cast<size_t>(count));
    } else {
      q[count] = 0;  // the unused nibble of an odd row
      HWY_DYNAMIC_DISPATCH(pack_nibbles)
      ((count + 1) / 2, q, reinterpret_cast<uint8_t*>(bytes + j / 2));
    }
    j += count;
  }
  return code;
}

void decode_row(
    FrameFormat format, int64_t width, const std::byte* bytes, float scale, float* x, Write write) {
  int8_t q[kChunk];
  float values[kChunk];
  for (int64_t j = 0; j < width; j += kChunk) {
    const int64_t count = std::min(kChunk, width - j);
    if (format == FrameFormat::int8) {
      std::memcpy(q, bytes + j, static_cast<size_t>(count));
    } else {
      HWY_DYNAMIC_DISPATCH(unpack_nibbles)
      ((count + 1) / 2, reinterpret_cast<const uint8_t*>(bytes + j / 2), q);
    }
    HWY_DYNAMIC_DISPATCH(dequantise)(count, q, scale, values);
    HWY_DYNAMIC_DISPATCH(deliver)(count, values, write, x + j);
  }
}

/// Elements [first, first + total) of a bf16 frame.
void encode_bf16(
    const Rounder& rounder, int64_t first, int64_t total, const float* x, std::byte* bytes) {
  uint16_t y[kChunk];
  for (int64_t i = first; i < first + total;) {
    const int64_t count = Rounder::chunk(i, first + total - i);
    if (rounder.stochastic()) {
      HWY_DYNAMIC_DISPATCH(to_bf16_stochastic)
      (count, x + i, rounder.keys(i), static_cast<uint32_t>(i), y);
    } else {
      HWY_DYNAMIC_DISPATCH(to_bf16_nearest)(count, x + i, y);
    }
    std::memcpy(bytes + 2 * i, y, static_cast<size_t>(2 * count));
    i += count;
  }
}

void decode_wide(FrameFormat format,
                 int64_t first,
                 int64_t total,
                 const std::byte* bytes,
                 float* x,
                 Write write) {
  uint16_t y[kChunk];
  float values[kChunk];
  for (int64_t i = first; i < first + total; i += kChunk) {
    const int64_t count = std::min(kChunk, first + total - i);
    if (format == FrameFormat::fp32) {
      std::memcpy(values, bytes + 4 * i, static_cast<size_t>(4 * count));
    } else {
      std::memcpy(y, bytes + 2 * i, static_cast<size_t>(2 * count));
      HWY_DYNAMIC_DISPATCH(from_bf16)(count, y, values);
    }
    HWY_DYNAMIC_DISPATCH(deliver)(count, values, write, x + i);
  }
}

bool is_scaled(FrameFormat format) {
  return format == FrameFormat::int8 || format == FrameFormat::int4;
}

/// Calls body(first_row, rows) for tiles of about 16 Ki elements.
template <class Body>
void for_row_tiles(ThreadPool& pool, Extents extents, Body&& body) {
  const int64_t tile_rows =
      std::max<int64_t>(1, (int64_t{1} << 14) / std::max<int64_t>(1, extents.columns));
  pool.parallel_for((extents.rows + tile_rows - 1) / tile_rows, [&](int64_t tile) {
    const int64_t first = tile * tile_rows;
    body(first, std::min(tile_rows, extents.rows - first));
  });
}

}  // namespace

void encode_frame(ThreadPool& pool,
                  FrameFormat format,
                  const FrameRounding& rounding,
                  Extents extents,
                  const float* x,
                  std::byte* bytes) {
  const Rounder rounder{rounding};
  const int64_t width = extents.columns;
  const int64_t row_bytes = frame_bytes(format, 1, width) - (is_scaled(format) ? 1 : 0);
  std::byte* codes = bytes + extents.rows * row_bytes;
  for_row_tiles(pool, extents, [&](int64_t first, int64_t rows) {
    if (format == FrameFormat::bf16) {
      encode_bf16(rounder, first * width, rows * width, x, bytes);
      return;
    }
    if (format == FrameFormat::fp32) {
      const auto size = static_cast<size_t>(rows * row_bytes);
      if (size > 0) std::memcpy(bytes + first * row_bytes, x + first * width, size);
      return;
    }
    for (int64_t i = first; i < first + rows; ++i) {
      const int code =
          encode_row(rounder, format, i * width, width, x + i * width, bytes + i * row_bytes);
      codes[i] = static_cast<std::byte>(code);
    }
  });
}

void decode_frame(ThreadPool& pool,
                  FrameFormat format,
                  Extents extents,
                  const std::byte* bytes,
                  float* x,
                  Write write) {
  const int64_t width = extents.columns;
  const int64_t row_bytes = frame_bytes(format, 1, width) - (is_scaled(format) ? 1 : 0);
  const std::byte* codes = bytes + extents.rows * row_bytes;
  for_row_tiles(pool, extents, [&](int64_t first, int64_t rows) {
    if (!is_scaled(format)) {
      decode_wide(format, first * width, rows * width, bytes, x, write);
      return;
    }
    for (int64_t i = first; i < first + rows; ++i) {
      const float scale = scales()[std::to_integer<size_t>(codes[i])];
      decode_row(format, width, bytes + i * row_bytes, scale, x + i * width, write);
    }
  });
}

}  // namespace subring::cpu
#endif
