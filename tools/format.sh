#!/usr/bin/env bash
# Formats every C++ and kernel source; with --check only reports what would change. Versions of
# clang-format disagree with each other, so any but 14 is a skip (exit code 77).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

format=clang-format-14
command -v "$format" >/dev/null || format=clang-format
if ! "$format" --version 2>/dev/null | grep -q 'version 14\.'; then
  echo "format.sh: skipped, because clang-format 14 is not installed"
  exit 77
fi

options=(-i)
if [[ "${1:-}" == --check ]]; then
  options=(--dry-run -Werror)
fi
find include/coppice base runtime allocator graphs capi python/core tests samples tools \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.c' \) -print0 |
  xargs -0 "$format" "${options[@]}"
