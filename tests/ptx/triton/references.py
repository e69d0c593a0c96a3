"""What the kernels of kernels.py compute, written again with numpy, in double precision where the
order of a sum is the kernel's own affair.

A reference takes the values of a launch's parameters by name, as numbers of the array's own type
(narrow floats as float32), and returns those of the arrays that the kernel writes.
"""

import math

import numpy as np

import number_formats

ERF = np.frompyfunc(math.erf, 1, 1)


def double(array):
    return np.asarray(array, np.float64)


def add_masked(x, y, n):
    return {"out": x + y}


def silu_mul(gate_up, columns):
    gate, up = double(gate_up[:, 0]), gate_up[:, 1]
    silu = (gate / (1 + np.exp(-gate))).astype(np.float16)
    return {"out": silu * up.astype(np.float16)}


def where_select(condition, x, y, n):
    clamped = np.clip(np.where(condition != 0, x, y), -1, 1)
    return {"out": np.where(np.arange(n) % 3 == 0, np.maximum(x, y), clamped)}


def unary_math(x, n):
    v = double(x)
    size = np.abs(v)
    third = (x / np.float32(3)) + np.sqrt(np.abs(x))
    return {"out": np.stack([np.exp(v), np.log(size), np.sin(v) * np.cos(v),
                             np.sqrt(size) + 1 / np.sqrt(size), np.floor(v) + 0.5 * np.ceil(v),
                             double(ERF(v)), np.exp2(v) + np.log2(size), third])}


def library_math(x, y, n):
    a, b = double(x), double(y)
    return {"out": np.stack([np.tanh(a), np.abs(a) ** b, np.log1p(np.abs(a)), np.fmod(a, b),
                             np.rint(a) + np.copysign(b, a)])}


def double_math(x, y, n):
    value = (x * y + np.exp(x)) / (np.sqrt(np.abs(y)) + 1)
    return {"out": value.astype(np.float32) + np.floor(value)}


def towards_zero(a, b):
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) == (b < 0), quotient, -quotient)


def integer_math(x, y, n):
    a, b = x.astype(np.int64), y.astype(np.int64)
    quotient = towards_zero(a, b)
    shifted = ((a << (b & 7)) ^ (a >> (b & 15))).astype(np.int32)
    unsigned = x.astype(np.uint32).astype(np.uint64) * y.astype(np.uint32).astype(np.uint64)
    high = (unsigned >> np.uint64(32)).astype(np.uint32).astype(np.int32)
    long = a * b - (a << 20)
    return {"out": np.stack([quotient, a - quotient * b, shifted, high]),
            "wide": np.stack([np.where(a > b, long, ~long), towards_zero(long, b + 100000)])}


def rope(q, position, heads):
    half = q.shape[2] // 2
    angle = double(position)[:, None] * np.exp2(-13.287712 * np.arange(half) / half)
    cosine, sine = np.cos(angle)[:, None], np.sin(angle)[:, None]
    first, second = double(q[:, :, :half]), double(q[:, :, half:])
    return {"out": np.concatenate([first * cosine - second * sine,
                                   second * cosine + first * sine], 2)}


def embedding(tokens, table, columns):
    return {"out": table[tokens]}


def transpose(x, rows, columns):
    return {"out": x.T}


def shuffle_shapes(x, y, index):
    pairs = np.concatenate([x, y]).reshape(-1, 2)
    return {"out": np.stack([pairs[:, 0], pairs[::-1, 1]], 1).ravel(), "picked": x[index]}


def descriptor_copy(x, rows, columns):
    return {"out": 2 * x}


def fp8_convert(x, n):
    return {"out_e5": x, "back_e5": number_formats.ROUND["e5m2"](x)}


def fp8_convert_e4(x, n):
    return {"out_e4": x, "back_e4": number_formats.ROUND["e4m3"](x)}


def quantise_int8(x, columns):
    scale = np.abs(double(x)).max(1) / 127
    return {"out": np.rint(x / scale[:, None]), "scales": scale}


def philox(seed, offset):
    """The first of the four words of Philox 4x32 with ten rounds at counter (offset, 0, 0, 0)."""
    low = np.uint64(0xFFFFFFFF)
    c = [offset.astype(np.uint64)] + [np.zeros(offset.shape, np.uint64) for _ in range(3)]
    key = [np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)]
    for _ in range(10):
        right, left = np.uint64(0xCD9E8D57) * c[2], np.uint64(0xD2511F53) * c[0]
        c = [(right >> np.uint64(32)) ^ c[1] ^ key[0], right & low,
             (left >> np.uint64(32)) ^ c[3] ^ key[1], left & low]
        key = [(key[0] + np.uint64(0x9E3779B9)) & low, (key[1] + np.uint64(0xBB67AE85)) & low]
    return c[0]


def dropout(x, n, seed, p):
    word = philox(seed, np.arange(n)).astype(np.uint32).astype(np.int32)
    uniform = np.where(word < 0, -word - 1, word).astype(np.float32) * np.float32(4.6566127342e-10)
    keep = uniform > np.float32(p)
    return {"out": np.where(keep, double(x) / (1 - p), 0), "kept": keep}


