"""Runs a kernel package with NumPy alone, as samples/load_package.c does in C.

    load_package.py triton_kernels.zip

The package has a program of one size that varies, the rows of x, and its weights. Here all that is
on the emulator.
"""

import sys

import numpy as np

import coppice


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: load_package.py triton_kernels.zip")
    model = coppice.load(sys.argv[1], device="emulator")
    weights = np.ones((64, 40), np.float32)
    for rows in (100, 65, 3, 91, 4):
        shares = np.from_dlpack(model(np.ones((rows, 64), np.float32), weights))
        print(f"{rows:3} rows, shares of the last row sum to {shares[-1].sum():.3f}")
    runs = coppice.session().stats()["runs"]
    print(f"{runs['record']} graphs for {sum(runs.values())} calls")


if __name__ == "__main__":
    main()
