#pragma once

#include <filesystem>

#include "subring/config/config.hpp"

namespace subring::train {

enum class LaunchMode { train, dry_run };

struct LaunchOptions {
  std::filesystem::path run_directory;
  int local_ranks = 0;  ///< ranks as threads of this process; 0: not asked for
  LaunchMode mode = LaunchMode::train;
};

/// Trains on this process's rank (under mpirun or srun) or on `local_ranks` threads, by
/// wire.transport. A rank that fails ends all others.
/// @throws Error  the failure; under MPI a failed rank reports, then ends the whole job instead
void launch(const config::Config& config, const LaunchOptions& options);

}  // namespace subring::train
