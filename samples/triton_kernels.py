#!/usr/bin/env python3
"""Three kernels written in Triton, and the code that launches them, as a kernel package.

    triton_kernels.py [-o triton_kernels.zip]

classify() is what one writes to run them on a GPU. Recorded once, without one, it becomes a program
whose grids, sizes and temporaries are expressions of `rows`; the configurations of the autotuned
kernel become variants.
"""

import argparse
import pathlib
import sys

import torch
import triton
import triton.language as tl

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

FEATURES = 64
CLASSES = 40


@triton.jit
def normalize_rows(x, y, rows, epsilon, FEATURES: tl.constexpr, ROWS: tl.constexpr):
    """y = x / sqrt(mean(x * x) + epsilon), row by row."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * FEATURES + tl.arange(0, FEATURES)[None, :]
    inside = row[:, None] < rows
    values = tl.load(x + at, mask=inside, other=0.0)
    scale = 1 / tl.sqrt(tl.sum(values * values, 1) / FEATURES + epsilon)
    tl.store(y + at, values * scale[:, None], mask=inside)


@triton.autotune(
    configs=[triton.Config({"ROWS": 16, "COLUMNS": 16}, num_warps=1, num_stages=1),
             triton.Config({"ROWS": 32, "COLUMNS": 32}, num_warps=2, num_stages=1)],
    key=["rows"])
@triton.jit
def multiply(x, weights, y, rows, columns, FEATURES: tl.constexpr, ROWS: tl.constexpr,
             COLUMNS: tl.constexpr):
    """y = x @ weights."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, 16)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, FEATURES, 16):
        left = tl.load(x + row[:, None] * FEATURES + start + depth[None, :],
                       mask=row[:, None] < rows, other=0.0)
        right = tl.load(weights + (start + depth)[:, None] * columns + column[None, :],
                        mask=column[None, :] < columns, other=0.0)
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(y + row[:, None] * columns + column[None, :], total,
             mask=(row[:, None] < rows) & (column[None, :] < columns))


@triton.heuristics({"WIDTH": lambda arguments: triton.next_power_of_2(arguments["columns"])})
@triton.jit
def softmax_rows(x, columns, WIDTH: tl.constexpr):
    """x = softmax(x) in place; a block has a row."""
    column = tl.arange(0, WIDTH)
    at = x + tl.program_id(0) * columns + column
    values = tl.load(at, mask=column < columns, other=float("-inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(at, powers / tl.sum(powers, 0), mask=column < columns)


def classify(x, weights):
    """softmax(normalize(x) @ weights) of each row."""
    rows = x.shape[0]
    normal = torch.empty_like(x)
    normalize_rows[lambda meta: (triton.cdiv(rows, meta["ROWS"]),)](
        x, normal, rows, 1e-6, FEATURES=FEATURES, ROWS=4)
    shares = torch.empty((rows, CLASSES), dtype=x.dtype, device=x.device)
    multiply[lambda meta: (triton.cdiv(rows, meta["ROWS"]), triton.cdiv(CLASSES, meta["COLUMNS"]))](
        normal, weights, shares, rows, CLASSES, FEATURES=FEATURES)
    softmax_rows[(rows,)](shares, CLASSES)
    return shares


def export(archs=("80", "90a")):
    """The package."""
    from coppice.export.triton_recording import record

    inputs = {"x": torch.empty(8, FEATURES), "weights": torch.empty(FEATURES, CLASSES)}
    rows = {"name": "rows", "min": 1, "max": 65536, "buckets": "pow2",
            "claim": {"padding": "any", "equal": "bits"}}
    return record(classify, inputs, dynamic={"x": {0: rows}}, outputs=["shares"], archs=archs,
                  variants=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-o", "--output", default="triton_kernels.zip", help="zip or folder")
    parser.add_argument("--arch", default="80,90a", help="as python -m coppice.export has it")
    options = parser.parse_args()
    export(options.arch.split(",")).write(options.output)


if __name__ == "__main__":
    main()
