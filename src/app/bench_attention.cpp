#include <limits>

#include "bench.hpp"

namespace subring::bench {
namespace {

struct AttentionCase {
  int64_t tokens, query_heads, kv_heads, head_dim;
};

void bench_case(Session& session, Ceilings& ceilings, const AttentionCase& c) {
  const AttentionShape shape{c.tokens, c.tokens, c.query_heads, c.kv_heads, c.head_dim, 0, 0};
  const int64_t query_width = c.query_heads * c.head_dim;
  const int64_t key_width = c.kv_heads * c.head_dim;
  Buffer q({c.tokens, query_width}), d_out(q.shape), out(q.shape), d_q(q.shape);
  Buffer k({c.tokens, key_width}), v(k.shape), d_k(k.shape), d_v(k.shape);
  Buffer lse({c.query_heads, c.tokens}), delta(lse.shape);
  Backend& backend = *session.backend;
  Stream& stream = *session.stream;
  const auto forward = [&] {
    backend.fill(lse, -std::numeric_limits<float>::infinity(), stream);
    backend.attention_forward_block(shape, q, k, v, out, lse, stream);
  };
  const auto backward = [&] {
    backend.attention_backward_prepare(shape, out, d_out, delta, stream);
    backend.attention_backward_block(
        shape, q, k, v, d_out, lse, delta, d_q, d_k, d_v, Write::overwrite, stream);
  };
  const auto product = [&] { ceilings.product(); };
  // Pairs of query and key: half of n^2 under the causal mask.
  const double pair_flops = static_cast<double>(c.tokens) * static_cast<double>(c.tokens) *
                            static_cast<double>(query_width) / 2;
  const std::string size =
      fmt::format("{} tokens, {} / {} heads x {}", c.tokens, c.query_heads, c.kv_heads, c.head_dim);
  print_flops("forward   " + size, 4 * pair_flops, time_against(session, product, forward));
  print_flops("backward  " + size, 10 * pair_flops, time_against(session, product, backward));
}

}  // namespace

void add_attention_bench(CLI::App& program, Session& session) {
  CLI::App* command =
      program.add_subcommand("attention", "causal attention against a matrix product");
  command->callback([&session] {
    print_header(session);
    Ceilings ceilings(session);
    for (const AttentionCase& c : {AttentionCase{1024, 8, 8, 64},
                                   AttentionCase{4096, 8, 8, 64},
                                   AttentionCase{4096, 16, 16, 32},
                                   AttentionCase{4096, 4, 4, 128},
                                   AttentionCase{4096, 8, 2, 64},
                                   AttentionCase{1000, 8, 8, 64}}) {
      bench_case(session, ceilings, c);
    }
  });
}

}  // namespace subring::bench
