# shellcheck shell=bash
# Sourced by scripts that compare runs over links: needed files, training over either kind of link,
# and figures out of metrics.jsonl. They give `work`, a temporary directory, and call their own name
# `name`. Everything is gone when they end, whatever the reason.

# shellcheck disable=SC2154  # name, work: the caller's
die() {
  echo "$name: $1" >&2
  exit "${2:-1}"
}

need_program_and_data() {
  [[ -e build/bin/subring ]] || die "build/bin/subring is not there; run scripts/build.sh" 2
  [[ -e data/demo/tokenizer.json ]] || die "data/demo is not there; run scripts/prepare_text.sh \
data/text && build/bin/subring tokenize --tokenizer bytes --out data/demo data/text/*.txt" 2
}

clean_up() {
  trap - EXIT INT TERM HUP
  [[ -z ${job:-} ]] || kill "$job" 2>/dev/null || true
  [[ -z ${has_namespaces:-} ]] || scripts/netns.sh down
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

make_namespaces() {
  scripts/netns.sh up "$1"
  has_namespaces=yes
}

# In the background: a signal must not wait for the end of a long run.
finish() {
  "$@" >"$work/log" 2>&1 </dev/null &
  job=$!
  wait "$job" || die "a run failed: $(tail -n 3 "$work/log")"
  job=""
}

# train_over_kernel RATE COMMAND...: two ranks, RATE as for netns.sh shape.
train_over_kernel() {
  scripts/netns.sh shape "$1"
  finish scripts/netns.sh run 2 -- "${@:2}"
}

# train_emulated RATE COMMAND...: two ranks, RATE as for network.bandwidth.
train_emulated() {
  finish mpirun --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -np 2 \
    "${@:2}" --set "network.bandwidth=$1"
}

# values KEY RUN...: of all the runs' steps, but for each first and last one, which have no
# neighbour to overlap with.
values() {
  local key=$1 run
  shift
  for run in "$@"; do
    grep '^{"step".*"loss":' "$run/metrics.jsonl" | sed '1d;$d' | grep -o "\"$key\":[0-9.e+-]*" |
      cut -d: -f2
  done
}

median() {
  sort -g | awk '
    { x[NR] = $1 }
    END {
      middle = (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2
      printf middle == int(middle) ? "%d\n" : "%.6f\n", middle
    }'
}

# counted_bytes RUN: what the ranks have sent in all steps, as metrics.jsonl has it.
counted_bytes() {
  grep -o '"\(kv_forward\|kv_backward\|weights\|other\)":[0-9]*' "$1/metrics.jsonl" |
    awk -F: '{ sum += $2 } END { printf "%d\n", sum }'
}
