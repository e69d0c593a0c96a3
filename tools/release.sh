#!/usr/bin/env bash
# Builds and checks what a release consists of: an sdist, wheels, an install tree as archives. Needs
# a network. `tools/release.sh --help` says how.
set -euo pipefail
exec python3 -B "$(dirname "${BASH_SOURCE[0]}")/release" "$@"
