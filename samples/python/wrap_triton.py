#!/usr/bin/env python3
"""Wraps a function that launches two Triton kernels, a product and a softmax, with a varying batch.

    wrap_triton.py                      on a GPU, or else the emulator
    wrap_triton.py --device emulator --rows 5 6 30 7 29

Each call prints its rows, how it ran and why, and how far it is from NumPy. The first call of a
bucket warms it up, the second records it, later ones replay. On the emulator the same kernels run
as PTX, checked. Needs Triton and NumPy, on a GPU PyTorch. Exits with 1 if a result is wrong or the
emulator found something.
"""

import argparse
import sys

import numpy as np
import triton
import triton.language as tl

import coppice
from coppice.running import empty_like

SIZE = 32  # Columns.
TOLERANCE = 5e-3  # Products are of tf32.


@triton.jit
def product_kernel(x, weight, y, rows, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, SIZE)
    left = tl.load(x + row[:, None] * SIZE + column, mask=row[:, None] < rows, other=0.0)
    right = tl.load(weight + column[:, None] * SIZE + column)
    tl.store(y + row[:, None] * SIZE + column, tl.dot(left, right), mask=row[:, None] < rows)


@triton.jit
def softmax_kernel(x, y, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    values = tl.load(x + at)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + at, powers / tl.sum(powers, axis=0))


def layer(x, weight):
    """softmax(x @ weight), of x [rows, SIZE]."""
    rows = x.shape[0]
    product, y = empty_like(x), empty_like(x)
    product_kernel[(triton.cdiv(rows, 16),)](x, weight, product, rows, SIZE=SIZE, BLOCK=16)
    softmax_kernel[(rows,)](product, y, SIZE=SIZE)
    return y


def expected(x, weight):
    product = x @ weight
    powers = np.exp(product - product.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", choices=("auto", "cuda", "emulator"))
    parser.add_argument("--rows", type=int, nargs="+", default=[5, 6, 7, 30, 29, 31, 8, 64, 5])
    options = parser.parse_args()

    device = coppice.device(options.device)
    draw = np.random.default_rng(0)
    weight = draw.standard_normal((SIZE, SIZE)).astype(np.float32)
    if device.kind == "cuda":
        import torch

        placed, bound = (lambda array: torch.from_numpy(array).cuda()), torch.tensor(weight).cuda()
    else:
        placed, bound = (lambda array: array), device.upload(weight)

    wrapped = coppice.wrap(layer, {"x": {0: coppice.Dim("rows", max=max(options.rows))}},
                           claim="row_independent", static="weight", device=device.kind)
    wrong = 0
    for rows in options.rows:
        x = draw.standard_normal((rows, SIZE)).astype(np.float32)
        lease = wrapped.run(placed(x), bound)
        apart = float(np.abs(lease[0].numpy() - expected(x, weight)).max())
        wrong += apart > TOLERANCE
        print(f"{rows:4} rows: {lease.kind:8} {lease.reason:12} {apart:.1e} from NumPy")
        del lease
    for bucket in wrapped.buckets():
        print(f"bucket {bucket['bucket'][0]:3}: {bucket['replays']} replays of "
              f"{bucket['graph_nodes']} kernels in {bucket['plan_height']} bytes")
    found = device.findings()
    print("\n".join(found) or f"{wrapped.stats()['calls']} calls, nothing found wrong")
    return 1 if wrong or found else 0


if __name__ == "__main__":
    sys.exit(main())
