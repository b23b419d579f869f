#include "subring/core/view.hpp"

namespace subring {

int64_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::f32: return 4;
    case DType::bf16: return 2;
    case DType::i32: return 4;
    case DType::u8: return 1;
  }
  return 0;
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::i32: return "i32";
    case DType::u8: return "u8";
  }
  return "unknown";
}

Shape::Shape(std::initializer_list<int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  SUBRING_CHECK(
      extents.size() <= extents_.size(), ErrorKind::shape, "a shape of {} axes", extents.size());
  size_t axis = 0;
  for (int64_t extent : extents) {
    SUBRING_CHECK(extent >= 0, ErrorKind::shape, "negative extent {}", extent);
    extents_[axis++] = extent;
  }
}

int64_t Shape::num_elements() const {
  if (rank_ == 0) return 0;
  int64_t count = 1;
  for (int axis = 0; axis < rank_; ++axis) count *= (*this)[axis];
  return count;
}

Shape Shape::with_rows(int64_t rows) const {
  Shape result = *this;
  result.extents_[0] = rows;
  return result;
}

bool Shape::operator==(const Shape& other) const {
  if (rank_ != other.rank_) return false;
  for (int axis = 0; axis < rank_; ++axis) {
    if ((*this)[axis] != other[axis]) return false;
  }
  return true;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string((*this)[axis]);
  }
  return text + "]";
}

namespace {

/// Checks a row range and returns the byte offset of its first row.
int64_t row_offset_bytes(const ConstView& view, int64_t first, int64_t count) {
  SUBRING_CHECK(view.shape.rank() > 0 && first >= 0 && count >= 0 && first + count <= view.shape[0],
                ErrorKind::shape,
                "rows [{}, {}) of {}",
                first,
                first + count,
                view.shape.to_string());
  return first * view.shape.row_elements() * size_bytes(view.dtype);
}

void check_reshape(const Shape& from, const Shape& to) {
  SUBRING_CHECK(from.num_elements() == to.num_elements(),
                ErrorKind::shape,
                "{} reshaped to {}",
                from.to_string(),
                to.to_string());
}

void check_dtype(DType have, DType want) {
  SUBRING_CHECK(
      have == want, ErrorKind::shape, "{} where {} is needed", to_string(have), to_string(want));
}

}  // namespace

ConstView ConstView::rows(int64_t first, int64_t count) const {
  const int64_t offset = row_offset_bytes(*this, first, count);
  return {static_cast<const std::byte*>(data) + offset, dtype, shape.with_rows(count)};
}

ConstView ConstView::reshape(Shape new_shape) const {
  check_reshape(shape, new_shape);
  return {data, dtype, new_shape};
}

const float* ConstView::f32() const {
  check_dtype(dtype, DType::f32);
  return static_cast<const float*>(data);
}

const int32_t* ConstView::i32() const {
  check_dtype(dtype, DType::i32);
  return static_cast<const int32_t*>(data);
}

std::span<const std::byte> ConstView::bytes() const {
  return {static_cast<const std::byte*>(data), static_cast<size_t>(num_bytes())};
}

View View::rows(int64_t first, int64_t count) const {
  const int64_t offset = row_offset_bytes(*this, first, count);
  return {static_cast<std::byte*>(data) + offset, dtype, shape.with_rows(count)};
}

View View::reshape(Shape new_shape) const {
  check_reshape(shape, new_shape);
  return {data, dtype, new_shape};
}

float* View::f32() const {
  check_dtype(dtype, DType::f32);
  return static_cast<float*>(data);
}

std::span<std::byte> View::bytes() const {
  return {static_cast<std::byte*>(data), static_cast<size_t>(num_bytes())};
}

int32_t* View::i32() const {
  check_dtype(dtype, DType::i32);
  return static_cast<int32_t*>(data);
}

}  // namespace subring
