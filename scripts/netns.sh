#!/usr/bin/env bash
# MPI ranks on one host, each in a network namespace of its own, joined by links that the kernel
# shapes (tbf). As root, with iproute2 and Open MPI. docs/network.md.
#
#   scripts/netns.sh up RANKS               make namespaces subring0, subring1, ... and their links
#   scripts/netns.sh shape RATE [DELAY]     limit up and down of every rank: 300mbit, 5200kbit, none;
#                                           DELAY, such as 10ms, one way (needs a kernel with netem)
#   scripts/netns.sh run RANKS -- COMMAND.. mpirun COMMAND, a rank in each of the first RANKS
#   scripts/netns.sh sent                   bytes that the ranks' data interfaces have sent, in all
#   scripts/netns.sh down                   remove all of it, and end what still runs there
#
# Ranks exchange data over interface e0, which is shaped; launch and abort use e1, which is not.
# Exit codes: that of COMMAND; 1 it cannot be done here; 2 wrong arguments.
set -euo pipefail

readonly bridge=subring-bridge
readonly most_ranks=64
temporary=${TMPDIR:-/tmp}/subring-netns

usage() {
  echo "netns.sh: $1; usage: netns.sh up RANKS | shape RATE [DELAY] | run RANKS -- COMMAND... |" \
    "sent | down" >&2
  exit 2
}
fail() {
  echo "netns.sh: $*" >&2
  exit 1
}

inside() { ip netns exec "$@"; }
# Those of the ranks, in order.
namespaces() {
  ip netns list | awk '$1 ~ /^subring[0-9]+$/ { print substr($1, 8) }' | sort -n |
    sed 's/^/subring/'
}
count() { namespaces | wc -l; }
exists() { [[ -e /run/netns/$1 ]]; }

down() {
  local namespace
  for namespace in $(namespaces) $bridge; do
    exists "$namespace" || continue
    # A namespace lives as long as a process in it.
    ip netns pids "$namespace" | xargs --no-run-if-empty kill 2>/dev/null || true
    ip netns del "$namespace"
  done
  rm -rf "$temporary"
}

# Data addresses 10.99.0.(10 + rank), control addresses 10.98.0.(10 + rank).
up() {
  local ranks=$1 rank link
  ! exists $bridge || fail "there are namespaces already; remove them first: netns.sh down"
  # Whatever ends this before all is made.
  trap 'down' EXIT
  trap 'exit 1' INT TERM HUP
  ip netns add $bridge || fail "cannot make network namespaces here (a container without rights?)"
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
  trap - EXIT
}

# connect RANK INTERFACE BRIDGE ADDRESS
connect() {
  local port="$3$1"
  ip link add "$2" netns "subring$1" type veth peer name "$port" netns $bridge
  inside $bridge ip link set "$port" master "$3" up
  inside "subring$1" ip addr add "$4/24" dev "$2"
  inside "subring$1" ip link set "$2" up
}

# Upward at the rank's end, downward at the bridge's. `burst` is the credit that an idle link may
# save up. Above 20 Mbit/s it exceeds a segmentation-offload packet (64 KiB), or the kernel cuts
# those up, which takes time from the ranks' computation; below, 128 KiB after each pause would be a
# faster link (0.2 s of 5 Mbit/s), and cutting is cheap. `latency` bounds the queue, in time: it
# delays nothing, and must hold a few packets.
shape() {
  local rate=$1 delay=${2:-} bits limits rank
  bits=$(bits_per_second "$rate")
  limits="burst 128kb latency 20ms"
  ((bits >= 20000000)) || limits="burst 16kb latency 100ms"
  (($(count) > 0)) || fail "no namespaces; make them first: netns.sh up RANKS"
  for ((rank = 0; rank < $(count); ++rank)); do
    limit "subring$rank" e0 "$rate" "$limits"
    limit $bridge "data$rank" "$rate" "$limits"
    # Once on the way of each message: where it leaves its rank.
    [[ -z $delay ]] || delay "subring$rank" e0 "$rate" "$delay"
  done
}

# Prints 0 for a rate that is none.
bits_per_second() {
  case $1 in
    none) echo 0 ;;
    *kbit) echo "${1%kbit}000" ;;
    *mbit) echo "${1%mbit}000000" ;;
    *gbit) echo "${1%gbit}000000000" ;;
  esac
}

