#!/usr/bin/env bash
# scripts/build.sh [BUILD_DIR] [--tests] [CMAKE_ARGUMENT...]: builds subring (Release unless told
# otherwise) into BUILD_DIR (default build/); the programs subring and subring-bench are in
# BUILD_DIR/bin, with --tests those of the tests too.
# SUBRING_JOBS: compilers at a time; default: cores, one per 1.5 GB of free memory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_dir=${1:-build}
shift || true
targets=(--target subring subring-bench)
if [[ ${1:-} == --tests ]]; then
  targets=()
  shift
fi

jobs=${SUBRING_JOBS:-}
if [[ -z $jobs ]]; then
  jobs=$(nproc)
  free_kb=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo 2>/dev/null || true)
  if [[ -n $free_kb ]]; then
    # The largest translation units (SIMD kernels for every target) take about 1.5 GB.
    fitting=$((free_kb / 1500000))
    ((fitting >= jobs)) || jobs=$((fitting > 0 ? fitting : 1))
  fi
fi

generator=()
# A build directory keeps the generator it was made with.
if [[ ! -e $build_dir/CMakeCache.txt ]] && command -v ninja >/dev/null; then
  generator=(-G Ninja)
fi
# CMake prints pages of what it found; they matter only when it fails.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake -S . -B "$build_dir" "${generator[@]}" "$@" >"$log" 2>&1; then
  cat "$log" >&2
  echo "build.sh: configuring failed; scripts/setup.sh installs what is needed" >&2
  exit 1
fi
cmake --build "$build_dir" --parallel "$jobs" ${targets[@]+"${targets[@]}"}
