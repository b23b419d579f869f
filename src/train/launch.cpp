#include "subring/train/launch.hpp"

#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "subring/train/trainer.hpp"
#include "subring/wire/local.hpp"
#include "subring/wire/mpi.hpp"
#include "subring/wire/shaped.hpp"

namespace subring::train {
namespace {

/// One rank's work; on emulated links where the configuration asks for them.
void run_rank(const config::Config& config,
              const LaunchOptions& options,
              wire::Transport& endpoint) {
  std::optional<wire::ShapedTransport> shaped;
  if (config.network.emulated()) {
    shaped.emplace(endpoint,
                   config.network,
                   config.training.seed,
                   std::chrono::duration<double>(config.wire.timeout_seconds));
  }
  wire::Transport& transport = shaped ? *shaped : endpoint;
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

/// A rank of an MPI job that failed says why, then ends the job for all. Where all ranks are likely
/// to have found the same, rank 0 speaks first, and with that ends the others before they do.
[[noreturn]] void report_and_abort(wire::Transport& transport, const char* what, ErrorKind kind) {
  const bool likely_same =
      kind == ErrorKind::non_finite || kind == ErrorKind::config || kind == ErrorKind::data;
  if (likely_same && transport.rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(2));
  fmt::print(stderr, "subring: rank {}: {}\n", transport.rank(), what);
  std::fflush(stderr);
  transport.abort(what, exit_code(kind));
  std::_Exit(exit_code(kind));
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
  const auto transport =
      wire::connect_mpi(std::chrono::duration<double>(config.wire.timeout_seconds));
  try {
    config::check_config_for_ranks(config, transport->size());
    run_rank(config, options, *transport);
  } catch (const Error& e) {
    report_and_abort(*transport, e.what(), e.kind());
  } catch (const std::exception& e) {
    report_and_abort(*transport, e.what(), ErrorKind::backend);
  }
}

}  // namespace subring::train
