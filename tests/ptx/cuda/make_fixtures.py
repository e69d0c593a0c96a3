#!/usr/bin/env python3
"""Compiles the .cu files to PTX for the launches in cases.py, without a GPU.

    make_fixtures.py [BUILD...]    all, or those named; writes tests/ptx/fixtures/cuda/BUILD.ptx
                                   and launches.json

Needs nvcc of CUDA 13, in the PATH or named by NVCC. What it writes is checked in, so that tests
need none of it, and holds no path of the machine that wrote it.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent))

import cases

FIXTURES = HERE.parent / "fixtures" / "cuda"
NVCC = os.environ.get("NVCC", "nvcc")


def compile_build(source, arch, level):
    optimised = ["-O3"] if level else ["-Xcicc", "-O0"]
    command = [NVCC, "-ptx", "-std=c++17", f"-arch=sm_{arch}", *optimised, f"{source}.cu", "-o",
               "/dev/stdout"]
    ptx = subprocess.run(command, cwd=HERE, check=True, text=True, stdout=subprocess.PIPE).stdout
    for folder in (str(HERE), str(pathlib.Path(NVCC).parent.parent) if "/" in NVCC else str(HERE)):
        assert folder not in ptx, f"the PTX names {folder}"
    return "\n".join(line.rstrip() for line in ptx.splitlines()) + "\n"


def main(names):
    FIXTURES.mkdir(parents=True, exist_ok=True)
    for build, (source, arch, level) in cases.BUILDS.items():
        if names and build not in names:
            continue
        ptx = compile_build(source, arch, level)
        (FIXTURES / f"{build}.ptx").write_text(ptx)
        print(f"{build}: {len(ptx)} bytes")
    version = subprocess.run([NVCC, "--version"], check=True, text=True, stdout=subprocess.PIPE)
    used = sorted({f"{source}.cu" for source, _, _ in cases.BUILDS.values()}) + ["cases.py"]
    sources = {name: hashlib.sha256((HERE / name).read_bytes()).hexdigest() for name in used}
    head = {"nvcc": version.stdout.split("release ")[1].split(",")[0], "sources": sources}
    lines = ",\n".join("    " + json.dumps(launch) for launch in cases.launches())
    text = json.dumps(head)[:-1] + ', "launches": [\n' + lines + "\n]}\n"
    (FIXTURES / "launches.json").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
