#!/usr/bin/env bash
# MPI ranks on one host, each in a network namespace of its own, joined by links that the kernel
# shapes (tbf). As root, with iproute2 and Open MPI.
#
#   scripts/netns.sh up RANKS            make the namespaces subring0, subring1, ... and their links
#   scripts/netns.sh shape RATE          limit up and down of every rank: 300mbit, 5200kbit, none
#   scripts/netns.sh run COMMAND...      mpirun COMMAND, a rank in each namespace
#   scripts/netns.sh sent                bytes that the ranks' data interfaces have sent, in all
#   scripts/netns.sh down                remove all of it
#
# Ranks exchange data over interface e0, which is shaped; launch and abort use e1, which is not.
# The kernel's tbf has no delay: for latency use `network.latency` of the configuration.
set -euo pipefail

readonly bridge=subring-bridge
usage() {
  echo "usage: netns.sh up RANKS | shape RATE | run COMMAND... | sent | down" >&2
  exit 2
}
fail() {
  echo "netns.sh: $*" >&2
  exit 1
}

namespaces() { ip netns list | cut -d' ' -f1 | grep -E '^subring[0-9]+$' | sort -V || true; }
count() { namespaces | wc -l; }
inside() { ip netns exec "$@"; }

down() {
  local namespace
  for namespace in $(namespaces) $bridge; do
    if ip netns list | cut -d' ' -f1 | grep -qx "$namespace"; then ip netns del "$namespace"; fi
  done
}

# Data addresses 10.99.0.(10 + rank), control addresses 10.98.0.(10 + rank).
up() {
  local ranks=$1 rank
  down
  trap 'down' ERR
  ip netns add $bridge
  inside $bridge ip link set lo up
  for link in data control; do
    inside $bridge ip link add $link type bridge
    inside $bridge ip link set $link up
  done
  inside $bridge ip addr add 10.99.0.1/24 dev data
  inside $bridge ip addr add 10.98.0.1/24 dev control
  for ((rank = 0; rank < ranks; ++rank)); do
    ip netns add "subring$rank"
    connect "$rank" e0 data "10.99.0.$((10 + rank))"
    connect "$rank" e1 control "10.98.0.$((10 + rank))"
    inside "subring$rank" ip link set lo up
  done
}

# connect RANK INTERFACE BRIDGE ADDRESS
connect() {
  local port="$3$1"
  ip link add "$2" netns "subring$1" type veth peer name "$port" netns $bridge
  inside $bridge ip link set "$port" master "$3" up
  inside "subring$1" ip addr add "$4/24" dev "$2"
  inside "subring$1" ip link set "$2" up
}

# Upward at the rank's end, downward at the bridge's. The burst must exceed one segmentation-offload
# packet (64 KiB), or the kernel cuts those up, which costs the ranks computation time; but at a few
# Mbit/s that much credit after each pause is a faster link, and cutting is cheap.
shape() {
  local rate=$1 rank end limits="burst 128kb latency 20ms"
  [[ $rate == *kbit ]] && limits="burst 16kb latency 100ms"
  for ((rank = 0; rank < $(count); ++rank)); do
    for end in "subring$rank e0" "$bridge data$rank"; do
      read -r namespace device <<<"$end"
      inside "$namespace" tc qdisc del dev "$device" root 2>/dev/null || true
      [[ $rate == none ]] && continue
      # shellcheck disable=SC2086  # limits are words
      inside "$namespace" tc qdisc add dev "$device" root tbf rate "$rate" $limits ||
        fail "tc refuses the rate '$rate'; must be such as 300mbit, 5200kbit, none"
    done
  done
}

# The launcher's remote shell: HOST is a control address. Each rank has a host name and a temporary
# directory of its own, or Open MPI takes them for one host and uses shared memory.
remote_shell() {
  local host=$1 rank temporary
  shift
  rank=$((${host##*.} - 10))
  temporary=${TMPDIR:-/tmp}/subring-netns/$rank
  mkdir -p "$temporary"
  exec ip netns exec "subring$rank" unshare --uts \
    bash -c "hostname subring$rank; export TMPDIR=$temporary; $*"
}

run() {
  local ranks hosts="" rank self
  ranks=$(count)
  ((ranks > 0)) || fail "no namespaces; make them first: netns.sh up RANKS"
  self=$(realpath "${BASH_SOURCE[0]}")
  for ((rank = 0; rank < ranks; ++rank)); do hosts+="${hosts:+,}10.98.0.$((10 + rank)):1"; done
  exec ip netns exec $bridge mpirun --allow-run-as-root --host "$hosts" --map-by node \
    --bind-to none -np "$ranks" \
    --mca plm rsh --mca plm_rsh_agent "$self remote_shell" \
    --mca oob_tcp_if_include 10.98.0.0/24 \
    --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.99.0.0/24 \
    --mca btl_tcp_flags send,inplace --mca mpi_yield_when_idle 1 "$@"
}

sent() {
  local namespace total=0
  for namespace in $(namespaces); do
    total=$((total + $(inside "$namespace" cat /sys/class/net/e0/statistics/tx_bytes)))
  done
  echo "$total"
}

command=${1:-}
shift || true
case $command in
  up) [[ ${1:-} =~ ^[1-9][0-9]?$ && $# == 1 ]] || usage ;;
  shape) (($# == 1)) || usage ;;
  run | remote_shell) (($# > 0)) || usage ;;
  sent | down) (($# == 0)) || usage ;;
  *) usage ;;
esac
((EUID == 0)) || fail "must be root to make network namespaces"
for tool in ip tc; do
  command -v "$tool" >/dev/null || fail "no $tool here; install iproute2"
done
"$command" "$@"
