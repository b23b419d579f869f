#!/usr/bin/env bash
# scripts/check_emulation.sh [--repeats N] [RATE_IN_MBIT...]: are emulated links (`network:`) as
# fast as links that the kernel shapes? Runs configs/small/emulation.yaml both ways in turn, over
# MPI, at 300, 100 and 30 Mbit/s, and compares medians of step seconds (within 10 %) and counted
# bytes with those of the kernel's interface counters (within 3 %: headers, acknowledgements, the
# start of MPI). As root; needs build/bin/subring and data/demo. About 8 minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

repeats=3 rates=()
while (($# > 0)); do
  if [[ $1 == --repeats && ${2:-} =~ ^[1-9]$ ]]; then
    repeats=$2
    shift 2
  elif [[ $1 =~ ^[1-9][0-9]*$ ]]; then
    rates+=("$1")
    shift
  else
    echo "usage: check_emulation.sh [--repeats N] [RATE_IN_MBIT...]" >&2
    exit 2
  fi
done
((${#rates[@]} > 0)) || rates=(300 100 30)
for needed in build/bin/subring data/demo/tokenizer.json; do
  [[ -e $needed ]] && continue
  echo "check_emulation.sh: $needed is not there; run scripts/quickstart.sh first" >&2
  exit 2
done

work=$(mktemp -d)
trap 'scripts/netns.sh down; rm -rf "$work"' EXIT
scripts/netns.sh up 2

# Step seconds of a run but for the first and the last step, which have no neighbour to overlap.
step_seconds() {
  grep -o '"step_seconds":[0-9.e+-]*' "$1/metrics.jsonl" | cut -d: -f2 | sed '1d;$d'
}
median() { sort -g | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }
counted_bytes() {
  grep '^{"step"' "$1/metrics.jsonl" | grep -o '"\(kv_forward\|kv_backward\|weights\|other\)":[0-9]*' |
    awk -F: '{ sum += $2 } END { printf "%d\n", sum }'
}

train=(build/bin/subring train configs/small/emulation.yaml)
status=0
printf '%8s %10s %10s %7s %14s %14s %7s\n' \
  Mbit/s "kernel s" "emulated s" ratio "kernel bytes" "counted bytes" ratio
for rate in "${rates[@]}"; do
  kernel_bytes=0 counted=0
  for ((i = 0; i < repeats; ++i)); do
    scripts/netns.sh shape "${rate}mbit"
    before=$(scripts/netns.sh sent)
    scripts/netns.sh run "${train[@]}" --out "$work/kernel-$rate-$i" 2>"$work/log" ||
      { cat "$work/log" >&2 && exit 1; }
    kernel_bytes=$((kernel_bytes + $(scripts/netns.sh sent) - before))
    counted=$((counted + $(counted_bytes "$work/kernel-$rate-$i")))
    mpirun --allow-run-as-root --bind-to none --mca mpi_yield_when_idle 1 -np 2 "${train[@]}" \
      --set "network.bandwidth=${rate}Mbps" --out "$work/emulated-$rate-$i" 2>"$work/log" ||
      { cat "$work/log" >&2 && exit 1; }
  done
  kernel=$(for ((i = 0; i < repeats; ++i)); do step_seconds "$work/kernel-$rate-$i"; done | median)
  emulated=$(for ((i = 0; i < repeats; ++i)); do step_seconds "$work/emulated-$rate-$i"; done | median)
  awk -v rate="$rate" -v kernel="$kernel" -v emulated="$emulated" -v seen="$kernel_bytes" \
    -v counted="$counted" 'BEGIN {
      time = emulated / kernel; bytes = counted / seen
      printf "%8d %10.3f %10.3f %7.3f %14d %14d %7.3f\n",
        rate, kernel, emulated, time, seen, counted, bytes
      exit !(time > 0.9 && time < 1.1 && bytes > 0.97 && bytes < 1.03)
    }' || status=1
done
((status == 0)) || echo "check_emulation.sh: outside 10 % of time or 3 % of bytes" >&2
exit "$status"
