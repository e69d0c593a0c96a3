#!/usr/bin/env python3
"""Goal: what a wrapped callable decides on the host is never decided by what no replay knows:
values of tensors are refused, numbers tell variants apart by their bits, and a read while it is
recorded is an error that leaves everything else alone.
Method: every operation of Python on a tensor, inside and outside of callables; values that are
equal and have other bits; every way to wait or to copy, during a recording; NumPy is the oracle.

    wrap_values_test.py [unittest's options]

Without NumPy or the extension all is skipped.
"""

import collections
import dataclasses
import decimal
import gc
import math
import operator
import struct
import unittest

try:
    import numpy as np

    import coppice
    from coppice.running import current_stream, empty_like, this_run
    from wrap_test import device, scaled
except ImportError as error:
    raise unittest.SkipTest(f"needs NumPy and the extension: {error}") from error

try:
    import torch
except ImportError:
    torch = None

ROWS = {"x": {0: coppice.Dim("rows", max=64)}}


def wrap(fn, **options):
    return coppice.wrap(fn, ROWS, claim="row_independent", device="emulator", **options)


def ones(rows=3):
    return np.ones((rows, 4), np.float32)


@unittest.skipIf(torch is None, "needs PyTorch")
class LazyTest(unittest.TestCase):
    """DLPack hands over memory, and no word on how it is to be read."""

    def tensors(self):
        numbers = torch.arange(1.0, 13).reshape(3, 4)
        pairs = torch.complex(numbers, numbers + 1)
        return {"negated": torch._neg_view(numbers), "conjugated": pairs.conj(),
                "both": torch._neg_view(pairs).conj(), "imaginary": pairs.conj().imag}

    def test_what_is_negated_or_conjugated_lazily_is_refused(self):
        with wrap(scaled) as fn:
            for name, tensor in self.tensors().items():
                for ask in (device.upload, *([] if tensor.is_complex() else [fn])):
                    with self.subTest(name), self.assertRaisesRegex(
                            coppice.InvalidArgument, "resolve_neg.*resolve_conj"):
                        ask(tensor)

    def test_resolved_it_is_read_as_it_is(self):
        for name, tensor in self.tensors().items():
            with self.subTest(name):
                resolved = tensor.resolve_neg().resolve_conj()
                found = torch.from_dlpack(device.upload(resolved).to_host())
                self.assertTrue(torch.equal(found, resolved))


# What Python can ask of an object besides its attributes.
OPERATIONS = {
    "bool": bool, "not": operator.not_, "if": lambda t: 1 if t else 0, "and": lambda t: t and 1,
    "== number": lambda t: t == 0, "!= number": lambda t: t != 0, "== None": lambda t: t == None,
    "== itself": lambda t: t == t, "number ==": lambda t: 0 == t, "in": lambda t: t in (0, 1),
    "< number": lambda t: t < 1, ">=": lambda t: t >= 1, "int": int, "float": float,
    "complex": complex, "index": operator.index, "range": range, "round": round, "abs": abs,
    "sqrt": math.sqrt, "len": len, "iter": iter, "list": list, "contains": lambda t: 1 in t,
    "t[0]": lambda t: t[0], "t + 1": lambda t: t + 1, "1 - t": lambda t: 1 - t,
    "t * t": lambda t: t * t, "t @ t": lambda t: t @ t, "-t": operator.neg,
    "~t": operator.invert, "t == array": lambda t: t == np.ones(4)}


