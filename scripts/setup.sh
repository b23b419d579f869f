#!/usr/bin/env bash
# Installs what subring needs to build and test: Debian 12 and 13, Ubuntu 22.04 and 24.04.
# As root, or with sudo. Does nothing, fast, when all is there.
# docs/dependencies.md says what each package is for.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config
  libdnnl-dev libopenblas-dev libhwy-dev libeigen3-dev
  libopenmpi-dev openmpi-bin openssh-client
  libyaml-cpp-dev libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev
  libsentencepiece-dev libjs-chart.js catch2
)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup.sh: this system has no apt. Install what docs/dependencies.md lists by hand, then run" \
    "scripts/build.sh." >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  # The status ends in "installed" only for a package that is wholly there.
  state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed* ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup.sh: all packages are installed"
  exit 0
fi

as_root=(env DEBIAN_FRONTEND=noninteractive)
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup.sh: not root and no sudo. Ask an administrator to run:" \
      "apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo "${as_root[@]}")
fi

echo "setup.sh: installing ${missing[*]}"
install=(apt-get install -y -q --no-install-recommends "${missing[@]}")
"${as_root[@]}" apt-get update -q
if ! "${as_root[@]}" "${install[@]}"; then
  # shellcheck disable=SC1091  # a file of the system
  echo "setup.sh: apt could not install all packages on $(. /etc/os-release && echo "$PRETTY_NAME")." \
    "On Ubuntu they are in universe: add-apt-repository universe" >&2
  exit 1
fi
