#!/usr/bin/env bash
# Fails when a C++ or CUDA file is not formatted as .clang-format says; --fix formats them.
# clang-format's output changes between versions, so only version 14 decides.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

required=14
formatter=
for candidate in "clang-format-$required" clang-format; do
  if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q "version $required\."; then
    formatter=$candidate
    break
  fi
done
if [[ -z $formatter ]]; then
  echo "check_format.sh: skipped, there is no clang-format $required (Debian 12: clang-format)"
  exit 0
fi

mode=(--dry-run -Werror)
[[ ${1:-} != --fix ]] || mode=(-i)
directories=()
for directory in include src kernels tests; do
  [[ ! -d $directory ]] || directories+=("$directory")
done
find "${directories[@]}" -type f \
  \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 "$formatter" "${mode[@]}"
echo "check_format.sh: all files are formatted"
