#!/usr/bin/env bash
# Builds the documentation site with MkDocs, and fails on a broken link. It needs no network:
#
#   python3 -m venv build/docs-env && build/docs-env/bin/pip install -r docs/requirements.txt
#   tools/docs.sh [OUT]      OUT: build/docs/site; open OUT/index.html, no server is needed
#
# MKDOCS names the program if it is neither in build/docs-env nor on the PATH.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdocs="${MKDOCS:-build/docs-env/bin/mkdocs}"
[[ -x "$mkdocs" ]] || mkdocs="$(command -v mkdocs)" || {
  echo "docs.sh: no mkdocs here; pip install -r docs/requirements.txt" >&2
  exit 77
}

site="$(realpath -m "${1:-build/docs/site}")"
source="$(mktemp -d)"
trap 'rm -rf "$source"' EXIT

# What pages are, and what they link to, each at its path in the repository.
cp -r --parents README.md CHANGELOG.md SECURITY.md ARCHITECTURE.md BENCHMARKS.md CONTRIBUTING.md \
  LICENSE docs python/MIGRATING.md python/tests/GRAPH_BEHAVIOURS.md python/tests/versions.tsv \
  graphs/case/CASE.md runtime/package/FORMAT.md runtime/package/LINT.md \
  runtime/package/kernel_package.schema.json \
  tests/conformance/README.md tests/graphs/PEERS.md samples include "$source"
find "$source" -name __pycache__ -prune -exec rm -rf {} +
rm "$source/docs/mkdocs.yml" "$source/docs/requirements.txt"
# Words behind "python" are for a test; MkDocs takes a fence with one word.
sed -i -E 's/^```python [a-z_]+$/```python/' "$source/python/MIGRATING.md"
# Headers and docstrings, in the place of the lines that name them.
python3 -B tools/reference "$source"

export COPPICE_DOCS_SOURCE="$source" COPPICE_DOCS_SITE="$site" NO_MKDOCS_2_WARNING=1
"$mkdocs" build --strict --clean --config-file docs/mkdocs.yml  # --quiet would hide warnings.
echo "docs.sh: $site/index.html"
