#!/usr/bin/env bash
# scripts/reproduce.sh NAME [--scale small|paper] [--seeds N] [--jobs N] [--dry-run] [-- TRAIN_ARGUMENT...]
#
# Runs one experiment of docs/experiments.md and writes its table and its report page under
# runs/reproduce/. Arms of one seed share initial weights and data order, so differences are paired.
# A run that is there already, with the same settings, is not made again: start the script anew
# after a cut. --dry-run prints the commands of the runs and does nothing.
#
# NAME: table1 table4 (ablations), table2 figure2 (speed), table3 (warm start), table5 (unplug),
# figure5 (rivals), ratio (compression ratios), frontier (ranks and formats), ranks (rank study),
# memory, average (weights by averaging), or all.
# --scale paper needs 8 GPUs: ranks are started by $SUBRING_LAUNCH (default: mpirun -np 8).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/reproduce_arms.sh
source scripts/reproduce_arms.sh

usage() {
  echo "usage: scripts/reproduce.sh NAME [--scale small|paper] [--seeds N] [--jobs N] [--dry-run]" \
    "[-- TRAIN_ARGUMENT...]; NAME: $(experiment_names) all" >&2
  exit 2
}

scale=small seeds=3 jobs=$(nproc) dry_run=no extra=()
name=${1:-}
[[ " $(experiment_names) all " == *" $name "* && -n $name ]] || usage
shift
while (($# > 0)); do
  case $1 in
    --scale) [[ ${2:-} == small || ${2:-} == paper ]] && scale=$2 && shift 2 || usage ;;
    --seeds) [[ ${2:-} =~ ^[1-9][0-9]?$ ]] && seeds=$2 && shift 2 || usage ;;
    --jobs) [[ ${2:-} =~ ^[1-9][0-9]?$ ]] && jobs=$2 && shift 2 || usage ;;
    --dry-run) dry_run=yes && shift ;;
    --) shift && extra=("$@") && break ;;
    *) usage ;;
  esac
done
root=runs/reproduce/$scale
[[ $scale == small ]] || jobs=1  # a paper-size run takes the machine

# command_of EXPERIMENT ARM SEED: sets `command`, all but the output directory.
command_of() {
  local launch=() ranks=()
  if [[ $scale == paper ]]; then
    read -ra launch <<<"${SUBRING_LAUNCH:-mpirun -np 8}"
  else
    ranks=(--local-ranks "$(ranks_of "$1")")
  fi
  local settings
  read -ra settings <<<"$(arm_settings "$2" "$scale")"
  command=(${launch[@]+"${launch[@]}"} build/bin/subring train "$(config_of "$1" "$scale")"
    ${ranks[@]+"${ranks[@]}"} --set "training.seed=$3")
  local setting
  for setting in ${settings[@]+"${settings[@]}"}; do command+=(--set "$setting"); done
  command+=(${extra[@]+"${extra[@]}"})
}

directory_of() { echo "$root/$(family_of "$1")/$2-seed$3"; }

# run EXPERIMENT ARM SEED
run() {
  local command directory
  command_of "$@"
  directory=$(directory_of "$@")
  if [[ $dry_run == yes ]]; then
    echo "${command[*]} --out $directory"
    return
  fi
  if [[ $(cat "$directory.command" 2>/dev/null) == "${command[*]}" ]]; then return; fi
  rm -rf "$directory" "$directory.command"
  mkdir -p "$(dirname "$directory")"
  echo "reproduce.sh: $2, seed $3" >&2
  if ! "${command[@]}" --out "$directory" >"$directory.log" 2>&1; then
    echo "reproduce.sh: ${command[*]} failed:" >&2
    tail -5 "$directory.log" >&2
    return 1
  fi
  echo "${command[*]}" >"$directory.command"  # last: the run is whole
}

# What an experiment's page and table say first.
notes_of() {
  echo "$(title_of "$1")"
  echo
  echo "Made by: scripts/reproduce.sh $1 --scale $scale --seeds $seeds${extra[*]:+ -- ${extra[*]}}"
  echo
  echo "Settings of each arm beside $(config_of "$1" "$scale"):"
  echo
  local arm
  for arm in $(arms_of "$1"); do echo "- $arm: $(arm_settings "$arm" "$scale")"; done
  if [[ $(kind_of "$1") == speed && $scale == small ]]; then
    echo
    echo "Bandwidth is scaled so that the wire time of uncompressed K and V is about 20 times the" \
      "computation, the ratio of the paper's runs at 300 Mbps (2.7K against 55K tokens/s)."
  fi
}