# limit NAMESPACE DEVICE RATE LIMITS
limit() {
  inside "$1" tc qdisc del dev "$2" root 2>/dev/null || true
  [[ $3 != none ]] || return 0
  # shellcheck disable=SC2086  # LIMITS are words
  inside "$1" tc qdisc add dev "$2" root handle 1: tbf rate "$3" $4 ||
    fail "tc cannot limit $2 of $1 to $3"
}

# delay NAMESPACE DEVICE RATE DELAY: in front of the limit, or alone.
delay() {
  local parent="root"
  [[ $3 == none ]] || parent="parent 1:1"
  # shellcheck disable=SC2086  # two words
  inside "$1" tc qdisc add dev "$2" $parent netem delay "$4" limit 10000 2>/dev/null && return
  shape none
  fail "this kernel has no netem, so no delay; emulate it: --set network.latency=$4"
}

# The launcher's remote shell: HOST is a control address. Each rank has a host name and a temporary
# directory of its own, or Open MPI takes them for one host and uses shared memory.
remote_shell() {
  local rank=$((${1##*.} - 10))
  shift
  mkdir -p "$temporary/$rank"
  exec ip netns exec "subring$rank" unshare --uts \
    bash -c "hostname subring$rank; export TMPDIR='$temporary/$rank'; $*"
}

run() {
  local ranks=$1 hosts="" rank self
  shift 2
  (($(count) >= ranks)) || fail "$ranks ranks need as many namespaces, and there are $(count);" \
    "make them first: netns.sh up $ranks"
  self=$(realpath "${BASH_SOURCE[0]}")
  for ((rank = 0; rank < ranks; ++rank)); do hosts+="${hosts:+,}10.98.0.$((10 + rank)):1"; done
  # send,inplace: without it both directions of an exchange sometimes take turns.
  exec ip netns exec $bridge mpirun --allow-run-as-root --host "$hosts" --map-by node \
    --bind-to none -np "$ranks" \
    --mca plm rsh --mca plm_rsh_agent "$self remote_shell" \
    --mca oob_tcp_if_include 10.98.0.0/24 \
    --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.99.0.0/24 \
    --mca btl_tcp_flags send,inplace --mca mpi_yield_when_idle 1 "$@"
}

sent() {
  local namespace total=0
  (($(count) > 0)) || fail "no namespaces; make them first: netns.sh up RANKS"
  for namespace in $(namespaces); do
    total=$((total + $(inside "$namespace" cat /sys/class/net/e0/statistics/tx_bytes)))
  done
  echo "$total"
}

check_ranks() {
  [[ ${1:-} =~ ^[1-9][0-9]?$ ]] || usage "RANKS is '${1:-}' and must be 1 to $most_ranks"
  (($1 <= most_ranks)) || usage "RANKS is '$1' and must be 1 to $most_ranks"
}

check_arguments() {
  case ${1:-} in
    up)
      check_ranks "${2:-}"
      (($# == 2)) || usage "'up' takes RANKS only"
      ;;
    shape)
      [[ ${2:-} =~ ^([1-9][0-9]*[kmg]bit|none)$ ]] ||
        usage "RATE is '${2:-}' and must be such as 300mbit, 5200kbit, none"
      [[ $# == 2 || $3 =~ ^[0-9]+[mu]s$ ]] || usage "DELAY is '$3' and must be such as 10ms, 200us"
      (($# <= 3)) || usage "'shape' takes RATE and DELAY only"
      ;;
    run)
      check_ranks "${2:-}"
      [[ ${3:-} == -- && $# -ge 4 ]] || usage "'run' takes RANKS -- COMMAND"
      ;;
    sent | down) (($# == 1)) || usage "'$1' takes no arguments" ;;
    remote_shell) (($# >= 3)) || usage "'remote_shell' is for mpirun" ;;
    *) usage "no such subcommand: '${1:-}'" ;;
  esac
}

check_arguments "$@"
((EUID == 0)) || fail "network namespaces can be made by root only"
for tool in ip tc; do
  command -v "$tool" >/dev/null || fail "no '$tool' here; install iproute2"
done
"$@"
