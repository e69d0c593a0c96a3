"""Kernels in Triton whose PTX the executor is tested with: what models, samplers and libraries
launch, each as small as it can be without losing what is special about it.

make_fixtures.py compiles them, cases.py says with which types and sizes, references.py computes
what they have to. Arrays are dense and the last axis is the fastest, unless a stride is passed.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

# Element by element


@triton.jit
def add_masked(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    total = tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside)
    tl.store(out + i, total, mask=inside)


@triton.jit
def silu_mul(gate_up, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    gate = tl.load(gate_up + row * 2 * columns + i, mask=i < columns).to(tl.float32)
    up = tl.load(gate_up + row * 2 * columns + columns + i, mask=i < columns)
    silu = gate / (1 + tl.exp(-gate))
    tl.store(out + row * columns + i, silu.to(up.dtype) * up, mask=i < columns)


@triton.jit
def where_select(condition, x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(x + i, mask=inside, other=0.0)
    b = tl.load(y + i, mask=inside, other=0.0)
    chosen = tl.where(tl.load(condition + i, mask=inside, other=0) != 0, a, b)
    clamped = tl.clamp(chosen.to(tl.float32), -1.0, 1.0)
    tl.store(out + i, tl.where(i % 3 == 0, tl.maximum(a, b).to(tl.float32), clamped), mask=inside)


@triton.jit
def unary_math(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(x + i, mask=inside, other=1.0)
    tl.store(out + i, tl.exp(v), mask=inside)
    tl.store(out + n + i, tl.log(tl.abs(v)), mask=inside)
    tl.store(out + 2 * n + i, tl.sin(v) * tl.cos(v), mask=inside)
    tl.store(out + 3 * n + i, tl.sqrt(tl.abs(v)) + tl.rsqrt(tl.abs(v)), mask=inside)
    tl.store(out + 4 * n + i, tl.floor(v) + 0.5 * tl.ceil(v), mask=inside)
    tl.store(out + 5 * n + i, tl.erf(v), mask=inside)
    tl.store(out + 6 * n + i, tl.exp2(v) + tl.log2(tl.abs(v)), mask=inside)
    tl.store(out + 7 * n + i, tl.div_rn(v, 3.0) + tl.sqrt_rn(tl.abs(v)), mask=inside)


@triton.jit
def library_math(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(x + i, mask=inside, other=1.0)
    b = tl.load(y + i, mask=inside, other=1.0)
    tl.store(out + i, libdevice.tanh(a), mask=inside)
    tl.store(out + n + i, libdevice.pow(tl.abs(a), b), mask=inside)
    tl.store(out + 2 * n + i, libdevice.log1p(tl.abs(a)), mask=inside)
    tl.store(out + 3 * n + i, libdevice.fmod(a, b), mask=inside)
    tl.store(out + 4 * n + i, libdevice.rint(a) + libdevice.copysign(b, a), mask=inside)


@triton.jit
def double_math(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(x + i, mask=inside, other=1.0)
    b = tl.load(y + i, mask=inside, other=1.0)
    value = tl.fma(a, b, tl.exp(a)) / (tl.sqrt(tl.abs(b)) + 1.0)
    tl.store(out + i, value.to(tl.float32).to(tl.float64) + tl.floor(value), mask=inside)


@triton.jit
def integer_math(x, y, out, wide, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(x + i, mask=inside, other=1)
    b = tl.load(y + i, mask=inside, other=1)
    tl.store(out + i, a // b, mask=inside)
    tl.store(out + n + i, a % b, mask=inside)
    tl.store(out + 2 * n + i, (a << (b & 7)) ^ (a >> (b & 15)), mask=inside)
    tl.store(out + 3 * n + i, tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32), mask=inside)
    long = a.to(tl.int64) * b.to(tl.int64) - (a.to(tl.int64) << 20)
    tl.store(wide + i, tl.where(a > b, long, ~long), mask=inside)
    tl.store(wide + n + i, long // (b.to(tl.int64) + 100000), mask=inside)


@triton.jit
def rope(q, position, out, heads, DIM: tl.constexpr):
    token, head = tl.program_id(0), tl.program_id(1)
    i = tl.arange(0, DIM // 2)
    angle = tl.load(position + token) * tl.exp2(-13.287712 * i.to(tl.float32) / (DIM // 2))
    row = (token * heads + head) * DIM
    first = tl.load(q + row + i).to(tl.float32)
    second = tl.load(q + row + DIM // 2 + i).to(tl.float32)
    cosine, sine = tl.cos(angle), tl.sin(angle)
    tl.store(out + row + i, first * cosine - second * sine)
    tl.store(out + row + DIM // 2 + i, second * cosine + first * sine)


@triton.jit
def embedding(tokens, table, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    token = tl.load(tokens + row)
    i = tl.arange(0, BLOCK)
    value = tl.load(table + token * columns + i, mask=i < columns)
    tl.store(out + row * columns + i, value, mask=i < columns)


@triton.jit
def transpose(x, out, rows, columns, TILE: tl.constexpr):
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = (i[:, None] < rows) & (j[None, :] < columns)
    tile = tl.load(x + i[:, None] * columns + j[None, :], mask=inside)
    turned = (j[:, None] < columns) & (i[None, :] < rows)
    tl.store(out + j[:, None] * rows + i[None, :], tl.trans(tile), mask=turned)


@triton.jit
def shuffle_shapes(x, y, out, picked, index, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i), tl.load(y + i)
    both = tl.join(a, b)
    even, odd = tl.split(tl.reshape(tl.permute(both, (1, 0)), (BLOCK, 2)))
    tl.store(out + tl.arange(0, 2 * BLOCK), tl.interleave(even, tl.flip(odd)))
    tl.store(picked + i, tl.gather(a, tl.load(index + i), axis=0))


@triton.jit
def descriptor_copy(x, out, rows, columns, TILE: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [TILE, TILE])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [TILE, TILE])
    i, j = tl.program_id(0) * TILE, tl.program_id(1) * TILE
    target.store([i, j], source.load([i, j]) * 2)


@triton.jit
def fp8_convert(x, out_e5, back_e5, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    narrow = tl.load(x + i, mask=i < n, other=0.0).to(tl.float8e5)
    tl.store(out_e5 + i, narrow, mask=i < n)
    tl.store(back_e5 + i, narrow.to(tl.float32), mask=i < n)


@triton.jit
def fp8_convert_e4(x, out_e4, back_e4, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    narrow = tl.load(x + i, mask=i < n, other=0.0).to(tl.float8e4nv)
    tl.store(out_e4 + i, narrow, mask=i < n)
    tl.store(back_e4 + i, narrow.to(tl.float32), mask=i < n)


@triton.jit
def quantise_int8(x, out, scales, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + i, mask=i < columns, other=0.0)
    scale = tl.max(tl.abs(v), 0) / 127
    whole = libdevice.rint(v / scale)
    tl.store(out + row * columns + i, whole.to(tl.int8), mask=i < columns)
    tl.store(scales + row, scale)


@triton.jit
def dropout(x, out, kept, n, seed, p, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, i) > p
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, tl.where(keep, v / (1 - p), 0.0), mask=i < n)
    tl.store(kept + i, keep, mask=i < n)


# Reductions and scans


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * columns + i, e / tl.sum(e, 0), mask=i < columns)


@triton.jit
def layer_norm(x, weight, bias, out, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < columns
    v = tl.load(x + row * columns + i, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / columns
    off = tl.where(inside, v - mean, 0.0)
    scale = tl.rsqrt(tl.sum(off * off, 0) / columns + epsilon)
    w, b = tl.load(weight + i, mask=inside), tl.load(bias + i, mask=inside)
    tl.store(out + row * columns + i, off * scale * w + b, mask=inside)


@triton.jit
def rms_norm(x, weight, out, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * columns + i, mask=i < columns, other=0.0).to(tl.float32)
        squares += v * v
    scale = tl.rsqrt(tl.sum(squares, 0) / columns + epsilon)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * columns + i, mask=i < columns, other=0.0).to(tl.float32)
        w = tl.load(weight + i, mask=i < columns, other=0.0).to(tl.float32)
        tl.store(out + row * columns + i, v * scale * w, mask=i < columns)


@triton.jit
def group_norm(x, out, pixels, epsilon, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    channel, i = tl.arange(0, CHANNELS)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (i < pixels) & (channel < CHANNELS)
    at = group * CHANNELS * pixels + channel * pixels + i
    v = tl.load(x + at, mask=inside, other=0.0)
    mean = tl.sum(v) / (CHANNELS * pixels)
    off = tl.where(inside, v - mean, 0.0)
    variance = tl.sum(off * off) / (CHANNELS * pixels)
    tl.store(out + at, off / tl.sqrt(variance + epsilon), mask=inside)


@triton.jit
def reduce_2d(x, rows_out, columns_out, low, parity, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i, j = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    v = tl.load(x + i[:, None] * COLUMNS + j[None, :])
    tl.store(rows_out + i, tl.sum(v, 1))
    tl.store(columns_out + j, tl.max(v, 0))
    value, index = tl.min(v, 1, return_indices=True)
    tl.store(low + i, index + 0 * value.to(tl.int32))
    tl.store(parity + j, tl.xor_sum(v.to(tl.int32, bitcast=True), 0))


@triton.jit
def argmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    tl.store(out + row, tl.argmax(v, 0))


@triton.jit
def cross_entropy(logits, target, loss, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top, total = -float("inf"), 0.0
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(logits + row * columns + i, mask=i < columns, other=-float("inf"))
        higher = tl.maximum(top, tl.max(v.to(tl.float32), 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(v.to(tl.float32) - higher), 0)
        top = higher
    label = tl.load(target + row)
    chosen = tl.load(logits + row * columns + label, mask=label >= 0, other=0.0).to(tl.float32)
    tl.store(loss + row, tl.where(label >= 0, top + tl.log(total) - chosen, 0.0))


@triton.jit
def cumsum(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + i, mask=i < columns, other=0)
    tl.store(out + row * columns + i, tl.cumsum(v, 0), mask=i < columns)


@triton.jit
def recurrence_step(a_left, b_left, a_right, b_right):
    return a_left * a_right, a_right * b_left + b_right


@triton.jit
def recurrence(a, b, out, STEPS: tl.constexpr, CHANNELS: tl.constexpr):
    at = tl.arange(0, STEPS)[:, None] * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    pair = (tl.load(a + at), tl.load(b + at))
    _, state = tl.associative_scan(pair, 0, recurrence_step)
    tl.store(out + at, state)


@triton.jit
def sort_rows(x, out, top, COLUMNS: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    v = tl.load(x + row * COLUMNS + tl.arange(0, COLUMNS))
    tl.store(out + row * COLUMNS + tl.arange(0, COLUMNS), tl.sort(v))
    tl.store(top + row * K + tl.arange(0, K), tl.topk(v, K))


@triton.jit
def conv1d(x, weight, out, length, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    channel = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(TAPS):
        at = i + tap - (TAPS - 1)
        v = tl.load(x + channel * length + at, mask=(at >= 0) & (at < length), other=0.0)
        total += v * tl.load(weight + channel * TAPS + tap)
    tl.store(out + channel * length + i, total, mask=i < length)


# Atomics, and blocks that meet


@triton.jit
def histogram(x, counts, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(counts + tl.arange(0, BINS), tl.histogram(v, BINS, mask=i < n))


@triton.jit
def scatter_add(x, index, sums, halves, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index + i, mask=i < n, other=0)
    v = tl.load(x + i, mask=i < n)
    tl.atomic_add(sums + at, v, mask=i < n)
    tl.atomic_add(halves + at, v.to(tl.float16), mask=i < n, sem="relaxed")


@triton.jit
def atomic_kinds(x, out, last, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_max(out + 0, tl.max(v, 0))
    tl.atomic_min(out + 1, tl.min(v, 0))
    tl.atomic_and(out + 2 + i * 0, v, mask=i < n)
    tl.atomic_or(out + 3 + i * 0, v, mask=i < n)
    tl.atomic_xor(out + 4 + i * 0, v, mask=i < n)
    tl.atomic_xchg(last + i, v, mask=i < n)


@triton.jit
def locked_sum(x, lock, total, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + i, mask=i < columns)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    sum_of = tl.load(total + i, mask=i < columns)
    tl.store(total + i, sum_of + v, mask=i < columns)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def last_block_sum(x, partial, arrived, out, n, BLOCKS: tl.constexpr, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    i = block * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + block, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))
    tl.debug_barrier()
    if tl.atomic_add(arrived, 1) == BLOCKS - 1:
        sums = tl.load(partial + tl.arange(0, BLOCKS), volatile=True)
        tl.store(out, tl.sum(sums, 0))


@triton.jit
def chained_scan(x, flags, carry, out, n, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    i = block * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    before = 0
    if block > 0:
        while tl.atomic_add(flags + block - 1, 0) == 0:
            pass
        before = tl.load(carry + block - 1, volatile=True)
    tl.store(carry + block, before + tl.sum(v, 0))
    tl.debug_barrier()
    tl.atomic_xchg(flags + block, 1)
    tl.store(out + i, before + tl.cumsum(v, 0), mask=i < n)


@triton.jit
def collatz(x, steps, n):
    i = tl.program_id(0)
    v = tl.load(x + i)
    count = 0
    while v > 1:
        if v % 2 == 0:
            v = v // 2
        else:
            v = 3 * v + 1
        count += 1
    tl.store(steps + i, count, mask=i < n)


@triton.jit
def print_values(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.device_print("value ", v)
    tl.device_assert(v > -1000000, "a value is far too small")
    tl.store(out + i, v * 2)


# Products of matrices


@triton.jit
def matmul(a, b, c, m, n, k, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
           SUM: tl.constexpr, PRECISION: tl.constexpr):
    i = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    j = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    total = tl.zeros((TILE_M, TILE_N), SUM)
    for start in range(0, k, TILE_K):
        l = start + tl.arange(0, TILE_K)
        left = tl.load(a + i[:, None] * k + l[None, :],
                       mask=(i[:, None] < m) & (l[None, :] < k), other=0.0)
        right = tl.load(b + l[:, None] * n + j[None, :],
                        mask=(l[:, None] < k) & (j[None, :] < n), other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION, out_dtype=SUM)
    inside = (i[:, None] < m) & (j[None, :] < n)
    tl.store(c + i[:, None] * n + j[None, :], total, mask=inside)


@triton.jit
def linear_gelu(x, weight, bias, out, m, n, k, TILE_M: tl.constexpr, TILE_N: tl.constexpr,
                TILE_K: tl.constexpr):
    i = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    j = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for start in range(0, k, TILE_K):
        l = start + tl.arange(0, TILE_K)
        left = tl.load(x + i[:, None] * k + l[None, :], mask=i[:, None] < m, other=0.0)
        right = tl.load(weight + j[:, None] * k + l[None, :], mask=j[:, None] < n, other=0.0)
        total = tl.dot(left, right.T, total)
    total += tl.load(bias + j, mask=j < n, other=0.0)[None, :]
    gelu = 0.5 * total * (1 + tl.erf(total * 0.70710678))
    inside = (i[:, None] < m) & (j[None, :] < n)
    tl.store(out + i[:, None] * n + j[None, :], gelu, mask=inside)


@triton.jit
def split_k_matmul(a, b, c, n, k, TILE: tl.constexpr, SPLIT: tl.constexpr):
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), tl.float32)
    for start in range(tl.program_id(2) * TILE, k, TILE * SPLIT):
        l = start + tl.arange(0, TILE)
        left = tl.load(a + i[:, None] * k + l[None, :])
        right = tl.load(b + l[:, None] * n + j[None, :])
        total = tl.dot(left, right, total)
    tl.atomic_add(c + i[:, None] * n + j[None, :], total)


@triton.jit
def matmul_int4(a, packed, scales, c, n, k, TILE: tl.constexpr):
    i, j = tl.arange(0, TILE), tl.program_id(0) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), tl.float32)
    for start in range(0, k // 2, TILE // 2):
        l = start + tl.arange(0, TILE // 2)
        pair = tl.load(packed + j[:, None] * (k // 2) + l[None, :])
        low = (pair & 15).to(tl.int32) - 8
        high = ((pair >> 4) & 15).to(tl.int32) - 8
        right = tl.interleave(low, high).to(tl.float16)
        both = 2 * start + tl.arange(0, TILE)
        left = tl.load(a + i[:, None] * k + both[None, :])
        total = tl.dot(left, tl.trans(right), total)
    total = total * tl.load(scales + j)[None, :]
    tl.store(c + i[:, None] * n + j[None, :], total)


# Attention


@triton.jit
def flash_attention(q, k, v, out, length, scale, TILE_M: tl.constexpr, TILE_N: tl.constexpr,
                    DIM: tl.constexpr):
    head = tl.program_id(1) * length * DIM
    i = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    d = tl.arange(0, DIM)
    query = tl.load(q + head + i[:, None] * DIM + d[None, :], mask=i[:, None] < length, other=0.0)
    top = tl.full((TILE_M,), -float("inf"), tl.float32)
    total = tl.zeros((TILE_M,), tl.float32)
    result = tl.zeros((TILE_M, DIM), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * TILE_M, TILE_N):
        j = start + tl.arange(0, TILE_N)
        at = head + j[:, None] * DIM + d[None, :]
        key = tl.load(k + at, mask=j[:, None] < length, other=0.0)
        scores = tl.dot(query, key.T) * scale * 1.44269504
        scores = tl.where(j[None, :] <= i[:, None], scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        value = tl.load(v + at, mask=j[:, None] < length, other=0.0)
        result = tl.dot(weights.to(value.dtype), value, result * shrink[:, None])
        top = higher
    result = result / total[:, None]
    tl.store(out + head + i[:, None] * DIM + d[None, :], result.to(tl.float16),
             mask=i[:, None] < length)


@triton.jit
def paged_attention(q, keys, values, pages, lengths, out, heads, pages_max, scale,
                    PAGE: tl.constexpr, DIM: tl.constexpr):
    sequence, head = tl.program_id(0), tl.program_id(1)
    d, slot = tl.arange(0, DIM), tl.arange(0, PAGE)
    query = tl.load(q + (sequence * heads + head) * DIM + d).to(tl.float32)
    length = tl.load(lengths + sequence)
    top, total = -float("inf"), 0.0
    result = tl.zeros((DIM,), tl.float32)
    for page in range(0, tl.cdiv(length, PAGE)):
        place = tl.load(pages + sequence * pages_max + page).to(tl.int64)
        at = ((place * PAGE + slot[:, None]) * heads + head) * DIM + d[None, :]
        inside = page * PAGE + slot < length
        key = tl.load(keys + at, mask=inside[:, None], other=0.0).to(tl.float32)
        scores = tl.sum(key * query[None, :], 1) * scale
        scores = tl.where(inside, scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 0))
        weights = tl.exp(scores - higher)
        shrink = tl.exp(top - higher)
        value = tl.load(values + at, mask=inside[:, None], other=0.0).to(tl.float32)
        total = total * shrink + tl.sum(weights, 0)
        result = result * shrink + tl.sum(weights[:, None] * value, 0)
        top = higher
    tl.store(out + (sequence * heads + head) * DIM + d, result / total)
