#!/usr/bin/env bash
# check_layers_test.sh: makes small trees that break one rule each, and one that breaks none, and
# checks what scripts/check_layers.sh says of them.
set -euo pipefail
checker=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/scripts/check_layers.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

# expect good|bad DESCRIPTION FILE LINE...: a sound tree with one more file, FILE.
expect() {
  local verdict=$1 description=$2 file=$3 status=good output
  shift 3
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/include/subring/{core,wire,train} "$tree"/src/{core,wire,train} \
    "$tree/$(dirname "$file")"
  echo '#include <vector>' >"$tree/include/subring/core/view.hpp"
  echo '#include "subring/core/view.hpp"' >"$tree/include/subring/wire/group.hpp"
  echo 'struct Options {};' >"$tree/include/subring/train/options.hpp"
  echo 'int hidden();' >"$tree/src/core/hidden.hpp"
  printf '%s\n' "$@" >"$tree/$file"
  output=$("$checker" "$tree" 2>&1) || status=bad
  # A breach is named by file and line; what ends in line 2 stands there.
  if [[ $status != "$verdict" || ($verdict == bad && $output != *"$file:$#: "*) ]]; then
    echo "FAILED: $description: expected $verdict, got $status: $output"
    failures=$((failures + 1))
  fi
}

expect good "own private header" src/core/a.cpp '#include "hidden.hpp"'
expect good "layer further right" src/train/a.cpp '#include "subring/wire/group.hpp"'
expect good "foreign header in a source of its layer" src/wire/mpi.cpp '#include <mpi.h>'
expect good "options of train in config" include/subring/config/c.hpp \
  '#include "subring/train/options.hpp"'
expect good "test support" tests/core/a_test.cpp '#include "support/catch.hpp"'

expect bad "public header of a layer to the left" include/subring/core/a.hpp \
  '#pragma once' '#include "subring/wire/group.hpp"'
expect bad "source includes a layer to the left" src/wire/a.cpp \
  '#include "subring/core/view.hpp"' '  #  include <subring/train/options.hpp>'
expect bad "test includes a layer to the left" tests/core/a_test.cpp \
  '#include "subring/wire/group.hpp"'
expect bad "private header of another layer" src/train/a.cpp '#include "hidden.hpp"'
expect bad "private header by its path" src/train/a.cpp '#include "core/hidden.hpp"'
expect bad "private header by .." src/train/a.cpp '#include "../core/hidden.hpp"'
expect bad "siblings" src/report/a.cpp '#include "subring/config/config.hpp"'
expect bad "other headers of train in config" src/config/a.cpp '#include "subring/train/loop.hpp"'
expect bad "MPI in a public header" include/subring/train/a.hpp '#include <mpi.h>'
expect bad "YAML in a public header" include/subring/core/a.hpp '#include <yaml-cpp/yaml.h>'
expect bad "CUDA in a public header" include/subring/wire/a.hpp '#include <cuda_runtime.h>'
expect bad "kernel includes a layer above backend" kernels/a.cu \
  '#include "subring/wire/group.hpp"'
expect bad "no such layer" src/core/a.cpp '#include "subring/utils/a.hpp"'
expect bad "source outside of all layers" src/utils/a.cpp '#include <vector>'

((failures == 0)) || exit 1
echo "check_layers_test.sh: all trees were judged rightly"
