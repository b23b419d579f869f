#!/usr/bin/env bash
# scripts/quickstart.sh [--steps N]: from a fresh machine to a trained model. Installs what is
# needed, builds, gets real English text, and trains the same small model three times on 4 ranks,
# with the same seed and data: K and V uncompressed, compressed (the defaults), and compressed in
# the paper's own form. Ends with a table of validation loss, bytes and speed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

steps=()
if [[ ${1:-} == --steps && ${2:-} =~ ^[0-9]+$ && ${2:-0} -gt 100 ]]; then
  steps=(--set "training.steps=$2")
elif (($# > 0)); then
  echo "usage: scripts/quickstart.sh [--steps N]   (N > 100, the steps of the warm start)" >&2
  exit 2
fi

stage() { printf '\n== %s (after %d s)\n' "$*" "$SECONDS" >&2; }

stage "packages"
scripts/setup.sh
stage "build"
scripts/build.sh build

stage "text"
scripts/prepare_text.sh data/text
if [[ ! -e data/demo/tokenizer.json ]]; then
  build/bin/subring tokenize --tokenizer bytes --out data/demo data/text/*.txt
fi

rm -rf runs/demo
train() {
  local name=$1
  shift
  stage "training: $name"
  build/bin/subring train configs/demo.yaml --local-ranks 4 --out "runs/demo/$name" \
    ${steps[@]+"${steps[@]}"} "$@"
}
train uncompressed --set compression.codec=none --set compression.wire_dtype=bf16
train compressed
train paper_form --set compression.exact_local=false --set compression.learned_basis=false \
  --set compression.rotation.kind=taylor2 --set compression.wire_dtype=bf16 \
  --set compression.key_rank=3 --set compression.value_rank=6 \
  --set compression.warmup_wire_dtype=bf16

stage "result"
build/bin/subring report runs/demo/uncompressed runs/demo/compressed runs/demo/paper_form