# Last validation loss, median tokens/s without the first and the last step, and the step's K and V
# bytes (all ranks) of one run, as "loss speed bytes"; "-" for what it has not.
figures_of() {
  awk '
    match($0, /"val_loss":[0-9.e+-]+/) { loss = substr($0, RSTART + 11, RLENGTH - 11) }
    match($0, /"tokens_per_second":[0-9.e+-]+/) { speed[++n] = substr($0, RSTART + 20, RLENGTH - 20) }
    match($0, /"kv_forward":[0-9]+/) { forward = substr($0, RSTART + 13, RLENGTH - 13) }
    match($0, /"kv_backward":[0-9]+/) { backward = substr($0, RSTART + 14, RLENGTH - 14) }
    END {
      for (i = 2; i < n; ++i) sorted[i - 1] = speed[i] + 0
      count = n - 2
      for (i = 2; i <= count; ++i)
        for (j = i; j > 1 && sorted[j - 1] > sorted[j]; --j) {
          t = sorted[j]; sorted[j] = sorted[j - 1]; sorted[j - 1] = t
        }
      print (loss == "" ? "-" : loss), (count > 0 ? sorted[int((count + 1) / 2)] : "-"),
        forward + backward
    }' "$1/metrics.jsonl"
}

# table EXPERIMENT: mean over seeds, and the paired difference from the first arm with its standard
# error, in nats a token.
table() {
  local arm seed first
  first=$(arms_of "$1" | head -1)
  printf '%-22s %9s %20s %10s %9s\n' arm "val loss" "minus $first" "tokens/s" "speed"
  for arm in $(arms_of "$1"); do
    for seed in $(seq "$seeds"); do
      echo "$arm $(figures_of "$(directory_of "$1" "$arm" "$seed")")" \
        "$(figures_of "$(directory_of "$1" "$first" "$seed")")"
    done
  done | awk '
    !($1 in n) { order[++arms] = $1 }
    {
      a = $1; n[a]++; loss[a] += $2; d = $2 - $5; sum[a] += d; square[a] += d * d
      speed[a] += $3; ratio[a] += ($6 > 0 ? $3 / $6 : 0)
    }
    END {
      for (i = 1; i <= arms; ++i) {
        a = order[i]; k = n[a]; mean = sum[a] / k
        variance = k > 1 ? (square[a] / k - mean * mean) * k / (k - 1) : 0
        error = sqrt(variance > 0 ? variance / k : 0)
        difference = i == 1 ? "-" : sprintf("%+.4f +- %.4f", mean, error)
        printf "%-22s %9.4f %20s %10.0f %8.3fx\n", a, loss[a] / k, difference, speed[a] / k, ratio[a] / k
      }
    }'
}

# run_experiment NAME
run_experiment() {
  local seed arm running=0 failed=0
  # Speeds are taken one run at a time; losses do not mind company.
  local width=$jobs
  [[ $(kind_of "$1") == speed ]] && width=1
  for seed in $(seq "$seeds"); do
    for arm in $(arms_of "$1"); do
      if [[ $dry_run == yes ]]; then
        run "$1" "$arm" "$seed"
        continue
      fi
      if ((running >= width)); then
        wait -n || failed=1
        ((--running)) || true
      fi
      run "$1" "$arm" "$seed" &
      ((++running))
    done
  done
  while ((running > 0)); do
    wait -n || failed=1
    ((--running)) || true
  done
  ((failed == 0)) || exit 1
  [[ $dry_run == no ]] || return 0

  local directories=() page="$root/$1"
  for arm in $(arms_of "$1"); do directories+=("$(directory_of "$1" "$arm" 1)"); done
  notes_of "$1" >"$page.notes"
  build/bin/subring report "${directories[@]}" --out "$page.html" --title "$1: $(title_of "$1")" \
    --notes "$page.notes" --plot "$(plot_of "$1")"
  {
    cat "$page.notes"
    echo
    table "$1"
  } >"$page.txt"
  cat "$page.txt"
  echo "page of seed 1: $page.html"
}

if [[ $dry_run == no && ! -x build/bin/subring ]]; then
  echo "reproduce.sh: build/bin/subring is not there; run scripts/build.sh" >&2
  exit 2
fi
if [[ $name == all ]]; then
  for name in $(experiment_names); do run_experiment "$name"; done
else
  run_experiment "$name"
fi
