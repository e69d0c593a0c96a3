#!/usr/bin/env python3
"""Goal: functions that launch Triton kernels of their own run by `torch.compile(backend="coppice")`
at all sizes, without a GPU and where Triton finds one.
Method: functions with kernels of every kind are compiled once, called at several sizes, and held
to what PyTorch computes without kernels; grids are held to what a kernel counts.

    backend_kernels_test.py [unittest's options]

Without torch, Triton or the extension all is skipped.
"""

import collections
import contextlib
import os
import random
import sys
import unittest
from unittest import mock

try:
    import torch
    import triton
    import triton.language as tl

    import coppice.torch
    from coppice.torch import kernels
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch, Triton and the extension: {error}") from error

SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
IN_CI = os.environ.get("COPPICE_TEST_SHARE") == "ci"  # Some of the functions, drawn.
SIZES = ((3, 5), (33, 11), (2, 16), (64, 7))  # Other grids each, also full blocks.
BLOCKS = [triton.Config({"BLOCK": 128}, num_warps=1), triton.Config({"BLOCK": 256}, num_warps=2)]
Line = collections.namedtuple("Line", "slope offset")


@triton.jit
def add(x, y, z, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    tl.store(z + at, tl.load(x + at, mask) + tl.load(y + at, mask), mask)


@triton.jit
def mixed(x, BLOCK: tl.constexpr, count, KIND: tl.constexpr, z, scale, shifted, DTYPE: tl.constexpr,
          nothing, one, PAIR: tl.constexpr):
    """Constants stand between arguments."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < count).to(DTYPE) * scale
    if KIND == "double":
        value = value * 2
    if shifted:
        value += 1
    if nothing is None:
        value += PAIR[1]
    tl.store(z + at, value + one, at < count)


@triton.autotune(configs=BLOCKS, key=["count"], reset_to_zero=["z"])
@triton.jit
def accumulate(x, z, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(z + at, tl.load(x + at, at < count), at < count)


@triton.jit
def softmax(x, z, stride, columns, scale, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + at, at < columns, other=-float("inf")) * scale
    powers = tl.exp(value - tl.max(value, 0))
    tl.store(z + row * columns + at, powers / tl.sum(powers, 0), at < columns)


@triton.jit
def double_in_place(x, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < count) * 2, at < count)


@triton.jit
def biased(x, bias, z, count, BIASED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < count)
    if BIASED:
        value += tl.load(bias + at, at < count)
    tl.store(z + at, value, at < count)


@triton.jit
def triple(x, z, rows, columns, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [BLOCK, 16])
    target = tl.make_tensor_descriptor(z, [rows, columns], [columns, 1], [BLOCK, 16])
    at = [tl.program_id(0) * BLOCK, 0]
    target.store(at, source.load(at) * 3)


@triton.autotune(configs=BLOCKS, key=["count"])
@triton.heuristics({"WHOLE": lambda given: given["count"] % 16 == 0})
@triton.jit
def tuned(x, z, count, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, at < count) + (1 if WHOLE else 2), at < count)


@triton.jit
def on_line(x, z, line, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, at < count) * line.slope + line.offset[0], at < count)


@triton.jit
def annotated(x, z, plain, double: tl.float64, half: tl.float16, brain: tl.bfloat16,
              count: tl.int64, small: tl.int8, one: tl.int64, flag: tl.int1, byte: tl.uint8):
    """Types say how numbers are passed, and how far they reach."""
    tl.store(z, double)
    tl.store(z + 1, half.to(tl.float64))
    tl.store(z + 2, brain.to(tl.float64))
    tl.store(z + 3, (count * (1 << 20)).to(tl.float64))
    tl.store(z + 4, (small + 100).to(tl.float64))
    tl.store(z + 5, (one << 40).to(tl.float64))
    tl.store(z + 6, flag.to(tl.float64))
    tl.store(z + 7, byte.to(tl.float64))
    tl.store(z + 8, plain.to(tl.float64))


@triton.jit
def count_blocks(z, BLOCK: tl.constexpr):
    tl.atomic_add(z, 1)
    for axis in tl.static_range(3):
        tl.atomic_max(z + 1 + axis, tl.num_programs(axis))


@triton.jit
def overlap(x, z, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, at < count) + tl.program_id(0), at < count)


def blocks(count, block=128):
    return (triton.cdiv(count, block),)


def twice_the_sum(x):
    z, count = torch.empty_like(x), x.numel()
    add[lambda meta: blocks(count, meta["BLOCK"])](x, x.sin(), z, count, BLOCK=128)
    return z * 2


def constants_between(x):
    z, count = torch.empty_like(x), x.numel()
    mixed[blocks(count)](x, 128, count, "double", z, 0.5, True, tl.float32, None, 1, (3, 4))
    return z


def named_arguments(x):
    z, count = torch.empty_like(x), x.numel()
    mixed[blocks(count, 64)](count=count, x=x, z=z, KIND="plain", BLOCK=64, scale=1.5, num_warps=2,
                             shifted=False, DTYPE=tl.float32, nothing=None, one=x.shape[0],
                             PAIR=(0, 2))
    return z + 1


def one_kernel_twice(x):
    y, z, count = torch.empty_like(x), torch.empty_like(x), x.numel()
    mixed[blocks(count)](x, 128, count, "double", y, 0.5, True, tl.float32, None, 1, (3, 4))
    mixed[blocks(count, 64)](y, 64, count, "plain", z, 2.5, False, tl.float32, None, 2, (3, 5))
    return z, y


def autotuned(x):
    z, count = torch.zeros_like(x), x.numel()
    accumulate[lambda meta: blocks(count, meta["BLOCK"])](x, z, count)
    return z


def of_rows(x):
    z = torch.empty(x.shape, dtype=x.dtype)
    softmax[(x.shape[0],)](x, z, x.stride(0), x.shape[1], 0.5, BLOCK=128)
    return z


def of_a_view(x):
    part, z = x[1:, 1:], torch.zeros(x.shape[0] - 1, x.shape[1] - 1)
    softmax[(part.shape[0],)](part, z, x.stride(0), part.shape[1], 1.0, BLOCK=128)
    return z


def in_place(x):
    y = x + 1
    double_in_place[blocks(y.numel())](y, y.numel(), BLOCK=128)
    double_in_place[blocks(x.numel())](x, x.numel(), BLOCK=128)
    return y, y.sum(), x


def in_place_by_torch(x):
    y = (x + 1) * 2
    return y, y.sum(), x.mul_(2)


def with_or_without(x):
    y, z, count = torch.empty_like(x), torch.empty_like(x), x.numel()
    biased[blocks(count)](x, None, y, count, BIASED=False, BLOCK=128)
    biased[blocks(count)](y, x, z, count, BIASED=True, BLOCK=128)
    return z


def by_descriptors(x):
    wide = torch.nn.functional.pad(x, (0, 16 - x.shape[1] % 17))[:, :16].contiguous()
    z = torch.empty_like(wide)
    triple[blocks(x.shape[0], 8)](wide, z, x.shape[0], 16, BLOCK=8)
    return z


def half_precision(x):
    y = x.bfloat16()
    z = torch.empty_like(y)
    add[blocks(y.numel())](y, y, z, y.numel(), BLOCK=128)
    return z


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        z, count = torch.empty_like(x), x.numel()
        mixed[blocks(count)](x, 128, count, "plain", z, 2.0, False, tl.float32, None, 0, (0, 0))
        return z

    @staticmethod
    def backward(context, gradient):
        z, count = torch.empty_like(gradient), gradient.numel()
        mixed[blocks(count)](gradient.contiguous(), 128, count, "double", z, 1.0, False, tl.float32,
                             None, 0, (0, 0))
        return z


def trained(x):
    return Scaled.apply(x.sin()).cos()


def of_types(x):
    z = torch.zeros(9, dtype=torch.float64)
    annotated[(1,)](x, z, 1e300, 0.1, 0.1, 0.1, x.shape[0] * 4096, 283, 1, True, 255)
    return z


def types_by_torch(x):
    """bf16 is cut, a number beyond its type as well, and f32 is infinite."""
    return torch.tensor([0.1, 0.0999755859375, 0.099609375, float(x.shape[0] << 32), 127.0,
                         float(1 << 40), 1.0, 255.0, float("inf")], dtype=torch.float64)


def left_to_python(x):
    """PyTorch cannot trace heuristics of sizes that vary, nor tuples: the kernels run in Python."""
    y, z, count = torch.empty_like(x), torch.empty_like(x), x.numel()
    tuned[lambda meta: blocks(count, meta["BLOCK"])](x.contiguous(), y, count)
    on_line[blocks(count)](y, z, Line(2.0, (count, None)), count, BLOCK=128)
    return z


def not_lifted(x):
    """A fraction that varies is no argument of a program's kernels."""
    z, count = torch.empty_like(x), x.numel()
    mixed[blocks(count)](x, 128, count, "plain", z, 1.0 / x.shape[0], False, tl.float32, None, 0,
                         (3, 0))
    return z


@torch.library.triton_op("coppice_test::doubled", mutates_args={})
def doubled(x: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    torch.library.wrap_triton(add)[blocks(x.numel())](x, x, z, x.numel(), BLOCK=128)
    return z


@torch.library.custom_op("coppice_test::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    y, z = x.clone(), torch.empty_like(x)
    add[blocks(x.numel())](x, y, z, x.numel(), BLOCK=128)
    return z


@opaque.register_fake
def opaque_fake(x):
    return torch.empty_like(x)


CASES = {  # By the function that launches: what it computes.
    twice_the_sum: lambda x: (x + x.sin()) * 2,
    constants_between: lambda x: x + 6,
    named_arguments: lambda x: x * 1.5 + 2 + x.shape[0] + 1,
    one_kernel_twice: lambda x: ((x + 6) * 2.5 + 7, x + 6),
    autotuned: lambda x: x + 0,
    of_rows: lambda x: torch.softmax(x * 0.5, 1),
    of_a_view: lambda x: torch.softmax(x[1:, 1:], 1),
    in_place: in_place_by_torch,
    with_or_without: lambda x: x * 2,
    by_descriptors: lambda x: torch.nn.functional.pad(x, (0, 16 - x.shape[1] % 17))[:, :16] * 3,
    half_precision: lambda x: x.bfloat16() * 2,
    trained: lambda x: (x.sin() * 2).cos(),
    of_types: types_by_torch,
    lambda x: doubled(x + 1): lambda x: x * 2 + 2,
}
BY_PYTORCH = {
    left_to_python: lambda x: (x + (1 if x.numel() % 16 == 0 else 2)) * 2 + x.numel(),
    not_lifted: lambda x: x / x.shape[0],
    lambda x: opaque(x + 1): lambda x: x * 2 + 2,
}


def two(x):
    z = torch.zeros(4, dtype=torch.int32)
    count_blocks[(2,)](z, BLOCK=128)
    return z + 0


def two_by_rows_by_five(x):
    z = torch.zeros(4, dtype=torch.int32)
    count_blocks[(2, x.shape[0], 5)](z, BLOCK=128)
    return z + 0


def by_a_function(x):
    z = torch.zeros(4, dtype=torch.int32)
    count_blocks[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]), 3)](z, BLOCK=4)
    return z + 0


