#!/usr/bin/env bash
# reproduce_test.sh SUBRING: every command that scripts/reproduce.sh would run at small scale is one
# that subring accepts, and bad arguments are refused.
set -euo pipefail
subring=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seq 30000 >"$work/text.txt"
"$subring" tokenize --tokenizer bytes --out "$work/data" "$work/text.txt" >/dev/null 2>&1
data=(--set "data.train=$work/data/train_*.bin" --set "data.validation=")

scripts/reproduce.sh all --dry-run --seeds 1 | sort -u >"$work/commands"
count=0
while read -ra words; do
  [[ ${words[0]} == build/bin/subring ]] || { echo "FAILED: not a run: ${words[*]}" && exit 1; }
  if ! "$subring" "${words[@]:1}" "${data[@]}" --dry-run >"$work/log" 2>&1; then
    echo "FAILED: ${words[*]}: $(cat "$work/log")"
    exit 1
  fi
  count=$((count + 1))
done <"$work/commands"
((count >= 30)) || { echo "FAILED: only $count runs" && exit 1; }

scripts/reproduce.sh table1 --scale paper --seeds 1 --dry-run >"$work/paper"
grep -q '^mpirun -np 8 build/bin/subring train configs/paper/800m.yaml ' "$work/paper" ||
  { echo "FAILED: no paper-size commands" && exit 1; }
for bad in "" "table9" "table1 --seeds 0" "table1 --scale huge"; do
  status=0
  # shellcheck disable=SC2086  # arguments are words
  scripts/reproduce.sh $bad >/dev/null 2>"$work/log" || status=$?
  ((status == 2)) && [[ $(wc -l <"$work/log") == 1 ]] ||
    { echo "FAILED: '$bad' ends with $status: $(cat "$work/log")" && exit 1; }
done
echo "reproduce_test.sh: $count commands are accepted"
