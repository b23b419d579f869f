#include "cost_backend.hpp"

#include <fmt/format.h>

namespace subring::report {
namespace {

class CostStream : public Stream {
 public:
  void synchronize() override {}
};

class CostBackend final : public Backend {
 public:
  CostBackend(OperationCosts& costs, VirtualRank& rank) : costs_(costs), rank_(rank) {}

  std::string_view name() const override { return "cost"; }
  std::string description() const override { return "counts seconds"; }
  std::pmr::memory_resource& memory() override { return costs_.memory(); }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CostStream>(); }
  void set_poll(std::function<void()> poll) override { rank_.set_poll(std::move(poll)); }

  // Tokens, labels and planes: small, and indices that timed operations need.
  void upload(std::span<const std::byte> host, View device, Stream& stream) override {
    if (costs_.real() != nullptr) costs_.real()->upload(host, device, stream);
  }
  void download(ConstView, std::span<std::byte>, Stream&) override {}
  void copy(ConstView from, View to, Stream&) override {
    charge("copy", 0, {from, to}, [=](Backend& b, Stream& s) { b.copy(from, to, s); });
  }
  void fill(View x, float value, Stream&) override {
    charge("fill", 0, {x}, [=](Backend& b, Stream& s) { b.fill(x, value, s); });
  }

  void matmul(ConstView a,
              Transpose transpose_a,
              ConstView b,
              Transpose transpose_b,
              View c,
              Write write,
              Stream&) override {
    const auto rows_of_a = static_cast<double>(a.shape[0]);
    const auto size_of_a = static_cast<double>(a.num_elements());
    const double rows = transpose_a == Transpose::no ? rows_of_a : size_of_a / rows_of_a;
    const double flops = 2 * size_of_a * static_cast<double>(c.num_elements()) / rows;
    charge(fmt::format("matmul {} {} {}",
                       static_cast<int>(transpose_a),
                       static_cast<int>(transpose_b),
                       static_cast<int>(write)),
           flops,
           {a, b, c},
           [=](Backend& on, Stream& s) { on.matmul(a, transpose_a, b, transpose_b, c, write, s); });
  }
  void axpby(float alpha, ConstView x, float beta, View y, Stream&) override {
    charge(fmt::format("axpby {}", beta == 0), 0, {x, y}, [=](Backend& b, Stream& s) {
      b.axpby(alpha, x, beta, y, s);
    });
  }
  void column_mean(ConstView x, View mean, Stream&) override {
    charge("column_mean", 0, {x, mean}, [=](Backend& b, Stream& s) { b.column_mean(x, mean, s); });
  }
  void add_row(ConstView v, float scale, View x, Stream&) override {
    charge("add_row", 0, {v, x}, [=](Backend& b, Stream& s) { b.add_row(v, scale, x, s); });
  }
  double sum(ConstView x, Stream&) override {
    charge("sum", 0, {x}, [=](Backend& b, Stream& s) { b.sum(x, s); });
    return 0;
  }
  double squared_norm(ConstView x, Stream&) override {
    charge("squared_norm", 0, {x}, [=](Backend& b, Stream& s) { b.squared_norm(x, s); });
    return 0;
  }
  void symmetric_eigen(ConstView, View, View, Stream&) override {}  // in no step of a plan
  void orthonormalize(View y, Stream&) override {
    const auto width = static_cast<double>(y.shape[1]);
    charge("orthonormalize",
           4 * static_cast<double>(y.num_elements()) * width,
           {y},
           [=](Backend& b, Stream& s) { b.orthonormalize(y, s); });
  }

  void rms_norm_forward(
      ConstView x, ConstView weight, float eps, View y, View rstd, Stream&) override {
    charge("rms_norm_forward", 0, {x, y}, [=](Backend& b, Stream& s) {
      b.rms_norm_forward(x, weight, eps, y, rstd, s);
    });
  }
  void rms_norm_backward(ConstView d_y,
                         ConstView x,
                         ConstView weight,
                         ConstView rstd,
                         View d_x,
                         Write write,
                         View d_weight,
                         Stream&) override {
    charge("rms_norm_backward", 0, {d_y, x, d_x}, [=](Backend& b, Stream& s) {
      b.rms_norm_backward(d_y, x, weight, rstd, d_x, write, d_weight, s);
    });
  }
  void rope(const RopeShape& shape, RopeDirection direction, View x, Stream&) override {
    charge(fmt::format("rope {}", shape.head_dim), 0, {x}, [=](Backend& b, Stream& s) {
      b.rope(shape, direction, x, s);
    });
  }
  void swiglu_forward(ConstView gate, ConstView up, View out, Stream&) override {
    charge("swiglu_forward", 0, {gate, up, out}, [=](Backend& b, Stream& s) {
      b.swiglu_forward(gate, up, out, s);
    });
  }
  void swiglu_backward(
      ConstView d_out, ConstView gate, ConstView up, View d_gate, View d_up, Stream&) override {
    charge("swiglu_backward", 0, {d_out, gate, up, d_gate, d_up}, [=](Backend& b, Stream& s) {
      b.swiglu_backward(d_out, gate, up, d_gate, d_up, s);
    });
  }
  void embedding_forward(ConstView tokens, ConstView table, View out, Stream&) override {
    charge("embedding_forward", 0, {out}, [=](Backend& b, Stream& s) {
      b.embedding_forward(tokens, table, out, s);
    });
  }
  void embedding_backward(ConstView tokens, ConstView d_out, View d_table, Stream&) override {
    charge("embedding_backward", 0, {d_out}, [=](Backend& b, Stream& s) {
      b.embedding_backward(tokens, d_out, d_table, s);
    });
  }
  void cross_entropy_forward(ConstView logits, ConstView labels, View loss, Stream&) override {
    charge("cross_entropy_forward", 0, {logits}, [=](Backend& b, Stream& s) {
      b.cross_entropy_forward(logits, labels, loss, s);
    });
  }
  void cross_entropy_forward_backward(
      View logits, ConstView labels, float scale, View loss, Stream&) override {
    charge("cross_entropy_forward_backward", 0, {logits, logits}, [=](Backend& b, Stream& s) {
      b.cross_entropy_forward_backward(logits, labels, scale, loss, s);
    });
  }

