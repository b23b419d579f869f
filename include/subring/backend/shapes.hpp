#pragma once

#include <cstdint>

#include "subring/core/enum_names.hpp"
#include "subring/core/view.hpp"

namespace subring {

enum class Transpose { no, yes };

/// Whether a result replaces what its view holds or is added to it.
enum class Write { overwrite, accumulate };

enum class RopeDirection { forward, backward };

struct RopeShape {
  int64_t num_heads = 0;
  int64_t head_dim = 0;        ///< even
  int64_t first_position = 0;  ///< global position of row 0; rows follow one another
  double theta = 500000.0;
};

/// One block of attention: queries and keys are each contiguous in global position.
struct AttentionShape {
  int64_t num_queries = 0;
  int64_t num_keys = 0;
  int64_t num_query_heads = 0;
  int64_t num_kv_heads = 0;  ///< divides num_query_heads: query head h reads kv head h / (Hq / Hkv)
  int64_t head_dim = 0;
  int64_t first_query_position = 0;  ///< global
  int64_t first_key_position = 0;    ///< global
};

enum class RotationFunction { taylor2, exact, expm };

/// The fixed skew-symmetric generators: every coordinate belongs to one plane of one generator.
struct RotationPlanes {
  RotationFunction function = RotationFunction::exact;
  ConstView partner;    ///< [d_kv] i32, partner[partner[p]] = p
  ConstView sign;       ///< [d_kv] f32, +1 or -1, sign[partner[p]] = -sign[p]
  ConstView generator;  ///< [d_kv] i32 in [0, k)
};

/// How one matrix is laid out as bytes.
enum class FrameFormat { fp32, bf16, int8, int4 };
constexpr EnumNames<FrameFormat, 4> enum_names(FrameFormat) {
  return {{{FrameFormat::fp32, "fp32"},
           {FrameFormat::bf16, "bf16"},
           {FrameFormat::int8, "int8"},
           {FrameFormat::int4, "int4"}}};
}

/// Bytes of a frame of `num_tokens` rows of `width` numbers, scales included:
/// fp32 4nr, bf16 2nr, int8 nr + n, int4 n ceil(r/2) + n.
int64_t frame_bytes(FrameFormat format, int64_t num_tokens, int64_t width);

/// Bytes of a sparse frame, `kept` numbers of each row: 2 n kept of 16-bit columns, then their
/// values as a frame [n, kept].
int64_t sparse_frame_bytes(FrameFormat format, int64_t num_tokens, int64_t kept);

/// Columns of a sparse frame have 16 bits.
constexpr int64_t kMaxSparseWidth = 1 << 16;

enum class Rounding { nearest, stochastic };

/// Stochastic rounding is unbiased and a pure function of (seed, element index).
struct FrameRounding {
  Rounding mode = Rounding::nearest;
  uint64_t seed = 0;
};

struct AdamWStep {
  float lr = 0;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float eps = 1e-8F;
  float weight_decay = 0;
  int64_t step = 1;          ///< counts from 1, for the bias correction
  float gradient_scale = 1;  ///< multiplies the gradient first (clipping)
};

}  // namespace subring
