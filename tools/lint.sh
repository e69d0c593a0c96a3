#!/usr/bin/env bash
# Runs clang-tidy with the rules of .clang-tidy over the sources of the dev build, or over those
# whose path matches the first argument, for example `tools/lint.sh graphs/session`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v run-clang-tidy >/dev/null; then
  echo "lint.sh: run-clang-tidy is not installed; apt-get install clang-tidy" >&2
  exit 1
fi
cmake --preset dev
run-clang-tidy -quiet -p build/dev "$PWD/(base|runtime|allocator|graphs|tools|tests)/.*${1:-}"
