#!/usr/bin/env python3
"""Goal: Triton's own launches run on the emulator, by themselves and in wrapped callables.
Method: kernels with masks, dots, heuristics, scratch and every type of argument are held to NumPy;
wrong accesses have to be found at their line.

    wrap_triton_test.py [unittest's options]

Without Triton, NumPy or the extension all is skipped.
"""

import collections
import gc
import subprocess
import sys
import unittest

try:
    import numpy as np
    import triton
    import triton.language as tl

    import coppice
    import coppice.triton
    from coppice.running import empty, empty_like
except ImportError as error:
    raise unittest.SkipTest(f"needs Triton, NumPy and the extension: {error}") from error

from coppice.errors import InvalidArgument

device = coppice.device("emulator")


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + at, powers / tl.sum(powers, axis=0), mask=at < columns)


@triton.jit
def matmul_kernel(a, b, c, rows, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, SIZE)
    left = tl.load(a + row[:, None] * SIZE + inner[None, :], mask=row[:, None] < rows, other=0.0)
    right = tl.load(b + inner[:, None] * SIZE + inner[None, :])
    tl.store(c + row[:, None] * SIZE + inner[None, :], tl.dot(left, right),
             mask=row[:, None] < rows)


@triton.jit
def arguments_kernel(y, flag, small, large, half, ratio, nothing, pair, WORD: tl.constexpr):
    value = small + large + half + ratio + pair[0] + pair[1]
    if flag:
        value += 1000
    if nothing is None:
        value += WORD
    tl.store(y, value.to(tl.float32))


@triton.jit
def beyond_kernel(x, y, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at), mask=at < count)


