#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "subring/core/error.hpp"

namespace subring {

/// Element type of memory that a backend computes on.
enum class DType { f32, bf16, i32, u8 };

/// Bytes of one element.
int64_t size_bytes(DType dtype);
std::string_view to_string(DType dtype);

/// Up to four extents, outermost first. A default Shape has rank 0 and no elements.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return extents_[static_cast<size_t>(axis)]; }
  int64_t num_elements() const;
  /// Elements below the first axis: what one row of a [rows, ...] tensor holds.
  int64_t row_elements() const {
    return rank_ == 0 || extents_[0] == 0 ? 0 : num_elements() / extents_[0];
  }
  /// The same extents with the first replaced.
  Shape with_rows(int64_t rows) const;
  bool operator==(const Shape& other) const;
  std::string to_string() const;

 private:
  std::array<int64_t, 4> extents_{};
  int rank_ = 0;
};

/// Read-only, non-owning, contiguous (row-major) tensor in backend memory.
struct ConstView {
  const void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  int64_t num_elements() const { return shape.num_elements(); }
  int64_t num_bytes() const { return num_elements() * size_bytes(dtype); }
  bool empty() const { return num_elements() == 0; }
  /// Rows [first, first + count) of the outermost axis.
  ConstView rows(int64_t first, int64_t count) const;
  /// The same elements under other extents. @throws Error{shape} when the counts differ
  ConstView reshape(Shape new_shape) const;
  /// Typed pointer. @throws Error{shape} when the dtype is another
  const float* f32() const;
  const int32_t* i32() const;
  /// The memory itself; only for memory that the host can reach.
  std::span<const std::byte> bytes() const;
};

/// Writable sibling of ConstView.
struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  operator ConstView() const { return {data, dtype, shape}; }
  int64_t num_elements() const { return shape.num_elements(); }
  int64_t num_bytes() const { return num_elements() * size_bytes(dtype); }
  bool empty() const { return num_elements() == 0; }
  View rows(int64_t first, int64_t count) const;
  View reshape(Shape new_shape) const;
  float* f32() const;
  int32_t* i32() const;
  std::span<std::byte> bytes() const;
};

}  // namespace subring