def found(**_):
    """Instead of PyTorch's has_triton, where Triton has a driver."""
    return True


found.cache_clear = torch.utils._triton.has_triton.cache_clear


def of_tensors(value):
    return value if isinstance(value, tuple) else (value,)


class KernelsTest(unittest.TestCase):
    def tearDown(self):
        torch._dynamo.reset()

    def compare(self, function, right):
        compiled = torch.compile(function, backend="coppice", dynamic=True)
        for size in SIZES:
            x = torch.randn(size, requires_grad=function is trained)
            other = x.detach().clone().requires_grad_(x.requires_grad)
            pairs = list(zip(of_tensors(compiled(x)), of_tensors(right(other)), strict=True))
            if x.requires_grad:
                for part in pairs[0]:
                    part.sum().backward()
                pairs.append((x.grad, other.grad))
            for got, wanted in [*pairs, (x, other)]:
                torch.testing.assert_close(got, wanted, msg=lambda text: f"{size}: {text}")
        return coppice.torch.report(compiled)

    def test_launched_kernels_compute_what_torch_does(self):
        source = random.Random(SEED)
        for function in source.sample(list(CASES), 5) if IN_CI else CASES:
            with self.subTest(function.__name__, seed=SEED):
                reports = self.compare(function, CASES[function])
                self.assertEqual({(True, "")}, {(one.lifted, one.graph_break) for one in reports})
                self.assertGreater(sum(one.kernels for one in reports), 0)

    def test_what_pytorch_runs_launches_on_copies(self):
        for function, right in BY_PYTORCH.items():
            with self.subTest(function.__name__):
                self.compare(function, right)

    def test_grids_are_those_that_were_asked(self):
        """With Triton's driver and without."""
        for there in (torch.utils._triton.has_triton, found):
            for function, right in ((two, lambda rows: [2, 2, 1, 1]),
                                    (two_by_rows_by_five, lambda rows: [10 * rows, 2, rows, 5]),
                                    (by_a_function, lambda rows: [3 * rows, rows, 3, 1])):
                torch._dynamo.reset()
                compiled = torch.compile(function, backend="coppice", dynamic=True)
                with mock.patch.object(torch.utils._triton, "has_triton", there):
                    for rows in (3, 5, 12):
                        got = compiled(torch.zeros(rows, 4)).tolist()
                        self.assertEqual(right(rows), got, (function.__name__, there))

    def test_a_race_of_blocks_is_an_error(self):
        def races(x):
            z = torch.empty_like(x)
            overlap[(2,)](x, z, x.numel(), BLOCK=128)
            return z

        compiled = torch.compile(races, backend="coppice")
        for _ in range(2):
            with self.assertRaisesRegex(coppice.Error, "race: kernel overlap"):
                compiled(torch.zeros(128))

    def test_other_backends_are_left_as_they_are(self):
        compiled = torch.compile(twice_the_sum, backend="eager")
        with mock.patch.object(kernels, "launch_without_driver") as taken, \
                contextlib.suppress(RuntimeError):  # Triton has no driver.
            compiled(torch.zeros(3))
        taken.assert_not_called()


if __name__ == "__main__":
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main()
