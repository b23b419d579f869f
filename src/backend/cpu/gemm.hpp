#pragma once

#include <cstdint>
#include <string>

#include "subring/backend/shapes.hpp"
#include "subring/core/threads.hpp"

namespace subring::cpu {

/// A stored matrix: its first element and the distance of its rows in elements.
struct Operand {
  const float* data = nullptr;
  int64_t stride = 0;
  Transpose transpose = Transpose::no;
};

struct GemmShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t inner = 0;
};

/// c = op(a) op(b) (+ c) on the calling thread alone. Cost: 2 rows columns inner flops.
/// @throws Error{backend}
void gemm(const GemmShape& shape, Operand a, Operand b, float* c, int64_t c_stride, Write write);

/// The same over all threads of the pool, in tiles of c.
void parallel_gemm(ThreadPool& pool,
                   const GemmShape& shape,
                   Operand a,
                   Operand b,
                   float* c,
                   int64_t c_stride,
                   Write write);

/// "oneDNN 2.6.3" or "CBLAS".
std::string gemm_description();

}  // namespace subring::cpu
