#!/usr/bin/env bash
# Installs what the build, the demo and the tests need, on Debian 12 and 13 and Ubuntu 24.04, and
# the packages given as arguments.
# Looks first: where nothing is missing it makes no apt call and needs no rights.
set -euo pipefail

packages=(
  g++ cmake ninja-build python3
  libabsl-dev libboost-dev libfmt-dev libssl-dev libcli11-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev clang-format openssl valgrind python3-numpy python3-jsonschema
  abigail-tools python3-dev python3-venv libjs-chart.js pkg-config libcpp-httplib-dev
  python3-prometheus-client "$@"
)

fail() {
  echo "setup.sh: $1" >&2
  exit 1
}

command -v dpkg-query >/dev/null ||
  fail "no dpkg here; install the equivalents of: ${packages[*]}"

missing=()
for package in "${packages[@]}"; do
  state="$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)"
  [[ "$state" == installed ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null ||
    fail "needs root or sudo to run: apt-get install ${missing[*]}"
  as_root=(sudo)
fi

echo "setup.sh: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
