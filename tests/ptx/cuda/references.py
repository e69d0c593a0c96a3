"""What the kernels of the .cu files compute, written again with numpy; triton/references.py says
how."""

import math

import numpy as np

import number_formats


def double(array):
    return np.asarray(array, np.float64)


def mapped(function, values):
    return double(np.frompyfunc(function, 1, 1)(double(values)))


def wrapped(values):
    """As 32 bits hold them."""
    return np.asarray(values).astype(np.uint64).astype(np.uint32).view(np.int32)


def block_scan(x):
    return {"sums": np.cumsum(x, 1) - x, "total": x.sum(1)}


def block_reduce(x, n):
    return {"largest": [x[i:i + 128].max() for i in range(0, n, 128)]}


def radix_sort(keys):
    origin = np.argsort(keys, 1, kind="stable")
    return {"sorted": np.take_along_axis(keys, origin, 1), "origin": origin}


def look_back(x, states, ticket):
    sums = np.cumsum(x)
    ends = wrapped(sums[63::64]).view(np.uint32).astype(np.uint64)
    return {"sums": sums, "states": ends | np.uint64(2 << 32), "ticket": [len(states)]}


def grid_sync(x, rounds):
    for _ in range(rounds):
        x = x + np.roll(x, -1, 0)
    return {"x": x}


def dynamic_shared(x):
    return {"out": x[:, ::-1]}


def pipeline(x, stages):
    return {"out": double(x[:stages, ::-1]).sum(0)}


def wmma_product(a, b, k):
    return {"c": double(a) @ double(b).T}


def block_barrier(x, rounds):
    lane = np.arange(96) % 32
    return {"out": sum(x[i, (lane + i) % 32] for i in range(rounds))}


def warp_operations(x):
    out = np.zeros((12, len(x)), np.int64)
    for first in range(0, len(x), 32):
        v = x[first:first + 32].astype(np.int64)
        lane = np.arange(32)
        ballot = int(sum(1 << i for i in lane if v[i] > 0))
        low = v & 3
        rows = [v[(lane & ~7) + lane * 5 % 8],
                np.where(lane >= 3, v[lane - 3], v),
                np.where(lane % 16 + 5 < 16, v[(lane + 5) % 32], v), v[lane ^ 9],
                np.full(32, ballot), np.full(32, (v > 90).any() * 2 + (v > -90).all()),
                [sum(1 << int(j) for j in np.flatnonzero(low == low[i])) for i in lane],
                np.full(32, len(set(v >> 20)) == 1), np.full(32, v.sum()), np.full(32, v.min()),
                np.full(32, np.bitwise_xor.reduce(v)), np.where(v & 1, (v & 1).sum(), 0)]
        out[:, first:first + 32] = wrapped(rows)
    return {"out": out}


def recursion(x):
    known = [0, 1]
    while len(known) <= x.max():
        known.append(known[-1] + known[-2])
    return {"out": np.array(known)[x]}


def indirect_calls(which, a, b):
    return {"out": np.choose(which, [a + b, a - b, a * b])}


def towards_zero(a, b):
    return np.sign(a) * (np.abs(a) // b)


def switch_table(which, x, out):
    def one(kind, value, before):
        bits = value & 0xffffffff
        return [value * value, int(towards_zero(value, 7)), int(f"{bits:032b}"[::-1], 2),
                bin(bits).count("1") + before, value - 13 * int(towards_zero(value, 13)),
                32 - bits.bit_length(), before + value, min(value, before), value, value][kind]
    return {"out": wrapped([one(*map(int, values)) for values in zip(which, x, out)])}


def prints(x, y):
    return {}


def asserts(x):
    return {"out": x}


def library_floats(x):
    v = double(x)
    size = np.abs(x)  # As the kernel rounds it.
    return {"out": np.stack([np.sin(v), np.cos(v), np.exp(v), np.log(double(size)),
                             double(size) ** double(np.float32(1.7)), mapped(math.erf, v),
                             mapped(math.gamma, size + np.float32(0.5))])}


def library_doubles(x):
    size = np.abs(x)
    return {"out": np.stack([np.sin(x), np.exp(x), np.log(size), size ** 1.7,
                             mapped(math.erf, x)])}


def halves(x, y, n):
    a, b = double(x), double(y)
    return {"out": np.stack([a * b + 0.5, np.maximum(a, b), np.abs(a) - b, a > b])}


def bfloats(x, y, n):
    v = double(x)
    return {"out": np.stack([double(y), v * v + 1]), "wide": x}


def fp8(x):
    e4, e5 = number_formats.ROUND["e4m3"](x), number_formats.ROUND["e5m2"](x)
    return {"e4": e4, "e5": e5, "back": e4 - e5}


def applied(values, cleared):
    """What is at the places after every value was; the last two tell how often one came first."""
    count = len(values)
    return [values.sum(), 0, values.max(), np.bitwise_and.reduce(values) & cleared,
            np.bitwise_or.reduce(values), np.bitwise_xor.reduce(values), -values.sum(),
            count % 100, -count % 100, 2 * values.sum(), 1, 1]


def atomics(x, out, sum, wide_sum, wide):
    whole = double(x).sum() / 2
    parts = np.sum([applied(block.astype(np.int64), -1) for block in x], 0)
    return {"out": np.concatenate([parts, applied(x.ravel().astype(np.int64), 0)]),
            "sum": [whole], "wide_sum": [whole], "wide": [int(x.max()) << 33]}