def softmax(x):
    y = empty_like(x)
    columns = x.shape[1]
    softmax_kernel[(x.shape[0],)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
    return y


class OnHost:
    """Memory of the host, as a tensor of another library has it."""

    dtype = "float32"

    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return self.array.ctypes.data


def layer(x, weight):
    rows, size = x.shape
    product = empty([rows, size], "f32")
    matmul_kernel[(triton.cdiv(rows, 16),)](x, weight, product, rows, SIZE=size, BLOCK=16)
    return softmax(product)


def softmax_of(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def random_rows(rows, columns):
    return np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)


Part = collections.namedtuple("Part", "start step")


@triton.jit
def fill_kernel(y, shape: tl.constexpr, part, count):
    at = tl.arange(0, shape[0] * shape[1])
    tl.store(y + at, part.start + at * part.step[0], mask=at < count)


def filled(x):
    y = empty([64], "f32")
    fill_kernel[(1,)](y, (8, 8), Part(7, (3, None)), x.shape[0])
    return y


class LaunchTest(unittest.TestCase):
    def tearDown(self):
        self.assertIsNone(triton.runtime.driver._active)

    def test_a_kernel_launches_by_itself(self):
        x, y = device.upload(random_rows(5, 100)), device.empty([5, 100], "f32")
        with coppice.triton.launching(device):
            softmax_kernel[(5,)](x, y, 100, BLOCK=128)
        device.synchronize()
        np.testing.assert_allclose(y.numpy(), softmax_of(random_rows(5, 100)), atol=1e-6)

    def test_arguments_of_every_type_arrive(self):
        y = device.empty([1], "f32")
        with coppice.triton.launching(device):
            arguments_kernel[(1,)](y, True, 3, 1 << 40, 0.5, 2.25, None, (7, 1), WORD=64)
            device.synchronize()
            self.assertEqual(y.numpy()[0], np.float32(1000 + 3 + (1 << 40) + 2.75 + 8 + 64))

    def test_kernels_stay_loaded_where_the_caller_keeps_them(self):
        loaded, y = {}, device.empty([5, 100], "f32")
        x = device.upload(random_rows(5, 100))
        for _ in range(3):
            with coppice.triton.launching(device, loaded=loaded):
                softmax_kernel[(5,)](x, y, 100, BLOCK=128)
        self.assertEqual(len(loaded), 1)

    def test_an_access_out_of_bounds_is_found_at_its_line(self):
        """In a process of its own, since the device is lost with the fault."""
        done = subprocess.run([sys.executable, __file__, "--beyond"], capture_output=True,
                              text=True, check=False)
        self.assertIn("kernel beyond_kernel", done.stdout, done.stderr)
        self.assertRegex(done.stdout, r"wrap_triton_test\.py:\d+")

    def test_benchmarks_answer(self):
        x, y = device.upload(random_rows(3, 100)), device.empty([3, 100], "f32")
        with coppice.triton.launching(device) as driver:
            times = driver.get_benchmarker()(lambda: softmax_kernel[(3,)](x, y, 100, BLOCK=128),
                                             quantiles=(0.5, 0.2, 0.8))
        self.assertEqual(3, len(times))


class WrapTest(unittest.TestCase):
    def tearDown(self):
        device.synchronize()
        self.assertEqual(device.findings(), [])

    def test_a_callable_that_launches_by_triton_replays(self):
        with coppice.wrap(softmax, {"x": {0: coppice.Dim("rows", max=64)}}, device="emulator",
                          claim="row_independent") as fn:
            for rows in (3, 4, 3, 30, 31, 17, 64, 1, 3):
                np.testing.assert_allclose(np.from_dlpack(fn(random_rows(rows, 100))),
                                           softmax_of(random_rows(rows, 100)), atol=1e-6)
            self.assertEqual(fn.stats()["variants"], 1)
            self.assertGreaterEqual(fn.stats()["runs"]["replay"], 3)

    def test_tuples_are_replayed_as_they_were_recorded(self):
        with coppice.wrap(filled, device="emulator") as fn:
            for rows in (5, 5, 5, 64, 64, 64, 5):
                got = np.from_dlpack(fn(np.zeros(rows, np.float32)))
                np.testing.assert_array_equal(got[:rows], 7 + 3 * np.arange(rows))
            self.assertGreater(fn.stats()["runs"]["replay"], 0)

    def test_memory_of_the_host_is_refused_before_the_launch(self):
        weight = OnHost(np.ones(64, np.float32))

        def fn(x):
            y = empty_like(x)
            beyond_kernel[(1,)](weight, y, 64, BLOCK=64)
            return y

        x = device.empty([64], "f32")
        said = "beyond_kernel: x is a .*OnHost.*as an argument"
        with self.assertRaisesRegex(InvalidArgument, said), \
                coppice.wrap(fn, device="emulator") as wrapped:
            wrapped(x)
        with self.assertRaisesRegex(InvalidArgument, said), coppice.triton.launching(device):
            beyond_kernel[(1,)](weight, x, 64, BLOCK=64)
        self.assertEqual((64,), x.numpy().shape)  # The device is well.

    def test_temporaries_are_planned_and_weights_bound(self):
        weight = random_rows(16, 16)
        bound = device.upload(weight)
        with coppice.wrap(layer, {"x": {0: coppice.Dim("rows", max=64)}}, static="weight",
                          claim="row_independent", device="emulator") as fn:
            for rows in (20, 32, 17, 25):
                x = random_rows(rows, 16)
                np.testing.assert_allclose(np.from_dlpack(fn(x, bound)), softmax_of(x @ weight),
                                           atol=5e-3)  # Dots are of tf32.
            bucket, = [one for one in fn.buckets() if one["recorded"]]
            self.assertEqual(bucket["graph_nodes"], 2)

    def test_a_device_is_not_kept_by_what_triton_compiled(self):
        with coppice.wrap(softmax, device="emulator") as fn:
            fn(random_rows(3, 10))
            loaded = fn._loaded
            self.assertEqual(len(loaded), 1)
        gc.collect()
        self.assertEqual(loaded, {})


def launch_beyond():
    """Reads far past the end of x."""
    x, y = device.empty([64], "f32"), device.empty([64], "f32")
    with coppice.triton.launching(device):
        beyond_kernel[(1,)](x, y, 64, BLOCK=1 << 14)
        try:
            device.synchronize()
        except coppice.Error:
            print("\n".join(device.findings()))


if __name__ == "__main__":
    if sys.argv[1:] == ["--beyond"]:
        launch_beyond()
    else:
        unittest.main()
