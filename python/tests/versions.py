#!/usr/bin/env python3
"""Runs the exporters' tests with each PyTorch that is supported, and writes versions.tsv beside
this file: of each model, type and version the largest error over so many sizes.

    versions.py COPPICE [--environments FOLDER] [--sizes 12] [--seed 1] [VERSION ...]

Makes a virtual environment of each version in FOLDER, of PyPI's wheels, 6 GB each; one that is
there is taken as it is. Lines of versions that are not run stay. Exits with 1 if a test failed.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "versions.tsv"
VERSIONS = ("2.10.0", "2.13.0", "2.15.0")
TESTS = ("torch_export_test.py", "triton_export_test.py")
COLUMNS = ("torch", "triton", "model", "dtype", "by", "sizes", "padded", "error",
           "error_of_one", "mismatches")


def make_environment(folder, version):
    """The interpreter of an environment that has this PyTorch."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"torch=={version}", "numpy",
                        "safetensors"], check=True)
    return python


def run_tests(python, coppice, results, sizes, seed):
    """Whether all tests pass; each model's figures are appended to a file."""
    environment = {**os.environ, "COPPICE_TEST_RESULTS": str(results),
                   "COPPICE_TEST_SIZES": str(sizes), "COPPICE_TEST_SEED": str(seed)}
    codes = [subprocess.run([python, "-B", HERE / test, coppice], env=environment,
                            check=False).returncode for test in TESTS]
    return not any(codes)


def read_table():
    """Lines of the table as dicts of texts."""
    if not TABLE.exists():
        return []
    head, *lines = TABLE.read_text().splitlines()
    return [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in lines]


def write_table(lines):
    def order(line):
        return [int(part) for part in line["torch"].split(".")], line["model"], line["dtype"]

    rows = [COLUMNS] + [[line[name] for name in COLUMNS] for line in sorted(lines, key=order)]
    TABLE.write_text("".join("\t".join(row) + "\n" for row in rows))


def text_of(name, value):
    return f"{value:.1e}" if name.startswith("error") else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("coppice", help="the command, built")
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="VERSION")
    parser.add_argument("--environments", default="build/torch", metavar="FOLDER")
    parser.add_argument("--sizes", type=int, default=12, help="of each model (default 12)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    passed = True
    for version in options.versions:
        python = make_environment(pathlib.Path(options.environments).resolve() / version, version)
        with tempfile.TemporaryDirectory() as scratch:
            results = pathlib.Path(scratch) / "results"
            passed &= run_tests(python, pathlib.Path(options.coppice).resolve(), results,
                                options.sizes, options.seed)
            found = [json.loads(line) for line in results.read_text().splitlines()]
        lines = [{name: text_of(name, line.get(name, "-")) for name in COLUMNS} for line in found]
        write_table([line for line in read_table() if line["torch"] != version] + lines)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
