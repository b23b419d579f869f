#include "bench.hpp"

namespace subring::bench {
namespace {

constexpr int64_t kTokens = 16384;
constexpr int64_t kWidth = 1024;
constexpr int64_t kHeadDim = 64;

/// One memory-bound operation; `arrays` counts reads and writes of [kTokens, kWidth] floats.
struct Op {
  std::string what;
  double arrays = 0;
  std::function<void()> body;
};

/// Everything the operations work on.
struct Operands {
  Buffer a{{kTokens, kWidth}}, b{{kTokens, kWidth}}, c{{kTokens, kWidth}};
  Buffer d{{kTokens, kWidth}}, e{{kTokens, kWidth}};
  Buffer weight{{kWidth}}, d_weight{{kWidth}}, rows{{kTokens}};
  std::vector<int32_t> labels = std::vector<int32_t>(kTokens, 1);

  ConstView label_view() const { return {labels.data(), DType::i32, {kTokens}}; }
};

std::vector<Op> transformer_ops(Backend& run, Stream& s, Operands& x) {
  const RopeShape rope{kWidth / kHeadDim, kHeadDim, 100000, 500000.0};
  AdamWStep step;
  step.lr = 1e-9F;
  return {
      {"axpby", 3, [&] { run.axpby(1, x.a, 0.5F, x.b, s); }},
      {"sum", 1, [&] { run.sum(x.a, s); }},
      {"squared norm", 1, [&] { run.squared_norm(x.a, s); }},
      {"column mean", 1, [&] { run.column_mean(x.a, x.weight, s); }},
      {"rms_norm forward", 2, [&] { run.rms_norm_forward(x.a, x.weight, 1e-5F, x.b, x.rows, s); }},
      {"rms_norm backward",
       3,
       [&] {
         run.rms_norm_backward(x.a, x.b, x.weight, x.rows, x.c, Write::overwrite, x.d_weight, s);
       }},
      {"rope", 2, [&, rope] { run.rope(rope, RopeDirection::forward, x.a, s); }},
      {"swiglu forward", 3, [&] { run.swiglu_forward(x.a, x.b, x.c, s); }},
      {"swiglu backward", 5, [&] { run.swiglu_backward(x.a, x.b, x.c, x.d, x.e, s); }},
      {"cross entropy forward",
       1,
       [&] { run.cross_entropy_forward(x.a, x.label_view(), x.rows, s); }},
      {"cross entropy forward and backward",
       2,
       [&] { run.cross_entropy_forward_backward(x.e, x.label_view(), 1, x.rows, s); }},
      {"adamw", 7, [&, step] { run.adamw(step, x.a, x.b, x.c, x.d, s); }},
  };
}

}  // namespace

void add_ops_bench(CLI::App& program, Session& session) {
  CLI::App* command =
      program.add_subcommand("ops", "memory-bound operations against a copy of memory");
  command->callback([&session] {
    print_header(session);
    Ceilings ceilings(session);
    Operands operands;
    const auto copy = [&] { ceilings.copy(); };
    const double array_bytes = 4.0 * kTokens * kWidth;
    for (const Op& op : transformer_ops(*session.backend, *session.stream, operands)) {
      print_bytes(op.what,
                  op.arrays * array_bytes,
                  time_against(session, copy, op.body),
                  ceilings.copy_bytes());
    }
  });
}

}  // namespace subring::bench
