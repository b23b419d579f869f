#pragma once

#include <memory>

#include "subring/wire/transport.hpp"

namespace subring::wire {

/// True when this build has MPI.
bool mpi_available();
/// E.g. "Open MPI v4.1.4"; empty without MPI.
std::string mpi_version();
/// True when a launcher (mpirun, srun) started this process as one of several ranks, or of one.
bool launched_by_mpi();
/// Initialises MPI (once a process) and returns the endpoint of this process; MPI is finalised when
/// it is destroyed. @throws Error{wire}
std::unique_ptr<Transport> connect_mpi();

}  // namespace subring::wire
