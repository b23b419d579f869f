# shellcheck shell=bash
# Sourced by what runs tests: lets Open MPI 4 and 5 start ranks as root, more than there are cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# Ranks on shared cores: idle OpenMP threads must sleep, idle ranks must yield.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export OMPI_MCA_mpi_yield_when_idle=1
