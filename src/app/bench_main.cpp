#include <cstdio>

#include "bench.hpp"

int main(int argc, char** argv) {
  using namespace subring;
  CLI::App program("Measures subring's operations against what this machine can do, side by side.");
  bench::Session session;
  BackendOptions options;
  program.add_option("--threads", options.threads, "threads of the backend; 0: all cores")
      ->check(CLI::NonNegativeNumber);
  program.add_option("--repetitions", session.repetitions, "runs of which the median counts")
      ->check(CLI::PositiveNumber);
  program.add_flag_callback(
      "--processor-time",
      [&] { session.clock = bench::Clock::processor; },
      "processor time instead of wall time, for one thread on a busy machine");
  program.require_subcommand(1, 0);
  // Runs before the subcommand's own callback, when the options are known.
  program.parse_complete_callback([&] {
    session.backend = make_backend(options, 1);
    session.stream = session.backend->make_stream();
  });
  bench::add_gemm_bench(program, session);
  bench::add_attention_bench(program, session);
  bench::add_ops_bench(program, session);
  bench::add_frames_bench(program, session);
  bench::add_step_bench(program, session);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 2;
  } catch (const Error& error) {
    std::fprintf(stderr, "subring-bench: %s\n", error.what());
    return exit_code(error.kind());
  }
  return 0;
}
