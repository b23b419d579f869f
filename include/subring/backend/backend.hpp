#pragma once

#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>

#include "subring/backend/options.hpp"
#include "subring/backend/shapes.hpp"
#include "subring/core/trace.hpp"
#include "subring/core/view.hpp"

namespace subring {

/// Queue of work on a device. On the CPU work is done at once and synchronize() is empty.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Returns when all queued work has ended. @throws Error{backend}
  virtual void synchronize() = 0;

  /// Where what this stream does is to be recorded; nullptr: nowhere.
  void set_trace(Trace* trace) { trace_ = trace; }
  Trace* trace() const { return trace_; }

 private:
  Trace* trace_ = nullptr;
};

/// The narrow interface between subring and a device: memory, streams and operations.
///
/// `cpu/` defines the meaning of every operation. Unless said otherwise: views are contiguous, f32,
/// in this backend's memory, and do not overlap; work is queued on `stream`; nothing is allocated.
/// Extents are checked before anything is queued. @throws Error{shape} extents or dtypes disagree.
/// Letters of shapes are those of docs/shapes.md: n tokens, d width, H heads, D head size, r rank.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  /// One line for `subring info`: library, instruction set, threads.
  virtual std::string description() const = 0;
  virtual std::pmr::memory_resource& memory() = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  /// `poll` is called on the caller's thread now and then while an operation computes there, so
  /// that transfers proceed meanwhile (ThreadPool::set_poll). A device whose work is only queued
  /// need not call it. Empty: none. It must not call operations of this backend.
  virtual void set_poll(std::function<void()> poll) = 0;

  /// @name Copies
  /// Between host and backend memory; return when `host` may be reused.
  virtual void upload(std::span<const std::byte> host, View device, Stream& stream) = 0;
  virtual void download(ConstView device, std::span<std::byte> host, Stream& stream) = 0;
  virtual void copy(ConstView from, View to, Stream& stream) = 0;
  virtual void fill(View x, float value, Stream& stream) = 0;

  /// @name Linear algebra
  /// c = op(a) op(b) (+ c). a, b, c are matrices: [rows, columns], a 3-D view counts as
  /// [first axis, all others]. Cost: 2 M N K flops.
  virtual void matmul(ConstView a,
                      Transpose transpose_a,
                      ConstView b,
                      Transpose transpose_b,
                      View c,
                      Write write,
                      Stream& stream) = 0;
  /// y = alpha x + beta y, element by element; beta = 0 does not read y.
  virtual void axpby(float alpha, ConstView x, float beta, View y, Stream& stream) = 0;
  /// mean [d] = mean over the rows of x [n, d].
  virtual void column_mean(ConstView x, View mean, Stream& stream) = 0;
  /// x[i, :] += scale v for every row i of x [n, d]; v [d].
  virtual void add_row(ConstView v, float scale, View x, Stream& stream) = 0;
  /// Reductions in double precision, in a fixed order; wait for the stream.
  virtual double sum(ConstView x, Stream& stream) = 0;
  virtual double squared_norm(ConstView x, Stream& stream) = 0;
  /// Eigenvalues [n], largest first, and eigenvectors [n, n], one a column, of symmetric a [n, n].
  /// The sign of each vector makes its largest component positive. Cost: O(n^3), on the host.
  virtual void symmetric_eigen(ConstView a,
                               View eigenvalues,
                               View eigenvectors,
                               Stream& stream) = 0;
  /// y [n, r] (n >= r) = the Q of its QR decomposition with positive diagonal of R: the retraction
  /// onto matrices with orthonormal columns. Cost: O(n r^2).
  virtual void orthonormalize(View y, Stream& stream) = 0;

  /// @name Transformer operations
  /// y = x / rms(x) * weight; x, y [n, d], weight [d], rstd [n] = 1 / sqrt(mean(x^2) + eps).
  virtual void rms_norm_forward(
      ConstView x, ConstView weight, float eps, View y, View rstd, Stream& stream) = 0;
  /// d_x [n, d] per `write`; d_weight [d] is accumulated.
  virtual void rms_norm_backward(ConstView d_y,
                                 ConstView x,
                                 ConstView weight,
                                 ConstView rstd,
                                 View d_x,
                                 Write write,
                                 View d_weight,
                                 Stream& stream) = 0;
  /// Rotates pairs (i, i + D/2) of every head by position * theta^(-2i/D), in place; x [n, H * D].
  /// `backward` rotates the other way (the transpose). Source: arXiv:2104.09864, pairing of
  /// Hugging Face's Llama. Angles are formed in double precision.
  virtual void rope(const RopeShape& shape, RopeDirection direction, View x, Stream& stream) = 0;
  /// out = silu(gate) * up; all [n, f].
  virtual void swiglu_forward(ConstView gate, ConstView up, View out, Stream& stream) = 0;
  virtual void swiglu_backward(
      ConstView d_out, ConstView gate, ConstView up, View d_gate, View d_up, Stream& stream) = 0;
  /// out[i, :] = table[tokens[i], :]; tokens [n] i32, table [V, d], out [n, d].
  virtual void embedding_forward(ConstView tokens, ConstView table, View out, Stream& stream) = 0;
  /// d_table[tokens[i], :] += d_out[i, :], in the order of i.
  virtual void embedding_backward(ConstView tokens,
                                  ConstView d_out,
                                  View d_table,
                                  Stream& stream) = 0;
  /// loss[i] = logsumexp(logits[i, :]) - logits[i, labels[i]], 0 where labels[i] < 0; natural log.
  /// logits [n, V], labels [n] i32, loss [n].
  virtual void cross_entropy_forward(ConstView logits,
                                     ConstView labels,
                                     View loss,
                                     Stream& stream) = 0;
  /// Same loss; logits are replaced by d_logits = scale (softmax - onehot), 0 where labels[i] < 0.
  virtual void cross_entropy_forward_backward(
      View logits, ConstView labels, float scale, View loss, Stream& stream) = 0;

  /// @name Attention
  /// Folds one visiting key/value block into a running softmax; block order changes only rounding.
  /// Keys after a query's global position are masked; a row that sees no key is left as it is.
  /// @param q    [n, Hq * D];  @param k, v  [s, Hkv * D], RoPE already applied to q and k
  /// @param out  [n, Hq * D] read-write, normalised by lse
  /// @param lse  [Hq, n] read-write, natural log; -inf = nothing yet
  /// Cost: 4 Hq n s D flops, half of it where the diagonal cuts the block.
  /// Source: arXiv:1805.02867 (online softmax), arXiv:2310.01889 (ring attention).
  virtual void attention_forward_block(const AttentionShape& shape,
                                       ConstView q,
                                       ConstView k,
                                       ConstView v,
                                       View out,
                                       View lse,
                                       Stream& stream) = 0;
  /// delta [Hq, n] = row sums of d_out * out, per head; both [n, Hq * D].
  virtual void attention_backward_prepare(
      const AttentionShape& shape, ConstView out, ConstView d_out, View delta, Stream& stream) = 0;
  /// Gradients of one block, with lse and delta of the whole row. d_q is accumulated, d_k and d_v
  /// per `write`. Cost: 10 Hq n s D flops, half of it on the diagonal.
  virtual void attention_backward_block(const AttentionShape& shape,
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
                                        Stream& stream) = 0;

  /// @name Subspaces (method.md section 2)
  /// u = R(theta) basis. Row p of the basis is paired with row partner[p] into a plane of generator
  /// generator[p]: (A x)_p = sign[p] x_partner[p], A^2 = -1 there. With theta of that generator,
  ///   u_p = (1 - f2) basis_p + f1 sign[p] basis_partner[p],
  /// taylor2: f1 = theta, f2 = theta^2 / 2;  exact: f1 = sin(theta), f2 = 1 - cos(theta).
  /// expm: the reference, R = exp(sum_g theta_g A_g) as a dense matrix: equals exact at O(d_kv^3).
  /// basis, u [d_kv, r]; theta [k].
  virtual void rotate_basis_forward(
      const RotationPlanes& planes, ConstView basis, ConstView theta, View u, Stream& stream) = 0;
  /// d_basis += R(theta)^T d_u (skipped when d_basis is empty); d_theta[g] += <dU/dtheta_g, d_u>.
  virtual void rotate_basis_backward(const RotationPlanes& planes,
                                     ConstView basis,
                                     ConstView theta,
                                     ConstView d_u,
                                     View d_basis,
                                     View d_theta,
                                     Stream& stream) = 0;

  /// @name Frames (docs/numerics.md): a matrix as bytes for the wire
  /// bytes [frame_bytes(format, n, r)] u8 = x [n, r]. Per-token scales are powers of 2^(1/4), one
  /// byte each. In int8 and int4 a row with a value that is not finite, or too
  /// large, decodes to NaN.
  virtual void encode_frame(FrameFormat format,
                            const FrameRounding& rounding,
                            ConstView x,
                            View bytes,
                            Stream& stream) = 0;
  /// x [n, r] (+)= the frame's content.
  virtual void decode_frame(
      FrameFormat format, ConstView bytes, View x, Write write, Stream& stream) = 0;
  /// bytes [sparse_frame_bytes(format, n, kept)] u8 = the `kept` largest magnitudes of each row of
  /// x [n, r], r up to 65536: columns ascending, of equal magnitudes the first; NaN counts as
  /// largest. Cost: about 33 passes over x in cache.
  virtual void encode_sparse_frame(FrameFormat format,
                                   int64_t kept,
                                   const FrameRounding& rounding,
                                   ConstView x,
                                   View bytes,
                                   Stream& stream) = 0;
  /// x [n, r] (+)= the frame's content, zero where nothing was kept. @throws Error{shape}  a column
  /// of the frame beyond r
  virtual void decode_sparse_frame(
      FrameFormat format, int64_t kept, ConstView bytes, View x, Write write, Stream& stream) = 0;

  /// @name Optimizer
  /// AdamW with bias correction; all views have the same extents; arXiv:1711.05101, algorithm 2.
  virtual void adamw(const AdamWStep& step,
                     View parameter,
                     ConstView gradient,
                     View moment1,
                     View moment2,
                     Stream& stream) = 0;
};

/// @param options  which backend and how many threads. @param num_local_ranks  ranks of this host
/// @throws Error{backend}
std::unique_ptr<Backend> make_backend(const BackendOptions& options, int num_local_ranks);

}  // namespace subring
