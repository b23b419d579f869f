#!/usr/bin/env bash
# scripts/check_slow_link.sh [--emulated] [--repeats N] [KBIT]: compressed training over a slow link
# beside uncompressed training over a fast one and over the slow one, tokens/s, two ranks, with
# configs/small/speed.yaml. Links are shaped by the kernel (as root), or emulated (`network:`). By
# default the slow link is made from the first run's speed on the fast one, so that an uncompressed
# step takes 20.4 times as long, as in the paper (55K against 2.7K tokens/s). Arms in turn, medians.
# About 10 minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

emulated=no repeats=2 kbit=""
while (($# > 0)); do
  case $1 in
    --emulated) emulated=yes && shift ;;
    --repeats) [[ ${2:-} =~ ^[1-9]$ ]] && repeats=$2 && shift 2 || set -- --help ;;
    [1-9]*[0-9]) kbit=$1 && shift ;;
    *)
      echo "usage: check_slow_link.sh [--emulated] [--repeats N] [KBIT]" >&2
      exit 2
      ;;
  esac
done
for needed in build/bin/subring data/demo/tokenizer.json; do
  [[ -e $needed ]] && continue
  echo "check_slow_link.sh: $needed is not there; run scripts/quickstart.sh first" >&2
  exit 2
done

work=$(mktemp -d)
if [[ $emulated == no ]]; then
  trap 'scripts/netns.sh down; rm -rf "$work"' EXIT
  scripts/netns.sh up 2
else
  trap 'rm -rf "$work"' EXIT
fi

# train LINK OUT SETTING...: LINK is fast or slow.
train() {
  local link=$1 out=$2 setting command=(build/bin/subring train configs/small/speed.yaml)
  shift 2
  for setting in "$@"; do command+=(--set "$setting"); done
  if [[ $emulated == yes ]]; then
    [[ $link == fast ]] || command+=(--set "network.bandwidth=${kbit}kbps")
    mpirun --allow-run-as-root --bind-to none --mca mpi_yield_when_idle 1 -np 2 "${command[@]}" \
      --out "$out"
  else
    scripts/netns.sh shape "$([[ $link == fast ]] && echo none || echo "${kbit}kbit")"
    scripts/netns.sh run "${command[@]}" --out "$out"
  fi
}

uncompressed=(compression.codec=none compression.wire_dtype=bf16)
run_arm() {
  local arm=$1 out=$2
  case $arm in
    fast_uncompressed) train fast "$out" "${uncompressed[@]}" training.steps=12 ;;
    slow_int4) train slow "$out" training.steps=12 ;;
    slow_int8) train slow "$out" compression.wire_dtype=int8 training.steps=12 ;;
    slow_uncompressed) train slow "$out" "${uncompressed[@]}" training.steps=4 ;;
  esac
}

# values ARM KEY: of all its runs' steps, but for each first and last one.
values() {
  local run
  for run in "$work/$1"-*; do
    sed '1,2d;$d' "$run/metrics.jsonl" | grep -o "\"$2\":[0-9.e+-]*" | cut -d: -f2
  done
}
median() { sort -g | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }

# Two ranks in zigzag send three chunks' blocks forward a layer, two of them by one rank, and as many
# backward: so the busier link of each direction carries a third of all bytes, one after the other.
paper_link() {
  local bytes seconds
  bytes=$(values fast_uncompressed 'kv_\(forward\|backward\)' |
    awk '{ sum += $1 } END { print sum / (NR / 2) }')
  seconds=$(values fast_uncompressed step_seconds | median)
  awk -v bytes="$bytes" -v seconds="$seconds" \
    'BEGIN { printf "%d", bytes * 8 * 2 / 3 / (20.4 * seconds) / 1000 }'
}

arms=(fast_uncompressed slow_int4 slow_int8 slow_uncompressed)
for ((i = 0; i < repeats; ++i)); do
  for arm in "${arms[@]}"; do
    # The slowest arm hardly spreads, and takes a minute a step.
    [[ $arm == slow_uncompressed ]] && ((i > 0)) && continue
    run_arm "$arm" "$work/$arm-$i" 2>"$work/log" || { cat "$work/log" >&2 && exit 1; }
    [[ -n $kbit ]] || kbit=$(paper_link)
  done
done

fast=$(values fast_uncompressed tokens_per_second | median)
slow=$(values slow_uncompressed tokens_per_second | median)
echo "slow link: $kbit kbit/s, $([[ $emulated == yes ]] && echo emulated || echo "shaped by the kernel")"
printf '%-18s %10s %8s %8s %10s %10s\n' arm tokens/s "step s" "wait s" "of fast" "of slow"
for arm in "${arms[@]}"; do
  printf '%-18s %10.0f %8.3f %8.3f %10s %10s\n' "$arm" \
    "$(values "$arm" tokens_per_second | median)" "$(values "$arm" step_seconds | median)" \
    "$(values "$arm" wait_seconds | median)" \
    "$(values "$arm" tokens_per_second | median | awk -v x="$fast" '{ printf "%.3f", $1 / x }')" \
    "$(values "$arm" tokens_per_second | median | awk -v x="$slow" '{ printf "%.1fx", $1 / x }')"
done
