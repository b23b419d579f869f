#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string>
#include <thread>

#include "commands.hpp"
#include "subring/core/error.hpp"

namespace subring::app {

namespace {

/// Idle OpenMP threads must sleep, not spin: ranks that share cores fall to 2-5 GFLOP/s on skinny
/// products otherwise. libgomp reads the policy before main, so the program starts itself again,
/// once: the second time the variable is set. A user's own policy is left alone.
void restart_with_passive_openmp(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("OMP_WAIT_POLICY", "passive", 1) != 0) return;
  execv("/proc/self/exe", argv);
  // Without /proc the program is only slower.
}

/// A program started without one of the standard streams would get its descriptor for the next file
/// that it opens, and write its messages into that.
void open_standard_streams() {
  int descriptor = 0;
  do {
    descriptor = open("/dev/null", O_RDWR);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor > STDERR_FILENO) close(descriptor);
}

/// Of this process under mpirun or srun, which number the processes of a job; else "".
std::string launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* rank = std::getenv(name)) return rank;
  }
  return "";
}

/// One line on stderr, whatever `message` holds; one write, so that ranks do not mix.
void print_error(std::string message) {
  for (char& c : message) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  while (!message.empty() && message.back() == ' ') message.pop_back();
  const std::string rank = launched_rank();
  // All ranks of a job read the same files: rank 0 speaks first, and its end ends the others.
  if (!rank.empty() && rank != "0") std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::string line =
      fmt::format("subring: {}{}\n", rank.empty() ? "" : "rank " + rank + ": ", message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int run_program(int argc, char** argv) {
  CLI::App program(
      "Pre-trains Llama-style language models on long sequences split over machines that are "
      "joined by slow links.",
      "subring");
  program.set_version_flag("--version", "subring " SUBRING_VERSION);
  add_train_command(program);
  add_tokenize_command(program);
  add_info_command(program);
  add_report_command(program);
  add_plan_command(program);
  try {
    program.parse(argc, argv);
    // Checked here, not by require_subcommand(), which hides the name of an unknown one.
    if (program.get_subcommands().empty()) {
      throw CLI::RequiredError("a subcommand (train, tokenize, report, plan, info)");
    }
  } catch (const CLI::Success& e) {
    program.exit(e);  // prints the help or the version
  } catch (const CLI::ParseError& e) {
    print_error(fmt::format("{}; see subring --help", e.what()));
    return exit_code(ErrorKind::config);
  }
  // A full disk shows when the last of the output is written.
  if (!std::cout.flush() || std::fflush(stdout) != 0) {
    throw Error(ErrorKind::io, "cannot be written", "standard output");
  }
  return EXIT_SUCCESS;
}

}  // namespace

}  // namespace subring::app

int main(int argc, char** argv) {
  using namespace subring;
  app::open_standard_streams();
  app::restart_with_passive_openmp(argv);
  try {
    return app::run_program(argc, argv);
  } catch (const Error& e) {
    app::print_error(e.what());
    return exit_code(e.kind());
  } catch (const std::bad_alloc&) {
    app::print_error(
        "out of memory; fewer tokens a rank or model.activation_recomputation: true need less");
  } catch (const std::exception& e) {
    app::print_error(fmt::format("unexpected error: {}", e.what()));
  }
  return EXIT_FAILURE;
}
