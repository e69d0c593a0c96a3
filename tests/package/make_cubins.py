#!/usr/bin/env python3
"""Writes fixtures/*.cubin and fatbins with PTX, and cubins.tsv: what NVIDIA's tools say of them.

    make_cubins.py NVCC TRITON_BIN

TRITON_BIN is the folder of a Triton installation that has cuobjdump and a ptxas of the older ELF
style (triton/backends/nvidia/bin). Nothing here decodes a cubin: parameters, threads, clusters and
registers are cuobjdump's words, static shared memory is what `ptxas -v` printed.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = HERE / "fixtures"
TRITON_PTX = HERE.parent / "ptx" / "fixtures" / "triton.tar.xz"
COLUMNS = ["file", "capability", "kernel", "parameters", "registers", "shared", "max_threads",
           "required_threads", "cluster"]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def shared_of(verbose):
    """Static shared memory per kernel, from `ptxas -v`."""
    shared, kernel = {}, None
    for line in verbose.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            kernel = match[1]
            shared[kernel] = 0
        elif match := re.search(r"(\d+) bytes smem", line):
            shared[kernel] = int(match[1])
    return shared


def values_of(note):
    return ",".join(str(int(number, 16)) for number in re.findall(r"0x\w+", note))


def rows_of(name, cuobjdump, shared):
    text = run(cuobjdump, "-elf", str(FIXTURES / name))
    capability = re.search(r"sm=(\d+)", text)[1]
    registers = dict(re.findall(r"function: (\w+)\(\w+\)\s+register count: (\d+)", text))
    for kernel in sorted(shared):
        notes = re.search(r"^\.nv\.info\." + kernel + r"\n(.*?)(?:^\.|\Z)", text, re.M | re.S)[1]
        found = {attribute: value for attribute, value in re.findall(
            r"EIATTR_(MAX_THREADS|REQNTID|CTA_PER_CLUSTER)\n.*\n\s*Value:(.*)", notes)}
        parameters = sorted(
            (int(ordinal, 16), int(offset, 16), int(size, 16)) for ordinal, offset, size in
            re.findall(r"Ordinal : (\w+)\s+Offset  : (\w+)\s+Size    : (\w+)", notes))
        yield [name, capability, kernel, " ".join(f"{at}:{size}" for _, at, size in parameters),
               registers[kernel], str(shared[kernel]), values_of(found.get("MAX_THREADS", "")),
               values_of(found.get("REQNTID", "")), values_of(found.get("CTA_PER_CLUSTER", ""))]


def main():
    nvcc, triton = sys.argv[1], pathlib.Path(sys.argv[2])
    FIXTURES.mkdir(exist_ok=True)
    source, rows = str(HERE / "cubins.cu"), []
    for arch in ("sm_75", "sm_90a", "sm_100f"):
        name = f"cubins_{arch}.cubin"
        verbose = run(nvcc, "-std=c++20", "-cubin", f"-arch={arch}", "-Xptxas", "-v", source, "-o",
                      str(FIXTURES / name))
        rows += rows_of(name, str(triton / "cuobjdump"), shared_of(verbose))
    # The older style, of PTX that Triton made.
    name = "softmax_sm_80.cubin"
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(TRITON_PTX, folder)
        verbose = run(str(triton / "ptxas"), "-v", "-arch=sm_80", folder + "/softmax.ptx", "-o",
                      str(FIXTURES / name))
    rows += rows_of(name, str(triton / "cuobjdump"), shared_of(verbose))
    lines = ["# Written by make_cubins.py from what cuobjdump and ptxas -v print."]
    lines += ["\t".join(row) for row in [COLUMNS] + rows]
    (FIXTURES / "cubins.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for compressed in (False, True):
        mode = "--compress-mode=size" if compressed else "--no-compress"
        run(nvcc, "-std=c++20", "-fatbin", mode, "-gencode", "arch=compute_80,code=compute_80",
            "-gencode", "arch=compute_90a,code=sm_90a", source, "-o",
            str(FIXTURES / ("compressed.fatbin" if compressed else "cubins.fatbin")))


if __name__ == "__main__":
    main()
