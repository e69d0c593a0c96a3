#!/usr/bin/env bash
# Installs what is missing, builds `coppice run` and what it needs, and replays its built-in traffic
# through recorded graphs. Arguments go to `coppice run`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=coppice-demo
for argument in "$@"; do
  # What executes PTX is in the whole command.
  [[ "$argument" == --package* || "$argument" == --kernels* ]] && program=coppice
done

tools/setup.sh
cmake --preset release
export NINJA_STATUS="[%f of %t, %e s] "
sources=$(ninja -C build/release -n "$program" | grep -c 'Building CXX' || true)
# A source, which is several files compiled as one, takes about 10 s of a core.
((sources == 0)) || echo "demo.sh: compiles $sources sources on $(nproc) cores, which takes about" \
  "$((1 + sources * 10 / $(nproc) / 60)) minutes"
cmake --build --preset release --target "$program"
exec "build/release/tools/$program" run "$@"
