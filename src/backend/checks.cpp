#include "checks.hpp"

namespace subring {

int64_t frame_bytes(FrameFormat format, int64_t num_tokens, int64_t width) {
  switch (format) {
    case FrameFormat::fp32: return 4 * num_tokens * width;
    case FrameFormat::bf16: return 2 * num_tokens * width;
    case FrameFormat::int8: return num_tokens * width + num_tokens;
    case FrameFormat::int4: return num_tokens * ((width + 1) / 2) + num_tokens;
  }
  return 0;
}

int64_t sparse_frame_bytes(FrameFormat format, int64_t num_tokens, int64_t kept) {
  return 2 * num_tokens * kept + frame_bytes(format, num_tokens, kept);
}

namespace checks {

Matrix as_matrix(const ConstView& view, std::string_view what) {
  SUBRING_CHECK(
      view.shape.rank() >= 1, ErrorKind::shape, "{} {} is no matrix", what, view.shape.to_string());
  require_dtype(view, DType::f32, what);
  int64_t columns = 1;
  for (int axis = 1; axis < view.shape.rank(); ++axis) columns *= view.shape[axis];
  return {view.shape[0], columns};
}

void require_dtype(const ConstView& view, DType dtype, std::string_view what) {
  SUBRING_CHECK(view.dtype == dtype,
                ErrorKind::shape,
                "{} is {}, must be {}",
                what,
                to_string(view.dtype),
                to_string(dtype));
}

void require_elements(const ConstView& view, int64_t count, std::string_view what) {
  SUBRING_CHECK(view.num_elements() == count,
                ErrorKind::shape,
                "{} {} has {} elements, must have {}",
                what,
                view.shape.to_string(),
                view.num_elements(),
                count);
}

void require_matrix(const ConstView& view, int64_t rows, int64_t columns, std::string_view what) {
  const Matrix matrix = as_matrix(view, what);
  SUBRING_CHECK(matrix.rows == rows && matrix.columns == columns,
                ErrorKind::shape,
                "{} is {}, must be [{}, {}]",
                what,
                view.shape.to_string(),
                rows,
                columns);
}

void require_same(const ConstView& a, const ConstView& b, std::string_view what) {
  SUBRING_CHECK(a.shape == b.shape && a.dtype == b.dtype,
                ErrorKind::shape,
                "{}: {} {} and {} {} must agree",
                what,
                to_string(a.dtype),
                a.shape.to_string(),
                to_string(b.dtype),
                b.shape.to_string());
}

Product matmul(
    const ConstView& a, Transpose transpose_a, const ConstView& b, Transpose transpose_b, View c) {
  const Matrix stored_a = as_matrix(a, "matmul a");
  const Matrix stored_b = as_matrix(b, "matmul b");
  const Matrix result = as_matrix(c, "matmul c");
  const bool flip_a = transpose_a == Transpose::yes;
  const bool flip_b = transpose_b == Transpose::yes;
  const Matrix op_a = flip_a ? Matrix{stored_a.columns, stored_a.rows} : stored_a;
  const Matrix op_b = flip_b ? Matrix{stored_b.columns, stored_b.rows} : stored_b;
  SUBRING_CHECK(
      op_a.columns == op_b.rows && result.rows == op_a.rows && result.columns == op_b.columns,
      ErrorKind::shape,
      "matmul {}{} {}{} -> {}",
      a.shape.to_string(),
      flip_a ? "^T" : "",
      b.shape.to_string(),
      flip_b ? "^T" : "",
      c.shape.to_string());
  return {op_a.rows, op_b.columns, op_a.columns, stored_a.columns, stored_b.columns};
}

void rope(const RopeShape& shape, const ConstView& x) {
  SUBRING_CHECK(shape.head_dim > 0 && shape.head_dim % 2 == 0 && shape.first_position >= 0,
                ErrorKind::shape,
                "rope: head_dim {} (even?), first position {}",
                shape.head_dim,
                shape.first_position);
  SUBRING_CHECK(as_matrix(x, "rope x").columns == shape.num_heads * shape.head_dim,
                ErrorKind::shape,
                "rope: x {} is not {} heads of {}",
                x.shape.to_string(),
                shape.num_heads,
                shape.head_dim);
}

void attention_shape(const AttentionShape& shape) {
  SUBRING_CHECK(shape.num_queries >= 0 && shape.num_keys >= 0 && shape.head_dim > 0 &&
                    shape.num_kv_heads > 0 && shape.num_query_heads > 0 &&
                    shape.num_query_heads % shape.num_kv_heads == 0,
                ErrorKind::shape,
                "attention of {} queries, {} keys, {} heads over {} kv heads of {}",
                shape.num_queries,
                shape.num_keys,
                shape.num_query_heads,
                shape.num_kv_heads,
                shape.head_dim);
}

void attention_queries(const AttentionShape& shape, const ConstView& x, std::string_view what) {
  require_matrix(x, shape.num_queries, shape.num_query_heads * shape.head_dim, what);
}

void attention_keys(const AttentionShape& shape, const ConstView& x, std::string_view what) {
  require_matrix(x, shape.num_keys, shape.num_kv_heads * shape.head_dim, what);
}

void attention_rows(const AttentionShape& shape, const ConstView& x, std::string_view what) {
  require_matrix(x, shape.num_query_heads, shape.num_queries, what);
}

void rotation(const RotationPlanes& planes, const ConstView& basis, const ConstView& theta) {
  const int64_t rows = as_matrix(basis, "rotation basis").rows;
  require_dtype(planes.partner, DType::i32, "rotation partner");
  require_dtype(planes.sign, DType::f32, "rotation sign");
  require_dtype(planes.generator, DType::i32, "rotation generator");
  require_elements(planes.partner, rows, "rotation partner");
  require_elements(planes.sign, rows, "rotation sign");
  require_elements(planes.generator, rows, "rotation generator");
  require_dtype(theta, DType::f32, "rotation theta");
}

void frame(FrameFormat format, const ConstView& x, const ConstView& bytes) {
  const Matrix matrix = as_matrix(x, "frame x");
  require_dtype(bytes, DType::u8, "frame bytes");
  require_elements(bytes, frame_bytes(format, matrix.rows, matrix.columns), "frame bytes");
}

void sparse_frame(FrameFormat format, int64_t kept, const ConstView& x, const ConstView& bytes) {
  const Matrix matrix = as_matrix(x, "sparse frame x");
  SUBRING_CHECK(kept >= 1 && kept <= matrix.columns && matrix.columns <= kMaxSparseWidth,
                ErrorKind::shape,
                "sparse frame: {} kept of {} columns, at most {}",
                kept,
                matrix.columns,
                kMaxSparseWidth);
  require_dtype(bytes, DType::u8, "sparse frame bytes");
  require_elements(bytes, sparse_frame_bytes(format, matrix.rows, kept), "sparse frame bytes");
}

}  // namespace checks
}  // namespace subring
