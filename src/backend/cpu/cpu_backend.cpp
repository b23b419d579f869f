#include "cpu_backend.hpp"

#include <algorithm>
#include <cstring>

#include "checks.hpp"
#include "gemm.hpp"
#include "kernels.hpp"

namespace subring {
namespace cpu {
namespace {

class CpuStream : public Stream {
 public:
  void synchronize() override {}
};

Extents extents_of(const ConstView& x, std::string_view what) {
  const checks::Matrix matrix = checks::as_matrix(x, what);
  return {matrix.rows, matrix.columns};
}

}  // namespace

CpuBackend::CpuBackend(int num_threads) : pool_(num_threads) {}

std::string CpuBackend::description() const {
  return fmt::format("{}, {}, {} thread{}",
                     gemm_description(),
                     simd_description(),
                     pool_.num_threads(),
                     pool_.num_threads() == 1 ? "" : "s");
}

std::unique_ptr<Stream> CpuBackend::make_stream() { return std::make_unique<CpuStream>(); }

void CpuBackend::upload(std::span<const std::byte> host, View device, Stream&) {
  SUBRING_CHECK(static_cast<int64_t>(host.size()) == device.num_bytes(),
                ErrorKind::shape,
                "upload of {} bytes to {}",
                host.size(),
                device.shape.to_string());
  if (!host.empty()) std::memcpy(device.data, host.data(), host.size());
}

void CpuBackend::download(ConstView device, std::span<std::byte> host, Stream&) {
  SUBRING_CHECK(static_cast<int64_t>(host.size()) == device.num_bytes(),
                ErrorKind::shape,
                "download of {} to {} bytes",
                device.shape.to_string(),
                host.size());
  if (!host.empty()) std::memcpy(host.data(), device.data, host.size());
}

void CpuBackend::copy(ConstView from, View to, Stream&) {
  checks::require_dtype(from, to.dtype, "copy");
  checks::require_elements(from, to.num_elements(), "copy");
  if (!to.empty()) std::memcpy(to.data, from.data, static_cast<size_t>(to.num_bytes()));
}

void CpuBackend::fill(View x, float value, Stream&) {
  cpu::fill(pool_, x.num_elements(), value, x.f32());
}

void CpuBackend::matmul(ConstView a,
                        Transpose transpose_a,
                        ConstView b,
                        Transpose transpose_b,
                        View c,
                        Write write,
                        Stream&) {
  const checks::Product product = checks::matmul(a, transpose_a, b, transpose_b, c);
  parallel_gemm(pool_,
                {product.rows, product.columns, product.inner},
                {a.f32(), product.a_stride, transpose_a},
                {b.f32(), product.b_stride, transpose_b},
                c.f32(),
                product.columns,
                write);
}

void CpuBackend::axpby(float alpha, ConstView x, float beta, View y, Stream&) {
  checks::require_elements(x, y.num_elements(), "axpby");
  cpu::axpby(pool_, y.num_elements(), alpha, x.f32(), beta, y.f32());
}

void CpuBackend::column_mean(ConstView x, View mean, Stream&) {
  const Extents extents = extents_of(x, "column_mean x");
  checks::require_elements(mean, extents.columns, "column_mean mean");
  cpu::column_mean(pool_, extents, x.f32(), mean.f32());
}

void CpuBackend::add_row(ConstView v, float scale, View x, Stream&) {
  const Extents extents = extents_of(x, "add_row x");
  checks::require_elements(v, extents.columns, "add_row v");
  cpu::add_row(pool_, extents, v.f32(), scale, x.f32());
}

double CpuBackend::sum(ConstView x, Stream&) { return cpu::sum(pool_, x.num_elements(), x.f32()); }

double CpuBackend::squared_norm(ConstView x, Stream&) {
  return cpu::squared_norm(pool_, x.num_elements(), x.f32());
}

void CpuBackend::symmetric_eigen(ConstView a, View eigenvalues, View eigenvectors, Stream&) {
  const int64_t n = extents_of(a, "symmetric_eigen a").rows;
  checks::require_matrix(a, n, n, "symmetric_eigen a");
  checks::require_elements(eigenvalues, n, "symmetric_eigen eigenvalues");
  checks::require_matrix(eigenvectors, n, n, "symmetric_eigen eigenvectors");
  cpu::symmetric_eigen(n, a.f32(), eigenvalues.f32(), eigenvectors.f32());
}

void CpuBackend::orthonormalize(View y, Stream&) {
  const Extents extents = extents_of(y, "orthonormalize y");
  SUBRING_CHECK(extents.rows >= extents.columns,
                ErrorKind::shape,
                "orthonormalize {}: more columns than rows",
                y.shape.to_string());
  cpu::orthonormalize(extents, y.f32());
}

void CpuBackend::rms_norm_forward(
    ConstView x, ConstView weight, float eps, View y, View rstd, Stream&) {
  const Extents extents = extents_of(x, "rms_norm x");
  checks::require_same(x, y, "rms_norm x, y");
  checks::require_elements(weight, extents.columns, "rms_norm weight");
  checks::require_elements(rstd, extents.rows, "rms_norm rstd");
  cpu::rms_norm_forward(pool_, extents, x.f32(), weight.f32(), eps, y.f32(), rstd.f32());
}

void CpuBackend::rms_norm_backward(ConstView d_y,
                                   ConstView x,
                                   ConstView weight,
                                   ConstView rstd,
                                   View d_x,
                                   Write write,
                                   View d_weight,
                                   Stream&) {
  const Extents extents = extents_of(x, "rms_norm x");
  checks::require_same(x, d_y, "rms_norm x, d_y");
  checks::require_same(x, d_x, "rms_norm x, d_x");
  checks::require_elements(weight, extents.columns, "rms_norm weight");
  checks::require_elements(d_weight, extents.columns, "rms_norm d_weight");
  checks::require_elements(rstd, extents.rows, "rms_norm rstd");
  cpu::rms_norm_backward(pool_,
                         extents,
                         d_y.f32(),
                         x.f32(),
                         weight.f32(),
                         rstd.f32(),
                         d_x.f32(),
                         write,
                         d_weight.f32());
}

const RopeTable& CpuBackend::rope_table(const RopeShape& shape) {
  for (const RopeTable& table : rope_tables_) {
    if (table.theta == shape.theta && table.head_dim == shape.head_dim) return table;
  }
  return rope_tables_.emplace_back(shape.theta, shape.head_dim);
}

void CpuBackend::rope(const RopeShape& shape, RopeDirection direction, View x, Stream&) {
  checks::rope(shape, x);
  cpu::rope(pool_, shape, rope_table(shape), direction, x.shape[0], x.f32());
}

void CpuBackend::swiglu_forward(ConstView gate, ConstView up, View out, Stream&) {
  checks::require_same(gate, up, "swiglu gate, up");
  checks::require_same(gate, out, "swiglu gate, out");
  cpu::swiglu_forward(pool_, out.num_elements(), gate.f32(), up.f32(), out.f32());
}

void CpuBackend::swiglu_backward(
    ConstView d_out, ConstView gate, ConstView up, View d_gate, View d_up, Stream&) {
  checks::require_same(gate, up, "swiglu gate, up");
  checks::require_same(gate, d_out, "swiglu gate, d_out");
  checks::require_same(gate, d_gate, "swiglu gate, d_gate");
  checks::require_same(gate, d_up, "swiglu gate, d_up");
  cpu::swiglu_backward(
      pool_, gate.num_elements(), d_out.f32(), gate.f32(), up.f32(), d_gate.f32(), d_up.f32());
}

void CpuBackend::embedding_forward(ConstView tokens, ConstView table, View out, Stream&) {
  const Extents extents = extents_of(table, "embedding table");
  checks::require_matrix(out, tokens.num_elements(), extents.columns, "embedding out");
  cpu::embedding_forward(
      pool_, tokens.num_elements(), tokens.i32(), extents, table.f32(), out.f32());
}

void CpuBackend::embedding_backward(ConstView tokens, ConstView d_out, View d_table, Stream&) {
  const Extents extents = extents_of(d_table, "embedding d_table");
  checks::require_matrix(d_out, tokens.num_elements(), extents.columns, "embedding d_out");
  cpu::embedding_backward(
      pool_, tokens.num_elements(), tokens.i32(), extents, d_out.f32(), d_table.f32());
}

void CpuBackend::cross_entropy_forward(ConstView logits, ConstView labels, View loss, Stream&) {
  const Extents extents = extents_of(logits, "cross_entropy logits");
  checks::require_elements(labels, extents.rows, "cross_entropy labels");
  checks::require_elements(loss, extents.rows, "cross_entropy loss");
  cpu::cross_entropy_forward(pool_, extents, logits.f32(), labels.i32(), loss.f32());
}

void CpuBackend::cross_entropy_forward_backward(
    View logits, ConstView labels, float scale, View loss, Stream&) {
  const Extents extents = extents_of(logits, "cross_entropy logits");
  checks::require_elements(labels, extents.rows, "cross_entropy labels");
  checks::require_elements(loss, extents.rows, "cross_entropy loss");
  cpu::cross_entropy_forward_backward(
      pool_, extents, logits.f32(), labels.i32(), scale, loss.f32());
}

void CpuBackend::attention_forward_block(const AttentionShape& shape,
                                         ConstView q,
                                         ConstView k,
                                         ConstView v,
                                         View out,
                                         View lse,
                                         Stream&) {
  checks::attention_shape(shape);
  checks::attention_queries(shape, q, "attention q");
  checks::attention_keys(shape, k, "attention k");
  checks::attention_keys(shape, v, "attention v");
  checks::attention_queries(shape, out, "attention out");
  checks::attention_rows(shape, lse, "attention lse");
  cpu::attention_forward_block(pool_, shape, q.f32(), k.f32(), v.f32(), out.f32(), lse.f32());
}

void CpuBackend::attention_backward_prepare(
    const AttentionShape& shape, ConstView out, ConstView d_out, View delta, Stream&) {
  checks::attention_shape(shape);
  checks::attention_queries(shape, out, "attention out");
  checks::attention_queries(shape, d_out, "attention d_out");
  checks::attention_rows(shape, delta, "attention delta");
  cpu::attention_backward_prepare(pool_, shape, out.f32(), d_out.f32(), delta.f32());
}

void CpuBackend::attention_backward_block(const AttentionShape& shape,
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
                                          Stream&) {
  checks::attention_shape(shape);
  checks::attention_queries(shape, q, "attention q");
  checks::attention_keys(shape, k, "attention k");
  checks::attention_keys(shape, v, "attention v");
  checks::attention_queries(shape, d_out, "attention d_out");
  checks::attention_rows(shape, lse, "attention lse");
  checks::attention_rows(shape, delta, "attention delta");
  checks::attention_queries(shape, d_q, "attention d_q");
  checks::attention_keys(shape, d_k, "attention d_k");
  checks::attention_keys(shape, d_v, "attention d_v");
  if (write == Write::overwrite) {
    cpu::fill(pool_, d_k.num_elements(), 0, d_k.f32());
    cpu::fill(pool_, d_v.num_elements(), 0, d_v.f32());
  }
  cpu::attention_backward_block(pool_,
                                shape,
                                {q.f32(),
                                 k.f32(),
                                 v.f32(),
                                 d_out.f32(),
                                 lse.f32(),
                                 delta.f32(),
                                 d_q.f32(),
                                 d_k.f32(),
                                 d_v.f32()});
}

namespace {

Rotation rotation_of(const RotationPlanes& planes, const ConstView& theta) {
  return {planes.function,
          planes.partner.i32(),
          planes.sign.f32(),
          planes.generator.i32(),
          theta.f32(),
          theta.num_elements()};
}

}  // namespace

void CpuBackend::rotate_basis_forward(
    const RotationPlanes& planes, ConstView basis, ConstView theta, View u, Stream&) {
  checks::rotation(planes, basis, theta);
  checks::require_same(basis, u, "rotation basis, u");
  const bool dense = planes.function == RotationFunction::expm;
  (dense ? cpu::rotate_basis_forward_expm : cpu::rotate_basis_forward)(
      rotation_of(planes, theta), extents_of(basis, "basis"), basis.f32(), u.f32());
}

void CpuBackend::rotate_basis_backward(const RotationPlanes& planes,
                                       ConstView basis,
                                       ConstView theta,
                                       ConstView d_u,
                                       View d_basis,
                                       View d_theta,
                                       Stream&) {
  checks::rotation(planes, basis, theta);
  checks::require_same(basis, d_u, "rotation basis, d_u");
  if (!d_basis.empty()) checks::require_same(basis, d_basis, "rotation basis, d_basis");
  checks::require_elements(d_theta, theta.num_elements(), "rotation d_theta");
  const bool dense = planes.function == RotationFunction::expm;
  (dense ? cpu::rotate_basis_backward_expm : cpu::rotate_basis_backward)(
      rotation_of(planes, theta),
      extents_of(basis, "basis"),
      basis.f32(),
      d_u.f32(),
      d_basis.empty() ? nullptr : d_basis.f32(),
      d_theta.f32());
}

void CpuBackend::encode_frame(
    FrameFormat format, const FrameRounding& rounding, ConstView x, View bytes, Stream&) {
  checks::frame(format, x, bytes);
  cpu::encode_frame(pool_,
                    format,
                    rounding,
                    extents_of(x, "frame x"),
                    x.f32(),
                    static_cast<std::byte*>(bytes.data));
}

void CpuBackend::decode_frame(FrameFormat format, ConstView bytes, View x, Write write, Stream&) {
  checks::frame(format, x, bytes);
  cpu::decode_frame(pool_,
                    format,
                    extents_of(x, "frame x"),
                    static_cast<const std::byte*>(bytes.data),
                    x.f32(),
                    write);
}

void CpuBackend::encode_sparse_frame(FrameFormat format,
                                     int64_t kept,
                                     const FrameRounding& rounding,
                                     ConstView x,
                                     View bytes,
                                     Stream&) {
  checks::sparse_frame(format, kept, x, bytes);
  cpu::encode_sparse_frame(pool_,
                           format,
                           kept,
                           rounding,
                           extents_of(x, "sparse frame x"),
                           x.f32(),
                           static_cast<std::byte*>(bytes.data));
}

void CpuBackend::decode_sparse_frame(
    FrameFormat format, int64_t kept, ConstView bytes, View x, Write write, Stream&) {
  checks::sparse_frame(format, kept, x, bytes);
  cpu::decode_sparse_frame(pool_,
                           format,
                           kept,
                           extents_of(x, "sparse frame x"),
                           static_cast<const std::byte*>(bytes.data),
                           x.f32(),
                           write);
}

void CpuBackend::adamw(const AdamWStep& step,
                       View parameter,
                       ConstView gradient,
                       View moment1,
                       View moment2,
                       Stream&) {
  checks::require_same(parameter, gradient, "adamw parameter, gradient");
  checks::require_same(parameter, moment1, "adamw parameter, moment1");
  checks::require_same(parameter, moment2, "adamw parameter, moment2");
  SUBRING_CHECK(step.step >= 1, ErrorKind::shape, "adamw step {} counts from 1", step.step);
  cpu::adamw(pool_,
             step,
             parameter.num_elements(),
             parameter.f32(),
             gradient.f32(),
             moment1.f32(),
             moment2.f32());
}

}  // namespace cpu

std::unique_ptr<Backend> make_backend(const BackendOptions& options, int num_local_ranks) {
  const int share = std::max(1, available_cores() / std::max(1, num_local_ranks));
  const int num_threads = options.threads > 0 ? static_cast<int>(options.threads) : share;
  return std::make_unique<cpu::CpuBackend>(num_threads);
}

}  // namespace subring
