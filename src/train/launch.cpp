#include "subring/train/launch.hpp"

#include <chrono>
#include <cstdio>
#include <thread>

#include "subring/train/trainer.hpp"
#include "subring/wire/local.hpp"
#include "subring/wire/mpi.hpp"

namespace subring::train {
namespace {

void run_rank(const config::Config& config,
              const LaunchOptions& options,
              wire::Transport& transport) {
  if (options.mode == LaunchMode::dry_run) {
    Trainer(config, transport, {}).describe();
    return;
  }
  Trainer(config, transport, options.run_directory).run();
}

bool use_mpi(const config::Config& config, const LaunchOptions& options) {
  switch (config.wire.transport) {
    case wire::TransportKind::mpi:
      SUBRING_CHECK(options.local_ranks == 0,
                    ErrorKind::config,
                    "--local-ranks needs wire.transport auto or local, and it is mpi");
      SUBRING_CHECK(wire::mpi_available(),
                    ErrorKind::config,
                    "wire.transport is mpi, and this build has no MPI");
      return true;
    case wire::TransportKind::local: return false;
    case wire::TransportKind::automatic: break;
  }
  if (!wire::launched_by_mpi()) return false;
  SUBRING_CHECK(options.local_ranks == 0,
                ErrorKind::config,
                "--local-ranks under mpirun or srun: use one of them");
  SUBRING_CHECK(wire::mpi_available(),
                ErrorKind::config,
                "started by mpirun or srun, and this build has no MPI");
  return true;
}

/// A rank of an MPI job that failed says why, then ends the job for all.
[[noreturn]] void report_and_abort(wire::Transport& transport,
                                   const char* what,
                                   int code,
                                   bool same_everywhere) {
  if (same_everywhere && transport.rank() != 0) {
    // Rank 0 found the same and reports it; leave it the time to.
    std::this_thread::sleep_for(std::chrono::seconds(2));
  } else {
    fmt::print(stderr, "subring: rank {}: {}\n", transport.rank(), what);
    std::fflush(stderr);
  }
  transport.abort(what, code);
  std::_Exit(code);
}

}  // namespace

void launch(const config::Config& config, const LaunchOptions& options) {
  if (!use_mpi(config, options)) {
    const int num_ranks = std::max(options.local_ranks, 1);
    config::check_config_for_ranks(config, num_ranks);
    wire::run_local_ranks(
        num_ranks, [&](wire::Transport& transport) { run_rank(config, options, transport); });
    return;
  }
  const auto transport = wire::connect_mpi();
  try {
    config::check_config_for_ranks(config, transport->size());
    run_rank(config, options, *transport);
  } catch (const Error& e) {
    const bool same_everywhere = e.kind() == ErrorKind::non_finite || e.kind() == ErrorKind::config;
    report_and_abort(*transport, e.what(), exit_code(e.kind()), same_everywhere);
  } catch (const std::exception& e) {
    report_and_abort(*transport, e.what(), 1, false);
  }
}

}  // namespace subring::train
