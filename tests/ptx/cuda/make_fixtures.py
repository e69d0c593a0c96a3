#!/usr/bin/env python3
"""Compiles the .cu files to PTX for the launches in cases.py, without a GPU.

    make_fixtures.py [BUILD...]    all, or those named; writes tests/ptx/fixtures/cuda.tar.xz:
                                   BUILD.ptx and launches.json

They are what nvcc makes and neither Triton nor the project's own kernels have: calls by pointer,
recursion, CUDA's mathematics, types of 8 bits, the whole grid waiting, text that is printed.
Needs nvcc of CUDA 13, in the PATH or named by NVCC. What it writes is checked in, so that tests
need none of it, and holds no path of the machine that wrote it.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent))

import archive
import cases

FIXTURES = HERE.parent / "fixtures" / "cuda.tar.xz"
NVCC = os.environ.get("NVCC", "nvcc")


def compile_build(source, arch, level):
    optimised = ["-O3"] if level else ["-Xcicc", "-O0"]
    command = [NVCC, "-ptx", "-std=c++17", f"-arch=sm_{arch}", *optimised, f"{source}.cu", "-o",
               "/dev/stdout"]
    ptx = subprocess.run(command, cwd=HERE, check=True, text=True, stdout=subprocess.PIPE).stdout
    for folder in (str(HERE), str(pathlib.Path(NVCC).parent.parent) if "/" in NVCC else str(HERE)):
        assert folder not in ptx, f"the PTX names {folder}"
    # What a source keeps to itself is named after a hash of its folder.
    ptx = re.sub(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}_", r"\g<1>00000000_", ptx)
    return "\n".join(line.rstrip() for line in ptx.splitlines()) + "\n"


def main(names):
    texts = archive.read(FIXTURES) if names else {}
    for build, (source, arch, level) in cases.BUILDS.items():
        if names and build not in names:
            continue
        ptx = compile_build(source, arch, level)
        texts[f"{build}.ptx"] = ptx
        print(f"{build}: {len(ptx)} bytes")
    version = subprocess.run([NVCC, "--version"], check=True, text=True, stdout=subprocess.PIPE)
    used = sorted({f"{source}.cu" for source, _, _ in cases.BUILDS.values()}) + ["cases.py"]
    sources = {name: hashlib.sha256((HERE / name).read_bytes()).hexdigest() for name in used}
    head = {"nvcc": version.stdout.split("release ")[1].split(",")[0], "sources": sources}
    lines = ",\n".join("    " + json.dumps(launch) for launch in cases.launches())
    texts["launches.json"] = json.dumps(head)[:-1] + ', "launches": [\n' + lines + "\n]}\n"
    archive.write(FIXTURES, texts)


if __name__ == "__main__":
    main(sys.argv[1:])
