#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rope_table.hpp"
#include "subring/backend/shapes.hpp"
#include "subring/core/threads.hpp"

/// Loops of the CPU backend on plain pointers; arguments were checked by CpuBackend. Work is cut
/// into tiles whose size depends on the shape only, so any number of threads gives the same bits.
namespace subring::cpu {

/// Sizes of a matrix [rows, columns] without gaps.
struct Extents {
  int64_t rows = 0;
  int64_t columns = 0;
};

/// This thread's scratch of at least `num_floats`, 64-byte aligned; valid until the next call on
/// the same thread. Grows to the largest request and stays.
float* thread_scratch(int64_t num_floats);
/// Second buffer of the calling thread, for sums of tiles while tasks use thread_scratch().
double* thread_partials(int64_t num_doubles);

/// Rows of one tile when the columns of a matrix are summed: at most 64 tiles, at least 32 rows.
int64_t reduction_rows(int64_t rows);

/// @name simd.cpp
std::string simd_description();

/// @name elementwise.cpp
void fill(ThreadPool& pool, int64_t count, float value, float* x);
void axpby(ThreadPool& pool, int64_t count, float alpha, const float* x, float beta, float* y);
void add_row(ThreadPool& pool, Extents extents, const float* v, float scale, float* x);
void swiglu_forward(
    ThreadPool& pool, int64_t count, const float* gate, const float* up, float* out);
void swiglu_backward(ThreadPool& pool,
                     int64_t count,
                     const float* d_out,
                     const float* gate,
                     const float* up,
                     float* d_gate,
                     float* d_up);
void adamw(ThreadPool& pool,
           const AdamWStep& step,
           int64_t count,
           float* parameter,
           const float* gradient,
           float* moment1,
           float* moment2);

/// @name reduce.cpp
void column_mean(ThreadPool& pool, Extents extents, const float* x, float* mean);
double sum(ThreadPool& pool, int64_t count, const float* x);
double squared_norm(ThreadPool& pool, int64_t count, const float* x);

/// @name rms_norm.cpp
void rms_norm_forward(ThreadPool& pool,
                      Extents extents,
                      const float* x,
                      const float* weight,
                      float eps,
                      float* y,
                      float* rstd);
void rms_norm_backward(ThreadPool& pool,
                       Extents extents,
                       const float* d_y,
                       const float* x,
                       const float* weight,
                       const float* rstd,
                       float* d_x,
                       Write write,
                       float* d_weight);

/// @name rope.cpp
/// @param table  of shape.theta and shape.head_dim
void rope(ThreadPool& pool,
          const RopeShape& shape,
          const RopeTable& table,
          RopeDirection direction,
          int64_t num_tokens,
          float* x);

/// @name embedding.cpp
/// @throws Error{shape} a token that the table has no row for
void embedding_forward(ThreadPool& pool,
                       int64_t num_tokens,
                       const int32_t* tokens,
                       Extents table_extents,
                       const float* table,
                       float* out);
void embedding_backward(ThreadPool& pool,
                        int64_t num_tokens,
                        const int32_t* tokens,
                        Extents table_extents,
                        const float* d_out,
                        float* d_table);

/// @name cross_entropy.cpp
/// @throws Error{shape} a label past the last logit
void cross_entropy_forward(
    ThreadPool& pool, Extents extents, const float* logits, const int32_t* labels, float* loss);
void cross_entropy_forward_backward(ThreadPool& pool,
                                    Extents extents,
                                    float* logits,
                                    const int32_t* labels,
                                    float scale,
                                    float* loss);

/// @name attention_forward.cpp, attention_backward.cpp
void attention_forward_block(ThreadPool& pool,
                             const AttentionShape& shape,
                             const float* q,
                             const float* k,
                             const float* v,
                             float* out,
                             float* lse);
void attention_backward_prepare(ThreadPool& pool,
                                const AttentionShape& shape,
                                const float* out,
                                const float* d_out,
                                float* delta);
/// Pointers of attention_backward_block; shapes as in backend.hpp.
struct AttentionGradients {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  const float* d_out = nullptr;
  const float* lse = nullptr;
  const float* delta = nullptr;
  float* d_q = nullptr;
  float* d_k = nullptr;
  float* d_v = nullptr;
};
/// Adds to d_q, d_k and d_v.
void attention_backward_block(ThreadPool& pool,
                              const AttentionShape& shape,
                              const AttentionGradients& pointers);

/// @name rotation.cpp
/// Pointers of RotationPlanes and theta.
struct Rotation {
  RotationFunction function = RotationFunction::exact;
  const int32_t* partner = nullptr;
  const float* sign = nullptr;
  const int32_t* generator = nullptr;
  const float* theta = nullptr;
  int64_t num_generators = 0;
};
/// @throws Error{shape}  partners or generators out of range
void check_planes(const Rotation& rotation, int64_t rows);
void rotate_basis_forward(const Rotation& rotation, Extents extents, const float* basis, float* u);
/// @param d_basis  null: skipped
void rotate_basis_backward(const Rotation& rotation,
                           Extents extents,
                           const float* basis,
                           const float* d_u,
                           float* d_basis,
                           float* d_theta);

/// @name rotation_expm.cpp
void rotate_basis_forward_expm(const Rotation& rotation,
                               Extents extents,
                               const float* basis,
                               float* u);
/// @param d_basis  null: skipped
void rotate_basis_backward_expm(const Rotation& rotation,
                                Extents extents,
                                const float* basis,
                                const float* d_u,
                                float* d_basis,
                                float* d_theta);

/// @name frame.cpp
void encode_frame(ThreadPool& pool,
                  FrameFormat format,
                  const FrameRounding& rounding,
                  Extents extents,
                  const float* x,
                  std::byte* bytes);
void decode_frame(ThreadPool& pool,
                  FrameFormat format,
                  Extents extents,
                  const std::byte* bytes,
                  float* x,
                  Write write);

/// @name sparse_frame.cpp
void encode_sparse_frame(ThreadPool& pool,
                         FrameFormat format,
                         int64_t kept,
                         const FrameRounding& rounding,
                         Extents extents,
                         const float* x,
                         std::byte* bytes);
/// @throws Error{shape}  a column beyond the width
void decode_sparse_frame(ThreadPool& pool,
                         FrameFormat format,
                         int64_t kept,
                         Extents extents,
                         const std::byte* bytes,
                         float* x,
                         Write write);

/// @name linear_algebra.cpp
/// @throws Error{backend} no convergence (a NaN in the matrix)
void symmetric_eigen(int64_t n, const float* a, float* eigenvalues, float* eigenvectors);
void orthonormalize(Extents extents, float* y);

}  // namespace subring::cpu