  void attention_forward_block(const AttentionShape& shape,
                               ConstView q,
                               ConstView k,
                               ConstView v,
                               View out,
                               View lse,
                               Stream&) override {
    charge(attention_name("forward", shape),
           4 * attention_products(shape),
           {q, k, v, out},
           [=](Backend& b, Stream& s) { b.attention_forward_block(shape, q, k, v, out, lse, s); });
  }
  void attention_backward_prepare(
      const AttentionShape& shape, ConstView out, ConstView d_out, View delta, Stream&) override {
    charge("attention_backward_prepare", 0, {out, d_out}, [=](Backend& b, Stream& s) {
      b.attention_backward_prepare(shape, out, d_out, delta, s);
    });
  }
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
                                Stream&) override {
    charge(attention_name("backward", shape),
           10 * attention_products(shape),
           {q, k, v, d_out, d_q, d_k, d_v},
           [=](Backend& b, Stream& s) {
             b.attention_backward_block(shape, q, k, v, d_out, lse, delta, d_q, d_k, d_v, write, s);
           });
  }

  void rotate_basis_forward(
      const RotationPlanes& planes, ConstView basis, ConstView theta, View u, Stream&) override {
    charge(rotation_name("forward", planes), 0, {basis, theta, u}, [=](Backend& b, Stream& s) {
      b.rotate_basis_forward(planes, basis, theta, u, s);
    });
  }
  void rotate_basis_backward(const RotationPlanes& planes,
                             ConstView basis,
                             ConstView theta,
                             ConstView d_u,
                             View d_basis,
                             View d_theta,
                             Stream&) override {
    charge(rotation_name("backward", planes),
           0,
           {basis, theta, d_u, d_basis},
           [=](Backend& b, Stream& s) {
             b.rotate_basis_backward(planes, basis, theta, d_u, d_basis, d_theta, s);
           });
  }

  void encode_frame(FrameFormat format,
                    const FrameRounding& rounding,
                    ConstView x,
                    View bytes,
                    Stream&) override {
    charge(fmt::format("encode_frame {} {}", to_string(format), static_cast<int>(rounding.mode)),
           0,
           {x, bytes},
           [=](Backend& b, Stream& s) { b.encode_frame(format, rounding, x, bytes, s); });
  }
  void decode_frame(FrameFormat format, ConstView bytes, View x, Write write, Stream&) override {
    charge(fmt::format("decode_frame {} {}", to_string(format), static_cast<int>(write)),
           0,
           {bytes, x},
           [=](Backend& b, Stream& s) { b.decode_frame(format, bytes, x, write, s); });
  }
  void encode_sparse_frame(FrameFormat format,
                           int64_t kept,
                           const FrameRounding& rounding,
                           ConstView x,
                           View bytes,
                           Stream&) override {
    charge(
        fmt::format("encode_sparse_frame {} {}", to_string(format), kept),
        0,
        {x, bytes},
        [=](Backend& b, Stream& s) { b.encode_sparse_frame(format, kept, rounding, x, bytes, s); });
  }
  void decode_sparse_frame(
      FrameFormat format, int64_t kept, ConstView bytes, View x, Write write, Stream&) override {
    charge(fmt::format("decode_sparse_frame {} {}", to_string(format), kept),
           0,
           {bytes, x},
           [=](Backend& b, Stream& s) { b.decode_sparse_frame(format, kept, bytes, x, write, s); });
  }

  void adamw(const AdamWStep& step,
             View parameter,
             ConstView gradient,
             View moment1,
             View moment2,
             Stream&) override {
    charge("adamw", 0, {parameter, gradient, moment1, moment2}, [=](Backend& b, Stream& s) {
      b.adamw(step, parameter, gradient, moment1, moment2, s);
    });
  }

 private:
  void charge(std::string operation,
              double flops,
              std::vector<ConstView> views,
              std::function<void(Backend&, Stream&)> run) {
    rank_.compute(costs_.seconds({.name = std::move(operation),
                                  .flops = flops,
                                  .views = std::move(views),
                                  .run = std::move(run)}));
  }

  /// Blocks that the causal diagonal cuts cost half.
  static bool on_diagonal(const AttentionShape& shape) {
    return shape.first_query_position < shape.first_key_position + shape.num_keys;
  }
  static double attention_products(const AttentionShape& shape) {
    return static_cast<double>(shape.num_queries) * static_cast<double>(shape.num_keys) *
           static_cast<double>(shape.num_query_heads * shape.head_dim) *
           (on_diagonal(shape) ? 0.5 : 1);
  }
  static std::string attention_name(std::string_view direction, const AttentionShape& shape) {
    return fmt::format("attention {} {} {}", direction, shape.head_dim, on_diagonal(shape));
  }
  static std::string rotation_name(std::string_view direction, const RotationPlanes& planes) {
    return fmt::format("rotate_basis {} {}", direction, static_cast<int>(planes.function));
  }

  OperationCosts& costs_;
  VirtualRank& rank_;
};

}  // namespace

std::unique_ptr<Backend> make_cost_backend(OperationCosts& costs, VirtualRank& rank) {
  return std::make_unique<CostBackend>(costs, rank);
}

}  // namespace subring::report
