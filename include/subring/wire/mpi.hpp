#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "subring/wire/transport.hpp"

namespace subring::wire {

/// True when this build has MPI.
bool mpi_available();
/// E.g. "Open MPI v4.1.4"; empty without MPI.
std::string mpi_version();
/// True when a launcher (mpirun, srun) started this process as one of several ranks, or of one.
/// Goes by the environment; a shell or batch script inside a Slurm allocation is no rank.
bool launched_by_mpi();
/// Initialises MPI and returns the endpoint of this process; once a process, and all use of the
/// endpoint stays on the calling thread (MPI_THREAD_FUNNELED).
///
/// The destructor finalises MPI, which waits for all ranks. So a rank that failed must not get
/// there: it reports its error, then calls abort(), which ends the job. When the destructor runs
/// because an exception unwinds the stack, or after an MPI call failed, it does not finalise; the
/// launcher then ends the job once this process exits.
/// Both meet all other ranks inside MPI, where no deadline can be set: when one takes longer than
/// `timeout`, the process says so on stderr and exits with 1.
/// @throws Error{wire}  also when this build has no MPI
std::unique_ptr<Transport> connect_mpi(std::chrono::duration<double> timeout);

}  // namespace subring::wire
