#!/usr/bin/env bash
# scripts/check_emulation.sh [--quick] [--repeats N] [RATE_IN_MBIT...]: are emulated links
# (`network:`) as fast as links that the kernel shapes? Runs configs/small/emulation.yaml both ways
# in turn, over MPI, at 300, 100 and 30 Mbit/s, and compares medians of step seconds (must agree
# within 10 %) and counted bytes with those of the kernel's interface counters (within 3 %). As
# root; needs build/bin/subring and data/demo. About 8 minutes; with --quick, one repetition at
# 100 Mbit/s, one. Exit codes: 1 outside these bounds, or it cannot be measured here; 2 wrong
# arguments.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=check_emulation.sh

repeats=3 rates=(300 100 30) given=()
usage() {
  echo "$name: $1; usage: $name [--quick] [--repeats N] [RATE_IN_MBIT...]" >&2
  exit 2
}
while (($# > 0)); do
  case $1 in
    --quick) repeats=1 rates=(100) ;;
    --repeats)
      [[ ${2:-} =~ ^[1-9]$ ]] || usage "--repeats is '${2:-}' and must be 1 to 9"
      repeats=$2
      shift
      ;;
    *)
      [[ $1 =~ ^[1-9][0-9]{0,4}$ ]] || usage "rate '$1' must be Mbit/s, such as 100"
      given+=("$1")
      ;;
  esac
  shift
done
((${#given[@]} == 0)) || rates=("${given[@]}")

work=$(mktemp -d)
# shellcheck source=scripts/measure.sh
source scripts/measure.sh
need_program_and_data
make_namespaces 2

train=(build/bin/subring train configs/small/emulation.yaml)

# kernel_run RATE OUT OPTION...: leaves what the ranks' interfaces have sent in OUT.sent.
kernel_run() {
  local before
  before=$(scripts/netns.sh sent)
  train_over_kernel "${1}mbit" "${train[@]}" --out "$2" "${@:3}"
  echo $(($(scripts/netns.sh sent) - before)) >"$2.sent"
}

status=0
printf '%8s %10s %10s %7s %14s %14s %7s\n' \
  Mbit/s "kernel s" "emulated s" ratio "kernel bytes" "counted bytes" ratio
for rate in "${rates[@]}"; do
  # What a run of two steps sends is taken off: MPI's start, the ranks' agreement, the end. Left is
  # what steps send, and in the kernel's count also headers and acknowledgements: little, because
  # these interfaces pass segmentation-offload packets of up to 64 KiB as one. (The shaper charges
  # for the headers of all 1448-byte segments nevertheless, as a real link would.)
  kernel_run "$rate" "$work/short-$rate" --set training.steps=2 --set lr_scheduler.warmup_steps=1
  runs=$(seq 1 "$repeats")
  seen=0 counted=0
  for i in $runs; do
    kernel_run "$rate" "$work/kernel-$rate-$i"
    seen=$((seen + $(<"$work/kernel-$rate-$i.sent") - $(<"$work/short-$rate.sent")))
    counted=$((counted + $(counted_bytes "$work/kernel-$rate-$i") -
      $(counted_bytes "$work/short-$rate")))
    train_emulated "${rate}Mbps" "${train[@]}" --out "$work/emulated-$rate-$i"
  done
  kernel=$(values step_seconds "$work/kernel-$rate-"[1-9] | median)
  emulated=$(values step_seconds "$work/emulated-$rate-"[1-9] | median)
  awk -v rate="$rate" -v kernel="$kernel" -v emulated="$emulated" -v seen="$seen" \
    -v counted="$counted" 'BEGIN {
      time = emulated / kernel; bytes = counted / seen
      printf "%8d %10.3f %10.3f %7.3f %14d %14d %7.3f\n",
        rate, kernel, emulated, time, seen, counted, bytes
      exit !(time > 0.9 && time < 1.1 && bytes > 0.97 && bytes < 1.03)
    }' || status=1
done
((status == 0)) || echo "$name: outside 10 % of time or 3 % of bytes" >&2
exit "$status"
