#include "bench.hpp"

namespace subring::bench {
namespace {

struct Product {
  const char* what;
  int64_t rows, columns, inner;
  Transpose transpose_a, transpose_b;
};

constexpr Product kProducts[] = {
    {"ceiling's own shape", 2048, 2048, 512, Transpose::no, Transpose::no},
    {"projection", 1024, 512, 512, Transpose::no, Transpose::no},
    {"up projection", 1024, 1376, 512, Transpose::no, Transpose::no},
    {"gradient of a weight", 512, 512, 1024, Transpose::yes, Transpose::no},
    {"gradient of an input", 1024, 512, 512, Transpose::no, Transpose::yes},
    {"logits", 1024, 8192, 512, Transpose::no, Transpose::yes},
    {"to rank 13", 1024, 13, 512, Transpose::no, Transpose::no},
    {"from rank 13", 1024, 512, 13, Transpose::no, Transpose::yes},
    {"gradient of a rank-26 basis", 512, 26, 4096, Transpose::yes, Transpose::no},
    {"scores of one tile", 128, 256, 64, Transpose::no, Transpose::yes},
};

void bench_product(Session& session, Ceilings& ceilings, const Product& p) {
  const bool flip_a = p.transpose_a == Transpose::yes;
  const bool flip_b = p.transpose_b == Transpose::yes;
  Buffer a(flip_a ? Shape{p.inner, p.rows} : Shape{p.rows, p.inner});
  Buffer b(flip_b ? Shape{p.columns, p.inner} : Shape{p.inner, p.columns});
  Buffer c({p.rows, p.columns});
  const double flops = 2.0 * static_cast<double>(p.rows) * static_cast<double>(p.columns) *
                       static_cast<double>(p.inner);
  const std::string size = fmt::format("{} x {} x {} {}{}  {}",
                                       p.rows,
                                       p.columns,
                                       p.inner,
                                       flip_a ? 'T' : 'N',
                                       flip_b ? 'T' : 'N',
                                       p.what);
  const auto product = [&] {
    session.backend->matmul(
        a, p.transpose_a, b, p.transpose_b, c, Write::overwrite, *session.stream);
  };
  print_flops(size,
              flops,
              time_against(
                  session, [&] { ceilings.product(); }, product));
}

}  // namespace

void add_gemm_bench(CLI::App& program, Session& session) {
  CLI::App* command = program.add_subcommand("gemm", "matrix products by shape");
  command->callback([&session] {
    print_header(session);
    Ceilings ceilings(session);
    for (const Product& product : kProducts) bench_product(session, ceilings, product);
  });
}

}  // namespace subring::bench
