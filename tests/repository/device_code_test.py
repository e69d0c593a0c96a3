#!/usr/bin/env python3
"""Goal: what a GPU runs for staging stays small: registers, spills, instructions, bytes. Method:
nvcc compiles it for one architecture; ptxas says the first two, the cubin the others.

Usage: device_code_test.py NVCC
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NVCC = sys.argv.pop() if len(sys.argv) > 1 else "nvcc"
ARCHITECTURE = "sm_90"
INSTRUCTION_BYTES = 16

REGISTERS_MAX = 64
# By kernel, apart from the bytes of its parameters.
INSTRUCTIONS_MAX = {"Stage": 2000, "StageRagged": 3000, "PackRows": 2000}
CUBIN_BYTES_MAX = 400_000


def kind_of(kernel):
    return re.sub("(Small|Medium|Wide)$", "", kernel)


class Compiled:
    """A kernel file, compiled."""

    def __init__(self, source, folder):
        cubin = pathlib.Path(folder) / "code.cubin"
        done = subprocess.run(
            [NVCC, "-std=c++20", "-O3", "-cubin", f"-arch={ARCHITECTURE}", "-Xptxas", "-v",
             "-I", ROOT / "include", "-I", ROOT, "-o", cubin, ROOT / source],
            check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.bytes = cubin.stat().st_size
        self.registers = {}
        self.local_bytes = {}  # Stack and spills.
        for kernel, stack, stores, loads, registers in re.findall(
                r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill "
                r"stores, (\d+) bytes spill loads.*?Used (\d+) registers", done.stdout, re.DOTALL):
            self.registers[kernel] = int(registers)
            self.local_bytes[kernel] = int(stack) + int(stores) + int(loads)
        sections = subprocess.run(["readelf", "--wide", "--section-headers", cubin], check=True,
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.instructions = {
            kernel: int(size, 16) // INSTRUCTION_BYTES for kernel, size in re.findall(
                r"\.text\.(\w+)\s+PROGBITS\s+\w+\s+\w+\s+(\w+)", sections.stdout)}


class DeviceCodeTest(unittest.TestCase):
    def check(self, source, kernels):
        with tempfile.TemporaryDirectory() as folder:
            code = Compiled(source, folder)
        print(f"{source}: {code.registers} registers, {code.instructions} instructions, "
              f"{code.bytes} bytes", file=sys.stderr)
        self.assertEqual(set(code.registers), kernels)
        self.assertEqual(set(code.instructions), kernels)
        for kernel in kernels:
            with self.subTest(kernel):
                self.assertLessEqual(code.registers[kernel], REGISTERS_MAX)
                self.assertEqual(code.local_bytes[kernel], 0)
                self.assertGreater(code.instructions[kernel], 0)
                self.assertLessEqual(code.instructions[kernel], INSTRUCTIONS_MAX[kind_of(kernel)])
        self.assertLessEqual(code.bytes, CUBIN_BYTES_MAX)

    def test_staging(self):
        self.check("graphs/staging/staging.cu",
                   {kind + size for kind in ("Stage", "StageRagged")
                    for size in ("Small", "Medium", "Wide")})

    def test_packing(self):
        self.check("graphs/staging/pack.cu", {"PackRows"})


if __name__ == "__main__":
    unittest.main()
