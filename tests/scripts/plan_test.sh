#!/usr/bin/env bash
# plan_test.sh SUBRING: the plan subcommand from the command line.
set -euo pipefail
subring=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
fail() { echo "plan_test.sh: $*" >&2; exit 1; }

# refused REGEX ARGUMENTS...: exit status 2 and one line that matches.
refused() {
  local regex=$1 status=0 output
  shift
  output=$("$subring" plan "$@" 2>&1) || status=$?
  ((status == 2)) || fail "exit status $status, not 2: plan $*"
  [[ $(wc -l <<<"$output") == 1 && $output =~ $regex ]] || fail "plan $*: $output"
}

text=$("$subring" plan configs/demo.yaml --device h100 --set network.bandwidth=30Mbps)
for word in '^seconds ' '^tokens/s ' '^bytes kv_forward ' '^bytes weights ' '^MiB wire slots ' \
  '^limit: ' 'not measured' 'bits a token and layer'; do
  grep -q "$word" <<<"$text" || fail "nothing matches '$word' in: $text"
done
# The training configuration has no validation data that a plan would open.
"$subring" plan configs/demo.yaml --set data.train=absent.bin | grep -q '^device: cpu' ||
  fail "no plan of this machine"
rows=$("$subring" plan configs/demo.yaml --device h100 --sweep network.bandwidth=30Mbps..1Gbps |
  grep -c 'bps  ')
((rows == 4)) || fail "$rows rows of a sweep, not 4"

refused 'no_such.yaml' no_such.yaml
refused '--device.*v100' configs/demo.yaml --device v100
refused '--sweep.*network.bandwidth=A..B' configs/demo.yaml --sweep network.latency=1ms..2ms
refused '--sweep.*A up to B' configs/demo.yaml --sweep network.bandwidth=2Gbps..1Gbps
refused '--ranks' configs/demo.yaml --ranks 0
refused 'give --ranks' configs/long.yaml
refused '64 ranks' configs/long.yaml --ranks 128
echo "plan_test.sh: as expected"
