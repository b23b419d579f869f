#!/usr/bin/env bash
# scripts/test.sh [CTEST_ARGUMENT...]: installs what is needed, builds, and runs all tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
scripts/build.sh build --tests

# shellcheck source=scripts/test_environment.sh
source scripts/test_environment.sh
# Two at a time: tests start up to eight ranks of their own. The summary is ctest's, and the last.
exec ctest --test-dir build --output-on-failure --no-tests=error --parallel 2 "$@"
