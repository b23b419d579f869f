#!/usr/bin/env bash
# network_arguments_test.sh: wrong arguments of the scripts for slow links end with code 2 and one
# line that names what is wrong, before anything else happens; so this needs no rights.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts"

failures=0
# refuses WHAT SCRIPT ARGUMENT...: WHAT must be in the line.
refuses() {
  local what=$1 output status=0
  shift
  output=$("./$1" "${@:2}" 2>&1) || status=$?
  if ((status != 2)) || [[ $output != "$1: "*"$what"*"; usage: "* || $output == *$'\n'* ]]; then
    echo "network_arguments_test.sh: '$*' ended with $status and said: $output" >&2
    failures=$((failures + 1))
  fi
}

refuses "no such subcommand: ''" netns.sh
refuses "no such subcommand: 'start'" netns.sh start
refuses "RANKS is ''" netns.sh up
refuses "RANKS is '0'" netns.sh up 0
refuses "RANKS is '65' and must be 1 to 64" netns.sh up 65
refuses "'up' takes RANKS only" netns.sh up 2 3
refuses "RATE is ''" netns.sh shape
refuses "RATE is '300'" netns.sh shape 300
refuses "RATE is '300Mbps' and must be such as 300mbit" netns.sh shape 300Mbps
refuses "DELAY is '10'" netns.sh shape 300mbit 10
refuses "takes RATE and DELAY only" netns.sh shape 300mbit 10ms 1
refuses "RANKS is 'echo'" netns.sh run echo
refuses "'run' takes RANKS -- COMMAND" netns.sh run 2 echo
refuses "'run' takes RANKS -- COMMAND" netns.sh run 2 --
refuses "'down' takes no arguments" netns.sh down 2
refuses "'sent' takes no arguments" netns.sh sent 2
refuses "rate 'fast'" check_emulation.sh fast
refuses "rate '--slow'" check_emulation.sh --slow
refuses "--repeats is '0'" check_emulation.sh --repeats 0
refuses "--repeats is ''" check_slow_link.sh --repeats
refuses "rate '5mbit' must be kbit/s" check_slow_link.sh 5mbit

((failures == 0)) || exit 1
echo "network_arguments_test.sh: all wrong arguments were refused"
