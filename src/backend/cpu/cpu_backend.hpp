#pragma once

#include <list>

#include "rope_table.hpp"
#include "subring/backend/backend.hpp"
#include "subring/core/threads.hpp"

namespace subring::cpu {

/// Defines the meaning of every operation. Not shared: one instance per rank, used by one thread at
/// a time; any number of instances may live in a process.
class CpuBackend : public Backend {
 public:
  /// @param num_threads  >= 1, the caller included
  explicit CpuBackend(int num_threads);

  std::string_view name() const override { return "cpu"; }
  std::string description() const override;
  std::pmr::memory_resource& memory() override { return *std::pmr::new_delete_resource(); }
  std::unique_ptr<Stream> make_stream() override;
  void set_poll(std::function<void()> poll) override { pool_.set_poll(std::move(poll)); }

  void upload(std::span<const std::byte> host, View device, Stream& stream) override;
  void download(ConstView device, std::span<std::byte> host, Stream& stream) override;
  void copy(ConstView from, View to, Stream& stream) override;
  void fill(View x, float value, Stream& stream) override;

  void matmul(ConstView a,
              Transpose transpose_a,
              ConstView b,
              Transpose transpose_b,
              View c,
              Write write,
              Stream& stream) override;
  void axpby(float alpha, ConstView x, float beta, View y, Stream& stream) override;
  void column_mean(ConstView x, View mean, Stream& stream) override;
  void add_row(ConstView v, float scale, View x, Stream& stream) override;
  double sum(ConstView x, Stream& stream) override;
  double squared_norm(ConstView x, Stream& stream) override;
  void symmetric_eigen(ConstView a, View eigenvalues, View eigenvectors, Stream& stream) override;
  void orthonormalize(View y, Stream& stream) override;

  void rms_norm_forward(
      ConstView x, ConstView weight, float eps, View y, View rstd, Stream& stream) override;
  void rms_norm_backward(ConstView d_y,
                         ConstView x,
                         ConstView weight,
                         ConstView rstd,
                         View d_x,
                         Write write,
                         View d_weight,
                         Stream& stream) override;
  void rope(const RopeShape& shape, RopeDirection direction, View x, Stream& stream) override;
  void swiglu_forward(ConstView gate, ConstView up, View out, Stream& stream) override;
  void swiglu_backward(ConstView d_out,
                       ConstView gate,
                       ConstView up,
                       View d_gate,
                       View d_up,
                       Stream& stream) override;
  void embedding_forward(ConstView tokens, ConstView table, View out, Stream& stream) override;
  void embedding_backward(ConstView tokens, ConstView d_out, View d_table, Stream& stream) override;
  void cross_entropy_forward(ConstView logits,
                             ConstView labels,
                             View loss,
                             Stream& stream) override;
  void cross_entropy_forward_backward(
      View logits, ConstView labels, float scale, View loss, Stream& stream) override;

  void attention_forward_block(const AttentionShape& shape,
                               ConstView q,
                               ConstView k,
                               ConstView v,
                               View out,
                               View lse,
                               Stream& stream) override;
  void attention_backward_prepare(const AttentionShape& shape,
                                  ConstView out,
                                  ConstView d_out,
                                  View delta,
                                  Stream& stream) override;
  void attention_backward_block(const AttentionShape& shape,
                                ConstView q,
                                ConstView k,
                                ConstView v,
                                ConstView d_out,
                                ConstView lse,
                                ConstView delta,
                                View d_q,
                                View d_k,
                                View d_v,
                                Write write,
                                Stream& stream) override;

  void rotate_basis_forward(const RotationPlanes& planes,
                            ConstView basis,
                            ConstView theta,
                            View u,
                            Stream& stream) override;
  void rotate_basis_backward(const RotationPlanes& planes,
                             ConstView basis,
                             ConstView theta,
                             ConstView d_u,
                             View d_basis,
                             View d_theta,
                             Stream& stream) override;

  void encode_frame(FrameFormat format,
                    const FrameRounding& rounding,
                    ConstView x,
                    View bytes,
                    Stream& stream) override;
  void decode_frame(
      FrameFormat format, ConstView bytes, View x, Write write, Stream& stream) override;
  void encode_sparse_frame(FrameFormat format,
                           int64_t kept,
                           const FrameRounding& rounding,
                           ConstView x,
                           View bytes,
                           Stream& stream) override;
  void decode_sparse_frame(FrameFormat format,
                           int64_t kept,
                           ConstView bytes,
                           View x,
                           Write write,
                           Stream& stream) override;

  void adamw(const AdamWStep& step,
             View parameter,
             ConstView gradient,
             View moment1,
             View moment2,
             Stream& stream) override;

 private:
  const RopeTable& rope_table(const RopeShape& shape);

  ThreadPool pool_;
  std::list<RopeTable> rope_tables_;  // one per (theta, head_dim) seen: in practice one
};

}  // namespace subring::cpu
