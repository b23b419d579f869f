#!/usr/bin/env bash
# scripts/check_plan.sh [BUILD_DIR]: trains three settings on emulated links and compares the median
# step with what `subring plan` predicts. Exit status 1 when one is off by more than 15 %, 2 when it
# cannot run. Takes a few minutes and two idle cores; not part of the tests. Needs demo data:
#   scripts/prepare_text.sh data/text
#   build/bin/subring tokenize --tokenizer bytes --out data/demo data/text/*.txt
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
subring=${1:-build}/bin/subring
tolerance=15
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! compgen -G 'data/demo/train_*.bin' >/dev/null; then
  echo "check_plan.sh: no data/demo/train_*.bin; the head of this script says how to make it" >&2
  exit 2
fi
for tool in "$subring" python3; do
  command -v "$tool" >/dev/null || { echo "check_plan.sh: $tool is missing" >&2; exit 2; }
done

common=(configs/long.yaml --set data.seq_len=8192 --set model.num_attention_heads=4
  --set model.num_key_value_heads=4 --set parallelism.chunks=4 --set threads=1
  --set training.eval_interval=0 --set compression.warmup_steps=0
  --set weight_sync.method=average --set weight_sync.every=1000)

# setting NAME STEPS ARGUMENTS...
names=()
declare -A steps arguments
setting() {
  names+=("$1")
  steps[$1]=$2
  arguments[$1]="${*:3}"
}
setting "fast link, none" 9 --set compression.codec=none --set compression.wire_dtype=bf16 \
  --set network.bandwidth=10Gbps --set network.latency=1ms
setting "30 Mbps, none" 7 --set compression.codec=none --set compression.wire_dtype=bf16 \
  --set network.bandwidth=30Mbps --set network.latency=10ms
setting "3 Mbps, int8" 9 --set compression.wire_dtype=int8 \
  --set network.bandwidth=3Mbps --set network.latency=10ms

# Median step without the first and the last, which also settles the weights.
measured() {
  python3 - "$1" <<'END'
import json, statistics, sys
steps = [json.loads(line) for line in open(sys.argv[1])]
seconds = [step["step_seconds"] for step in steps if "step_seconds" in step]
print(statistics.median(seconds[1:-1]))
END
}

failed=0
printf '%-18s %10s %10s %8s\n' setting planned measured off
for name in "${names[@]}"; do
  read -ra extra <<<"${arguments[$name]}"
  planned=$("$subring" plan "${common[@]}" "${extra[@]}" --ranks 2 | awk '$1 == "seconds" {print $2}')
  "$subring" train "${common[@]}" "${extra[@]}" --set training.steps="${steps[$name]}" \
    --local-ranks 2 --out "$work/run" 2>"$work/log" || { cat "$work/log" >&2; exit 2; }
  seconds=$(measured "$work/run/metrics.jsonl")
  rm -rf "$work/run"
  awk -v name="$name" -v planned="$planned" -v seconds="$seconds" -v tolerance=$tolerance 'BEGIN {
    off = 100 * (planned / seconds - 1)
    bad = off > tolerance || off < -tolerance
    printf "%-18s %8.3f s %8.3f s %+6.1f %%%s\n", name, planned, seconds, off, bad ? "  outside" : ""
    exit bad
  }' || failed=1
done
exit $failed
