#!/usr/bin/env bash
# scripts/check_slow_link.sh [--emulated] [--repeats N] [KBIT|auto]: compressed training over a slow link
# beside uncompressed training over a fast one and over the slow one, two ranks, with
# configs/small/speed.yaml. Links are shaped by the kernel (as root), or emulated (`network:`). The
# default of 5200 kbit/s makes the wire time of uncompressed K and V about 20 times the computation
# on 2 cores of 100 GFLOP/s, as in the paper; `auto` makes it 20 times that of the first run over the
# fast link, on any machine. Arms in turn, medians. About 8 minutes. Exit codes: 1 compressed is below
# 0.98 of uncompressed over the fast link or below 18 times uncompressed over the slow one, or it
# cannot be measured here; 2 wrong arguments.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=check_slow_link.sh

usage() {
  echo "$name: $1; usage: $name [--emulated] [--repeats N] [KBIT|auto]" >&2
  exit 2
}
emulated=no repeats=2 kbit=5200
while (($# > 0)); do
  case $1 in
    --emulated) emulated=yes ;;
    --repeats)
      [[ ${2:-} =~ ^[1-9]$ ]] || usage "--repeats is '${2:-}' and must be 1 to 9"
      repeats=$2
      shift
      ;;
    *)
      [[ $1 =~ ^([1-9][0-9]{1,7}|auto)$ ]] || usage "rate '$1' must be kbit/s, such as 5200, or auto"
      kbit=$1
      ;;
  esac
  shift
done

work=$(mktemp -d)
# shellcheck source=scripts/measure.sh
source scripts/measure.sh
need_program_and_data
[[ $emulated == yes ]] || make_namespaces 2

# run_arm ARM OUT: arms are named LINK_CODEC.
run_arm() {
  local command=(build/bin/subring train configs/small/speed.yaml --out "$2") steps=12
  case $1 in
    *_uncompressed) command+=(--set compression.codec=none --set compression.wire_dtype=bf16) ;;
    *_int8) command+=(--set compression.wire_dtype=int8) ;;
    *_int4) command+=(--set compression.wire_dtype=int4) ;;
  esac
  # A minute a step.
  [[ $1 != slow_uncompressed ]] || steps=4
  command+=(--set "training.steps=$steps" --set lr_scheduler.warmup_steps=2)
  case $1-$emulated in
    fast_*-yes) train_emulated none "${command[@]}" ;;
    fast_*-no) train_over_kernel none "${command[@]}" ;;
    slow_*-yes) train_emulated "${kbit}kbps" "${command[@]}" ;;
    slow_*-no) train_over_kernel "${kbit}kbit" "${command[@]}" ;;
  esac
}

# of KEY ARM: the median over all runs of an arm.
of() { values "$1" "$work/$2-"[1-9] | median; }

# With two ranks in zigzag three of four chunks travel forward, two of them from one rank, and their
# gradients back: the busier link of each direction carries two thirds of what is counted, 95 % of
# its rate being payload.
slow_rate() {
  local bytes
  bytes=$(($(of kv_forward fast_uncompressed) + $(of kv_backward fast_uncompressed)))
  awk -v bytes="$bytes" -v seconds="$(of step_seconds fast_uncompressed)" \
    'BEGIN { printf "%d", bytes * 8 * 2 / 3 / 0.95 / (20 * seconds) / 1000 }'
}

arms=(fast_uncompressed slow_int4 slow_int8 slow_uncompressed)
for i in $(seq 1 "$repeats"); do
  for arm in "${arms[@]}"; do
    # The wire decides it, so it hardly spreads.
    if [[ $arm != slow_uncompressed || $i == 1 ]]; then run_arm "$arm" "$work/$arm-$i"; fi
    [[ $kbit != auto ]] || kbit=$(slow_rate)
  done
done

fast=$(of tokens_per_second fast_uncompressed)
slow=$(of tokens_per_second slow_uncompressed)
how="shaped by the kernel"
[[ $emulated == no ]] || how="emulated"
echo "slow link: $kbit kbit/s, $how; fast: not limited"
printf '%-18s %10s %8s %6s %8s %8s\n' arm tokens/s "step s" wait "of fast" "of slow"
for arm in "${arms[@]}"; do
  awk -v arm="$arm" -v tokens="$(of tokens_per_second "$arm")" -v step="$(of step_seconds "$arm")" \
    -v wait="$(of wait_seconds "$arm")" -v fast="$fast" -v slow="$slow" 'BEGIN {
      printf "%-18s %10.0f %8.3f %5.1f%% %8.3f %7.1fx\n",
        arm, tokens, step, 100 * wait / step, tokens / fast, tokens / slow
      exit arm ~ /int/ && !(tokens / fast >= 0.98 && tokens / slow >= 18)
    }' || missed="${missed:-} $arm"
done
[[ -z ${missed:-} ]] || die "below 0.98 of the fast link or 18 times the slow one:$missed"
