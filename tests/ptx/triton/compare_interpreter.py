#!/usr/bin/env python3
"""Times the fixtures' kernels in Triton's interpreter and in `coppice ptx run`, side by side.

    compare_interpreter.py COPPICE [--rounds N] [--all]

What runs is a block of a transformer of 512 tokens, kernel by kernel; with --all the fixtures at
their own sizes too. Each round runs each kernel once in both, one after the other, on the same
drawn inputs; results are held against numpy. Times are of the processor, so that other work on the
machine does not count: the interpreter's of the call alone, the executor's of its whole process,
which starts, parses, reads and writes the arrays as files; without checks, as the interpreter has
none, and with all of them. Prints a table of medians.

Needs Triton and NumPy; no PyTorch and no GPU.
"""

import argparse
import os
import pathlib
import resource
import statistics
import sys
import tempfile
import time

os.environ["TRITON_INTERPRET"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # One core for each side.

import numpy as np
import triton
import triton.language as tl

import kernels
import launches
import number_formats

SEED = 1
NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
         "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "s8": "int8", "u8": "uint8",
         "s32": "int32", "s64": "int64"}
TOKENS, WIDTH = 512, 128
CHECKS = ("none", "all")


class Array:
    """As much of a tensor as the interpreter asks for: its address and its type."""

    def __init__(self, bits, kind):
        self.bits = np.array(bits)
        self.dtype = NAMES[kind]

    def data_ptr(self):
        return self.bits.ctypes.data

    def untyped_storage(self):
        return self

    def cpu(self):
        return self

    def new_empty(self, *_, **__):
        return self

    def set_(self, *_):
        pass

    def copy_(self, _):
        pass

    def storage_offset(self):
        return 0

    def size(self):
        return self.bits.shape

    def stride(self):
        return tuple(step // self.bits.itemsize for step in self.bits.strides)


def resized(known, name, grid, **values):
    """A fixture's launch at another size: shapes and scalars by parameter."""
    launch = dict(known[name], grid=(*grid, 1, 1)[:3], parameters=[])
    for parameter in known[name]["parameters"]:
        change = values.pop(parameter["name"], None)
        if change is not None:
            parameter = dict(parameter, **{"value" if parameter["kind"] == "scalar" else "shape":
                                           change})
        launch["parameters"].append(parameter)
    assert not values, values
    return launch


def block(known):
    """A block of a transformer: 512 tokens of 128 numbers, 4 heads, 256 numbers between."""
    rows, heads, dim = TOKENS // 32, 4, WIDTH // 4
    wide = (TOKENS, WIDTH)
    heads_shape = (heads, TOKENS, dim)

    def product(name, n, k):
        return resized(known, name, (rows, n // 32), a=(TOKENS, k), b=(k, n), c=(TOKENS, n),
                       m=TOKENS, n=n, k=k)
    norm = resized(known, "rms_norm", (TOKENS,), x=wide, weight=(WIDTH,), out=wide, columns=WIDTH)
    rope = resized(known, "rope", (TOKENS, WIDTH // 64), q=(TOKENS, WIDTH // 64, 64),
                   position=(TOKENS,), out=(TOKENS, WIDTH // 64, 64), heads=WIDTH // 64)
    gate = resized(known, "silu_mul", (TOKENS,), gate_up=(TOKENS, 2, WIDTH), out=wide,
                   columns=WIDTH)
    return [norm, product("matmul_f16", 3 * WIDTH, WIDTH), rope, rope,
            resized(known, "flash_attention", (rows, heads), q=heads_shape, k=heads_shape,
                    v=heads_shape, out=heads_shape, length=TOKENS),
            product("matmul_f16", WIDTH, WIDTH), norm, product("matmul_f16", 2 * WIDTH, WIDTH),
            gate, product("matmul_f16", WIDTH, WIDTH)]


def interpret(launch, drawn):
    """Seconds, and a Run like that of coppice."""
    arguments, arrays = {}, {}
    for parameter in launch["parameters"]:
        name, kind = parameter["name"], parameter["type"]
        if parameter["kind"] == "scalar":
            arguments[name] = parameter["value"]
        elif parameter["kind"] != "null":
            bits = drawn.get(name)
            if bits is None:
                bits = number_formats.ENCODE[kind](np.zeros(parameter["shape"]))
            arguments[name] = Array(bits, kind)
            if parameter["kind"] != "in":
                arrays[name] = arguments[name].bits
    for name, value in launch["constants"].items():
        arguments[name] = getattr(tl, value[3:]) if str(value).startswith("tl.") else value
    function = getattr(kernels, launch["kernel"])
    begin = time.process_time()
    function[tuple(launch["grid"])](**arguments)
    return time.process_time() - begin, launches.Run(0, None, "", arrays)


def child_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def execute(coppice, launch, drawn, checks):
    with tempfile.TemporaryDirectory() as folder:
        begin = child_seconds()
        done = launches.run(coppice, launch, drawn, folder, options=["--checks", checks])
        seconds = child_seconds() - begin
    wrong = done.errors or done.findings() if done.code else launches.differences(launch, drawn,
                                                                                  done)
    if wrong:
        sys.exit(f"{launch['name']}: {wrong}")
    return seconds


def compare(coppice, known, rounds):
    """Medians of the interpreter and of coppice by CHECKS, for each launch; a word for what the
    interpreter cannot do."""
    times = [([], [], []) for _ in known]
    failures = {}
    for _ in range(rounds):
        for launch, (interpreted, *executed) in zip(known, times):
            name, drawn = launch["name"], launches.draw(launch, SEED)
            try:
                seconds, done = interpret(launch, drawn)
                interpreted.append(seconds)
                wrong = launches.differences(launch, drawn, done)
                if wrong and name not in failures:
                    print(f"{name}: the interpreter is wrong: {wrong}", file=sys.stderr)
                    failures[name] = "wrong"
            except triton.runtime.errors.InterpreterError as error:
                if name not in failures:
                    print(f"{name}: the interpreter refuses: {error}", file=sys.stderr)
                failures[name] = "refused"
            for checks, seconds in zip(CHECKS, executed):
                seconds.append(execute(coppice, launch, drawn, checks))
    return [(failures.get(launch["name"]) or statistics.median(interpreted),
             *map(statistics.median, executed))
            for launch, (interpreted, *executed) in zip(known, times)]


def row(name, blocks, interpreted, unchecked, checked):
    runs = not isinstance(interpreted, str)

    def ratio(seconds):
        return f"{interpreted / seconds:.0f}x" if runs else ""
    theirs = f"{1000 * interpreted:,.0f} ms" if runs else interpreted
    print(f"| {name} | {blocks} | {theirs} | {1000 * unchecked:.0f} ms | {ratio(unchecked)} "
          f"| {1000 * checked:.0f} ms | {ratio(checked)} |")


def print_table(known, medians):
    print("| kernel | blocks | interpreter | coppice, no checks | ratio | all checks | ratio |\n"
          "|---|---|---|---|---|---|---|")
    blocks = [int(np.prod(launch["grid"])) for launch in known]
    for launch, count, times in zip(known, blocks, medians):
        row(launch["name"], count, *times)
    both = [(count, *times) for count, times in zip(blocks, medians)
            if not isinstance(times[0], str)]
    row("all that both run", *(sum(values) for values in zip(*both)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("coppice", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--all", action="store_true", help="the fixtures at their own sizes too")
    options = parser.parse_args()
    known = launches.read()
    print(f"Triton {triton.__version__}, NumPy {np.__version__}, medians of {options.rounds}\n")
    work = block(known)
    print_table(work, compare(options.coppice, work, options.rounds))
    if options.all:
        work = list(known.values())
        print()
        print_table(work, compare(options.coppice, work, options.rounds))


if __name__ == "__main__":
    main()
