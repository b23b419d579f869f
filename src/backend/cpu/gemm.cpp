#include "gemm.hpp"

#include <algorithm>

#include "subring/core/error.hpp"

#ifdef SUBRING_USE_ONEDNN
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#else
#include <cblas.h>
// Only OpenBLAS has it; other implementations of CBLAS take their threads from the environment.
extern "C" __attribute__((weak)) void openblas_set_num_threads(int num_threads);
#endif

namespace subring::cpu {
namespace {

// Tiles of c large enough that packing the operands is a small part, small enough that a common
// product has one for each of several threads.
constexpr int64_t kTileRows = 256;
constexpr int64_t kTileColumns = 1024;

/// The library's own threads stay off: they would spin next to the other ranks of this host, and
/// split the sums by the number of threads. The setting belongs to the calling thread.
void use_one_library_thread() {
#ifdef SUBRING_USE_ONEDNN
  thread_local const bool done = [] {
    omp_set_num_threads(1);
    return true;
  }();
#else
  static const bool done = [] {
    if (openblas_set_num_threads != nullptr) openblas_set_num_threads(1);
    return true;
  }();
#endif
  static_cast<void>(done);
}

const float* tile_start(const Operand& x, int64_t row, int64_t column) {
  return x.transpose == Transpose::no ? x.data + row * x.stride + column
                                      : x.data + column * x.stride + row;
}

}  // namespace

void gemm(const GemmShape& shape, Operand a, Operand b, float* c, int64_t c_stride, Write write) {
  if (shape.rows == 0 || shape.columns == 0) return;
  if (shape.inner == 0) {
    for (int64_t i = 0; i < shape.rows && write == Write::overwrite; ++i) {
      std::fill_n(c + i * c_stride, shape.columns, 0.0F);
    }
    return;
  }
  use_one_library_thread();
  const float beta = write == Write::accumulate ? 1.0F : 0.0F;
#ifdef SUBRING_USE_ONEDNN
  const dnnl_status_t status = dnnl_sgemm(a.transpose == Transpose::yes ? 'T' : 'N',
                                          b.transpose == Transpose::yes ? 'T' : 'N',
                                          shape.rows,
                                          shape.columns,
                                          shape.inner,
                                          1.0F,
                                          a.data,
                                          a.stride,
                                          b.data,
                                          b.stride,
                                          beta,
                                          c,
                                          c_stride);
  SUBRING_CHECK(status == dnnl_success,
                ErrorKind::backend,
                "dnnl_sgemm of {} x {} x {} failed with status {}",
                shape.rows,
                shape.columns,
                shape.inner,
                static_cast<int>(status));
#else
  const auto flag = [](Transpose t) { return t == Transpose::yes ? CblasTrans : CblasNoTrans; };
  const auto narrow = [](int64_t x) { return static_cast<int>(x); };
  cblas_sgemm(CblasRowMajor,
              flag(a.transpose),
              flag(b.transpose),
              narrow(shape.rows),
              narrow(shape.columns),
              narrow(shape.inner),
              1.0F,
              a.data,
              narrow(a.stride),
              b.data,
              narrow(b.stride),
              beta,
              c,
              narrow(c_stride));
#endif
}

void parallel_gemm(ThreadPool& pool,
                   const GemmShape& shape,
                   Operand a,
                   Operand b,
                   float* c,
                   int64_t c_stride,
                   Write write) {
  const int64_t tiles_down = (shape.rows + kTileRows - 1) / kTileRows;
  const int64_t tiles_across = (shape.columns + kTileColumns - 1) / kTileColumns;
  pool.parallel_for(tiles_down * tiles_across, [&](int64_t tile) {
    const int64_t row = tile / tiles_across * kTileRows;
    const int64_t column = tile % tiles_across * kTileColumns;
    const GemmShape part{std::min(kTileRows, shape.rows - row),
                         std::min(kTileColumns, shape.columns - column),
                         shape.inner};
    gemm(part,
         {tile_start(a, row, 0), a.stride, a.transpose},
         {tile_start(b, 0, column), b.stride, b.transpose},
         c + row * c_stride + column,
         c_stride,
         write);
  });
}

std::string gemm_description() {
#ifdef SUBRING_USE_ONEDNN
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
#else
  return "CBLAS";
#endif
}

}  // namespace subring::cpu