class TruthTest(unittest.TestCase):
    def check_all(self, tensor, where):
        for name, ask in OPERATIONS.items():
            with self.subTest(where=where, operation=name), self.assertRaises(TypeError):
                ask(tensor)

    def test_no_operation_of_python_answers_for_a_tensor(self):
        tensor = device.upload(ones())
        self.check_all(tensor, "a tensor")
        self.check_all(tensor.to_host(), "a tensor of the host")
        with wrap(scaled) as fn:
            self.check_all(fn(ones()), "an output")

    def test_in_a_callable_neither(self):
        asked = []

        def fn(x):
            for name, ask in OPERATIONS.items():
                with self.assertRaises(TypeError, msg=name):
                    ask(x)
            asked.append(len(OPERATIONS))
            return scaled(x)

        with wrap(fn) as wrapped:
            for _ in range(3):
                np.testing.assert_array_equal(wrapped(ones()), 2 * ones())
        self.assertGreaterEqual(len(asked), 2)

    def test_the_error_says_what_to_do_and_reaches_the_caller(self):
        for branch in (lambda x: scaled(x, 10.0 if x else 1.0),
                       lambda x: scaled(x, 10.0 if x == 0 else 1.0),
                       lambda x: scaled(x, 10.0 if x != 0 else 1.0)):
            with wrap(branch) as fn, self.assertRaisesRegex(
                    TypeError, r"coppice\.Tensor: .*as a number, or launch a kernel"):
                fn(ones())

    def test_a_tensor_is_printed_and_kept_by_what_it_is(self):
        tensor, other = device.upload(ones()), device.upload(ones())
        self.assertEqual(f"{tensor}", "<coppice.Tensor f32 3x4>")
        self.assertEqual(str(tensor), repr(tensor))
        self.assertIn(tensor, [other, tensor][1:])
        self.assertEqual(len({tensor, other, tensor}), 2)
        self.assertEqual({tensor: 1, other: 2}[other], 2)
        np.testing.assert_array_equal(np.asarray(tensor), ones())


Point = collections.namedtuple("Point", "a b")


@dataclasses.dataclass(frozen=True)
class Settings:
    factor: float
    name: str = "plain"
    note: float = dataclasses.field(default=0.0, compare=False)


def nan(bits):
    return struct.unpack("d", struct.pack("Q", bits))[0]


class ConstantTest(unittest.TestCase):
    def variants(self, *values):
        """How many variants calls with these values make, each called three times."""
        with wrap(lambda x, _value: scaled(x)) as fn:
            for _ in range(3):
                for value in values:
                    fn(ones(), value)
            self.assertEqual(fn.stats()["calls"], 3 * len(values))
            return fn.stats()["variants"]

    def test_zeros_of_both_signs_are_two(self):
        for wrapped_in in (lambda v: v, lambda v: (v, 1), lambda v: [v], lambda v: {"key": v},
                           lambda v: ((1, (v,)),), Settings, lambda v: (Settings(v),),
                           lambda v: complex(v, 1), lambda v: complex(1, v), np.float32,
                           np.float64, np.float16, lambda v: np.complex64(complex(0, v)),
                           lambda v: frozenset([v]), lambda v: decimal.Decimal(str(v))):
            with self.subTest(value=repr(wrapped_in(-0.0))):
                self.assertEqual(self.variants(wrapped_in(0.0), wrapped_in(-0.0)), 2)

    def test_a_nan_is_one_and_another_nan_another(self):
        for wrapped_in in (lambda v: v, lambda v: (v,), Settings, lambda v: complex(v, 0),
                           np.float64):
            quiet, other = 0x7FF8000000000000, 0xFFF8000000000001
            values = [wrapped_in(nan(bits)) for bits in (quiet, quiet, other, other)]
            with self.subTest(value=repr(values[0])):
                self.assertEqual(self.variants(*values), 2)

    def test_numbers_of_other_types_are_others(self):
        self.assertEqual(self.variants(True, 1, 1.0, np.float32(1), np.int64(1), 1 + 0j,
                                       np.float64(1), np.bool_(True), "1", b"1"), 10)
        self.assertEqual(self.variants((True,), (1,), (1.0,)), 3)

    def test_what_does_not_count_in_a_dataclass_does_not_count(self):
        self.assertEqual(self.variants(Settings(1.0, note=1.0), Settings(1.0, note=2.0)), 1)
        self.assertEqual(self.variants(Settings(1.0), Settings(1.0, "other")), 2)

    def test_containers_that_hold_the_same_in_another_way_are_others(self):
        self.assertEqual(self.variants((1, 2), [1, 2], {"0": 1, "1": 2}, {0: 1, 1: 2}), 4)
        self.assertEqual(self.variants((), [], {}, ((),), None), 5)
        self.assertEqual(self.variants(Point(1, 2), (1, 2)), 1)  # It is given a tuple.

    def test_a_callable_is_given_what_its_call_has(self):
        def fn(x, value):
            kind = {list: 2.0, tuple: 3.0, dict: 4.0}[type(value)]
            return scaled(x, kind)

        with wrap(fn) as wrapped:
            for _ in range(3):
                for value, factor in (([1], 2), ((1,), 3), ({"0": 1}, 4), ({0: 1}, 4)):
                    np.testing.assert_array_equal(wrapped(ones(), value), factor * ones())

    def test_minus_zero_is_computed_with(self):
        def divide(x, by):
            return scaled(x, math.copysign(3.0, by))

        with wrap(divide) as fn:
            for _ in range(4):
                for by in (0.0, -0.0):
                    np.testing.assert_array_equal(fn(ones(), by),
                                                  math.copysign(3.0, by) * ones())

    def test_a_value_without_a_hash_is_refused_by_name(self):
        @dataclasses.dataclass(frozen=True)
        class Odd:
            members: list

        with wrap(lambda x, value: scaled(x)) as fn:
            for value in ({1, 2}, Odd([1]), bytearray(1)):
                with self.assertRaisesRegex(coppice.InvalidArgument, "value is a"):
                    fn(ones(), value)


