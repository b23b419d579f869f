#!/usr/bin/env bash
# scripts/check_layers.sh [ROOT]: checks that data flows one way (docs/architecture.md):
#   - an include names its own layer or one further right;
#   - a source includes private headers of its own layer only;
#   - no public header shows CUDA, MPI, NCCL or YAML to another layer.
# Prints file:line and the reason of each breach; exit status 1 when there is one.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"

# Leftmost first; a slash joins siblings, which must not include one another.
layers="app train config/report mesh data model sync attention ring codec wire backend core"

directories=()
for directory in include src kernels tests; do
  [[ ! -d $directory ]] || directories+=("$directory")
done
if ((${#directories[@]} == 0)); then
  echo "check_layers.sh: no sources below $PWD" >&2
  exit 2
fi

# shellcheck disable=SC2016  # awk's own $
find "${directories[@]}" -type f \
  \( -name '*.hpp' -o -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' \) \
  -print0 | sort -z |
  xargs -0 awk -v layers="$layers" '
function breach(reason) {
  printf "%s:%d: %s\n", FILENAME, FNR, reason
  breaches++
}

# The layer that a file belongs to; "" for what any layer may use (tests/support).
function layer_of_file(path,    part) {
  split(path, part, "/")
  if (part[1] == "include") return part[3]
  if (part[1] == "kernels") return "backend"
  return part[2] in position ? part[2] : ""
}

# Whether `from` may include headers of `to`.
function allowed(from, to, header) {
  # Sections of the configuration are structs that each layer declares, train included.
  if (from == "config" && header == "subring/train/options.hpp") return 1
  return from == to || position[from] < position[to]
}

function check_public(header,    foreign) {
  foreign = ""
  if (header ~ /^(cuda|cublas|cudnn|driver_types)/) foreign = "backend"
  else if (header ~ /^(mpi|nccl)\.h$/) foreign = "wire"
  else if (header ~ /^yaml-cpp\//) foreign = "config"
  if (foreign != "" && foreign != layer) {
    breach("a public header must not include <" header ">; only layer " foreign " may")
  }
}

function exists(path,    line, status) {
  status = (getline line < path)
  close(path)
  return status >= 0
}

# A quoted header that is no public one: it must lie in the own layer, or be test support.
function check_private(header,    part, base, name) {
  if (FILENAME ~ /^tests\//) {
    split(header, part, "/")
    if (part[1] in position && !allowed(layer, part[1], header)) {
      breach("tests of " layer " include tests of " part[1] ", a layer to the left")
    }
    return
  }
  if (header ~ /(^|\/)\.\.\//) {
    breach("\"" header "\": name a header from its layer, not by ..")
    return
  }
  base = FILENAME
  sub(/[^\/]*$/, "", base)
  if (exists(base header) || exists("src/" layer "/" header)) return
  if (FILENAME ~ /^src\/backend\// && header ~ /^kernels\// && exists(header)) return
  for (name in position) {
    if (exists("src/" name "/" header) || exists("src/" header)) {
      breach("\"" header "\" is a private header of another layer")
      return
    }
  }
}

BEGIN {
  count = split(layers, groups, " ")
  for (i = 1; i <= count; i++) {
    siblings = split(groups[i], names, "/")
    for (j = 1; j <= siblings; j++) position[names[j]] = i
  }
}

FNR == 1 {
  layer = layer_of_file(FILENAME)
  if (FILENAME ~ /^(include|src)\// && !(layer in position)) {
    breach("lies in no layer; layers are: " layers)
  }
}

/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
  header = $0
  sub(/^[^<"]*[<"]/, "", header)
  sub(/[>"].*$/, "", header)
  is_quoted = $0 ~ /include[ \t]*"/
  if (FILENAME ~ /^include\//) check_public(header)
  if (header ~ /^subring\//) {
    split(header, part, "/")
    if (!(part[2] in position)) {
      breach("\"" header "\" lies in no layer")
    } else if (layer in position && !allowed(layer, part[2], header)) {
      breach("layer " layer " must not include " header ": " part[2] " does not lie to its right")
    }
  } else if (is_quoted && layer in position) {
    check_private(header)
  }
}

END {
  if (breaches > 0) exit 1
}
' || { echo "check_layers.sh: layers are broken; order: $layers" >&2; exit 1; }
echo "check_layers.sh: layers hold"
