#!/usr/bin/env bash
# Runs clang-tidy with the rules of .clang-tidy over every source; over those whose path matches the
# first argument, for example `tools/lint.sh graphs/session`; or over the N that commits changed
# last, by `tools/lint.sh --recent N`. It reads g++'s flags from a build folder of its own, without
# precompiled headers, whose form is g++'s.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v run-clang-tidy >/dev/null; then
  echo "lint.sh: run-clang-tidy is not installed; apt-get install clang-tidy" >&2
  exit 1
fi
folders=(base runtime allocator graphs capi tools tests)
sources=".*${1:-}"
if [[ "${1:-}" == --recent ]]; then
  sources=$(git log --name-only --format= -- "${folders[@]/%//*.cc}" | awk '!seen[$0]++' |
            while read -r source; do [[ ! -e "$source" ]] || echo "$source"; done |
            awk -v count="${2:?--recent takes a number}" 'NR <= count' | paste -sd '|')
  sources="($sources)\$"
else
  sources="($(IFS='|'; echo "${folders[*]}"))/$sources"
fi
cmake --preset dev -B build/lint -DCOPPICE_PRECOMPILED_HEADERS=OFF -DCOPPICE_UNITE_SOURCES=OFF
run-clang-tidy -quiet -p build/lint "$PWD/$sources"