OTHER = device.upload(np.arange(3, dtype=np.float32))
# What asks the device for something that a capture refuses.
WAITS = {
    "to_host": lambda x: x.to_host(),
    "numpy": lambda x: x.numpy(),
    "__array__": np.asarray,
    "from_dlpack": np.from_dlpack,
    "a ufunc": lambda x: np.add(x, 1),
    "beside an array": lambda x: np.ones(4, np.float32) * x,
    "another tensor": lambda _: OTHER.to_host(),
    "copy_from": lambda _: OTHER.copy_from(np.zeros(3, np.float32)),
    "upload": lambda _: device.upload(np.ones(5, np.float32)),
    "synchronize": lambda _: device.synchronize(),
    "synchronize_stream": lambda _: device.synchronize_stream(),
    "the recording's stream": lambda _: device.synchronize_stream(current_stream()),
    "to_host of its stream": lambda x: x.to_host(current_stream())}


class ReadWhileRecordedTest(unittest.TestCase):
    def tearDown(self):
        device.synchronize()
        self.assertEqual(device.findings(), [])

    def test_is_refused_and_leaves_nothing_behind(self):
        for name, wait in WAITS.items():
            for late in (False, True):
                with self.subTest(wait=name, late=late):
                    self.check_refused(wait, late)

    def check_refused(self, wait, late):
        refused = []

        def fn(x):
            context = this_run().context
            recording = context is not None and context.phase == "record"
            y = scaled(x) if late else x
            if recording:
                with self.assertRaisesRegex(coppice.Aborted, "900|901") as caught:
                    wait(y)
                refused.append(caught.exception)
                raise caught.exception
            return y if late else scaled(x)

        with wrap(fn) as wrapped:
            for value in range(4):
                lease = wrapped.run(value * ones())
                np.testing.assert_array_equal(np.from_dlpack(lease[0]), 2 * value * ones())
            self.assertEqual((lease.kind, lease.reason), ("eager", "not_capturable"))
        self.assertEqual({error.driver_result for error in refused} - {900, 901}, set())
        self.assertTrue(refused)
        gc.collect()
        churned = [np.full(3, -1, np.float32) for _ in range(64)]
        device.synchronize()
        for array in churned:  # Nothing of the refused copies comes late.
            np.testing.assert_array_equal(array, np.full(3, -1, np.float32))
        OTHER.copy_from(np.arange(3, dtype=np.float32))
        with wrap(scaled) as fine:
            for _ in range(3):
                np.testing.assert_array_equal(fine(ones()), 2 * ones())

    def test_who_demands_a_replay_is_told_what_to_do(self):
        lines = []
        with coppice.Session(device, log=lines.append) as session, \
                wrap(lambda x: scaled(x, float(x.numpy()[0, 0])), session=session) as wrapped:
            for _ in range(3):
                np.testing.assert_array_equal(wrapped(3 * ones()), 9 * ones())
        self.assertIn("pass the value as a number", " ".join(lines))

    def test_an_error_of_the_callable_s_own_makes_no_graph(self):
        def fn(x):
            context = this_run().context
            if context is not None and context.phase == "record":
                raise ValueError("no")
            return scaled(x)

        with wrap(fn) as wrapped:
            for value in range(4):
                np.testing.assert_array_equal(wrapped(value * ones()), 2 * value * ones())
            self.assertEqual(wrapped.stats()["runs"], {"warm_up": 1, "eager": 3})


if __name__ == "__main__":
    unittest.main()
