#!/usr/bin/env bash
# scripts/test.sh [CTEST_ARGUMENT...]: installs what is needed, builds, and runs all tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
scripts/build.sh build

# Open MPI refuses to start as root otherwise; tests that start ranks need no more than this machine.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Idle OpenMP threads of several ranks on the same cores must sleep.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
# Two at a time: tests start up to eight ranks of their own. The summary is ctest's, and the last.
exec ctest --test-dir build --output-on-failure --no-tests=error --parallel 2 "$@"
