#!/usr/bin/env bash
# Installs what is missing, builds the command and replays its built-in traffic through recorded
# graphs. Arguments go to `coppice run`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/setup.sh
cmake --preset release
cmake --build --preset release --target coppice
exec build/release/tools/coppice run "$@"
