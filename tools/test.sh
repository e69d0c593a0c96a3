#!/usr/bin/env bash
# Installs what is missing, builds everything and runs every test. Arguments go to ctest, for
# example `tools/test.sh -R session`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/setup.sh
cmake --preset release
cmake --build --preset release
ctest --preset release "$@"
# Why tests were skipped, and how many; ctest prints neither.
sed -n '/: Skipped$/{n;p}; /: skipped, because/p' \
  build/release/Testing/Temporary/LastTest.log | sort | uniq -c
