#!/bin/sh
# expect_failure.sh SECONDS REGEX COMMAND...: succeeds when COMMAND ends by itself within SECONDS,
# with an exit status other than 0, and prints a line that matches REGEX.
limit=$1
regex=$2
shift 2
output=$(timeout "$limit" "$@" 2>&1)
status=$?
printf '%s\n' "$output"
case $status in
  0) echo "expected a failure, but it ended well"; exit 1 ;;
  124) echo "still running after $limit s"; exit 1 ;;
esac
printf '%s\n' "$output" | grep -q -- "$regex" && exit 0
echo "no line matches: $regex"
exit 1
