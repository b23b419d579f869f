#pragma once

#include "subring/backend/shapes.hpp"
#include "subring/core/view.hpp"

/// Extents and dtypes of every operation's arguments, the same for all backends.
/// All throw Error{shape} and touch no element.
namespace subring::checks {

/// A view as a matrix: [rows, columns]; more than two axes count as [first, all others].
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
};
Matrix as_matrix(const ConstView& view, std::string_view what);

/// Extents of c = op(a) op(b).
struct Product {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t inner = 0;
  int64_t a_stride = 0;  ///< elements from one stored row of a to the next
  int64_t b_stride = 0;
};
Product matmul(
    const ConstView& a, Transpose transpose_a, const ConstView& b, Transpose transpose_b, View c);

void require_dtype(const ConstView& view, DType dtype, std::string_view what);
void require_elements(const ConstView& view, int64_t count, std::string_view what);
/// f32 of exactly these extents as a matrix.
void require_matrix(const ConstView& view, int64_t rows, int64_t columns, std::string_view what);
void require_same(const ConstView& a, const ConstView& b, std::string_view what);

void rope(const RopeShape& shape, const ConstView& x);
void attention_shape(const AttentionShape& shape);
/// q-like [n, Hq D], k-like [s, Hkv D], row statistics [Hq, n].
void attention_queries(const AttentionShape& shape, const ConstView& x, std::string_view what);
void attention_keys(const AttentionShape& shape, const ConstView& x, std::string_view what);
void attention_rows(const AttentionShape& shape, const ConstView& x, std::string_view what);
void rotation(const RotationPlanes& planes, const ConstView& basis, const ConstView& theta);
void frame(FrameFormat format, const ConstView& x, const ConstView& bytes);
void sparse_frame(FrameFormat format, int64_t kept, const ConstView& x, const ConstView& bytes);

}  // namespace subring::checks
