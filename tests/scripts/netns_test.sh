#!/usr/bin/env bash
# netns_test.sh SUBRING: trains over links that the kernel shapes; the steps take at least the time
# that their bytes need, and nothing is left behind. Exit code 77 (skipped) where namespaces cannot
# be made, or somebody uses them.
set -euo pipefail
subring=$(realpath "$1")
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
netns=$source_dir/scripts/netns.sh
fail() {
  echo "netns_test.sh: $*" >&2
  exit 1
}
command -v mpirun >/dev/null || { echo "netns_test.sh: no mpirun here, skipped" && exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! "$netns" up 2 2>"$work/log" || ! "$netns" shape 5mbit 2>>"$work/log"; then
  echo "netns_test.sh: skipped: $(tail -n 1 "$work/log")"
  # Those of others are theirs.
  grep -q "there are namespaces already" "$work/log" || "$netns" down 2>/dev/null || true
  exit 77
fi
trap '"$netns" down; rm -rf "$work"' EXIT

if "$netns" up 2 2>"$work/log"; then fail "namespaces were made twice"; fi
grep -q "netns.sh down" "$work/log" || fail "says: $(<"$work/log")"
if "$netns" run 3 -- true 2>"$work/log"; then fail "3 ranks in 2 namespaces"; fi
grep -q "make them first: netns.sh up 3" "$work/log" || fail "says: $(<"$work/log")"

cd "$work"
"$subring" tokenize --tokenizer bytes --out data "$source_dir"/docs/*.md >/dev/null 2>&1
before=$("$netns" sent)
"$netns" run 2 -- "$subring" train "$source_dir/configs/small/emulation.yaml" --out run \
  --set 'data.train=data/train_*.bin' --set data.seq_len=512 --set model.hidden_size=64 \
  --set model.intermediate_size=128 --set training.steps=3 --set lr_scheduler.warmup_steps=1 \
  >log 2>&1 || fail "training failed: $(tail -n 3 log)"
sent=$(($("$netns" sent) - before))
# The busier of two ranks sends at least half; the burst is free.
awk -F: -v sent="$sent" '
  match($0, /"step_seconds":[0-9.e+-]+/) { seconds += substr($0, RSTART + 15, RLENGTH - 15) }
  END {
    least = (sent / 2 - 65536) * 8 / 5e6
    printf "netns_test.sh: %d bytes sent in %.2f s; 5 Mbit/s need %.2f s\n", sent, seconds, least
    exit !(least > 1 && seconds > 0.9 * least)
  }' run/metrics.jsonl || fail "the link is not as slow as it was made"

"$netns" run 2 -- sleep 60 >/dev/null 2>&1 &
for ((i = 0; i < 50; ++i)); do
  [[ -z $(ip netns pids subring1) ]] || break
  sleep 0.1
done
"$netns" down
wait $! && fail "a command outlived its namespaces"
[[ ! -e /run/netns/subring-bridge && ! -e /run/netns/subring0 ]] || fail "namespaces are left"
trap 'rm -rf "$work"' EXIT
