#!/usr/bin/env bash
# Runs clang-tidy with the rules of .clang-tidy over every source, or over those whose path matches
# the first argument, for example `tools/lint.sh graphs/session`. It reads g++'s flags from a build
# folder of its own, without precompiled headers, whose form is g++'s.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v run-clang-tidy >/dev/null; then
  echo "lint.sh: run-clang-tidy is not installed; apt-get install clang-tidy" >&2
  exit 1
fi
cmake --preset dev -B build/lint -DCOPPICE_PRECOMPILED_HEADERS=OFF -DCOPPICE_UNITE_SOURCES=OFF
run-clang-tidy -quiet -p build/lint "$PWD/(base|runtime|allocator|graphs|capi|tools|tests)/.*${1:-}"