def softmax(x, columns):
    e = np.exp(double(x) - double(x).max(1, keepdims=True))
    return {"out": e / e.sum(1, keepdims=True)}


def layer_norm(x, weight, bias, columns, epsilon):
    v = double(x)
    off = v - v.mean(1, keepdims=True)
    return {"out": off / np.sqrt(off.var(1, keepdims=True) + epsilon) * weight + bias}


def rms_norm(x, weight, columns, epsilon):
    v = double(x)
    return {"out": v / np.sqrt((v * v).mean(1, keepdims=True) + epsilon) * weight}


def group_norm(x, pixels, epsilon):
    v = double(x)
    off = v - v.mean((1, 2), keepdims=True)
    return {"out": off / np.sqrt(off.var((1, 2), keepdims=True) + epsilon)}


def reduce_2d(x):
    return {"rows_out": double(x).sum(1), "columns_out": x.max(0), "low": x.argmin(1),
            "parity": np.bitwise_xor.reduce(x.view(np.int32), 0)}


def argmax(x, columns):
    return {"out": x.argmax(1)}


def cross_entropy(logits, target, columns):
    v = double(logits)
    total = np.log(np.exp(v).sum(1))
    return {"loss": np.where(target >= 0, total - v[np.arange(len(v)), target], 0)}


def cumsum(x, columns):
    return {"out": x.cumsum(1)}


def recurrence(a, b):
    state, states = np.zeros(a.shape[1]), []
    for keep, add in zip(double(a), double(b)):
        state = keep * state + add
        states.append(state)
    return {"out": np.stack(states)}


def sort_rows(x):
    return {"out": np.sort(x), "top": np.sort(x)[:, :-9:-1]}


def conv1d(x, weight, length):
    taps = weight.shape[1]
    padded = np.pad(double(x), ((0, 0), (taps - 1, 0)))
    return {"out": sum(padded[:, tap:tap + length] * weight[:, tap:tap + 1]
                       for tap in range(taps))}


def histogram(x, counts, n):
    return {"counts": counts + np.bincount(x, minlength=len(counts))}


def scatter_add(x, index, sums, halves, n):
    sums = np.bincount(index, weights=double(x), minlength=len(sums))
    return {"sums": sums, "halves": sums}


def atomic_kinds(x, out, last, n):
    return {"out": np.array([max(0, x.max()), min(out[1], x.min()),
                             np.bitwise_and.reduce(x) & out[2], np.bitwise_or.reduce(x) | out[3],
                             np.bitwise_xor.reduce(x) ^ out[4]]), "last": x}


def locked_sum(x, lock, total, columns):
    return {"lock": lock, "total": double(x).sum(0)}


def last_block_sum(x, partial, arrived, n):
    padded = np.pad(double(x), (0, 1024 - n)).reshape(len(partial), -1)
    return {"partial": padded.sum(1), "arrived": [len(partial)], "out": [padded.sum()]}


def chained_scan(x, flags, carry, n):
    sums = np.pad(x, (0, 512 - n)).reshape(len(flags), -1).sum(1)
    return {"flags": np.ones_like(flags), "carry": sums.cumsum(), "out": x.cumsum()}


def collatz(x, n):
    def steps(value):
        count = 0
        while value > 1:
            value, count = (value // 2 if value % 2 == 0 else 3 * value + 1), count + 1
        return count
    return {"steps": [steps(int(value)) for value in x]}


def print_values(x):
    return {"out": 2 * x}


def matmul(a, b, m, n, k):
    whole = np.issubdtype(a.dtype, np.integer)
    return {"c": a.astype(np.int64) @ b.astype(np.int64) if whole else double(a) @ double(b)}


def linear_gelu(x, weight, bias, m, n, k):
    total = double(x) @ double(weight).T + bias
    return {"out": 0.5 * total * (1 + double(ERF(total / np.sqrt(2))))}


def split_k_matmul(a, b, c, n, k):
    return {"c": double(a) @ double(b)}


def matmul_int4(a, packed, scales, n, k):
    right = np.stack([(packed & 15).astype(int) - 8, (packed >> 4).astype(int) - 8], 2)
    return {"c": double(a) @ right.reshape(n, k).T * scales}


def attend(query, key, value, scale, mask):
    scores = np.where(mask, double(query) @ double(key).T * scale, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ double(value) / weights.sum(-1, keepdims=True)


def flash_attention(q, k, v, length, scale):
    causal = np.tri(length, dtype=bool)
    return {"out": np.stack([attend(*head, scale, causal) for head in zip(q, k, v)])}


def paged_attention(q, keys, values, pages, lengths, heads, pages_max, scale):
    out = np.zeros(q.shape)
    for sequence, length in enumerate(lengths):
        key = keys[pages[sequence]].reshape(-1, *keys.shape[2:])
        value = values[pages[sequence]].reshape(key.shape)
        for head in range(heads):
            out[sequence, head] = attend(q[sequence, head], key[:length, head],
                                         value[:length, head], scale, True)
    return {"out": out}
