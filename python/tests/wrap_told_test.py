#!/usr/bin/env python3
"""Goal: what a wrapped callable writes is the caller's, and what a user of coppice.wrap gets wrong
is told: members of arguments that there are not, tensors that are none of PyTorch's, arguments that
make a variant per call.
Method: callables launch PTX on the emulator; NumPy is the oracle.

    wrap_told_test.py [unittest's options]

Without NumPy or the extension all is skipped; without PyTorch what needs it.
"""

import gc
import logging
import unittest
from unittest import mock

from wrap_test import ROWS, WrapCase, device, launch_scale, np, numbers, scaled, wrap

import coppice
from coppice import wrapping
from coppice.errors import FailedPrecondition, InvalidArgument, StaleOutput
from coppice.running import current_stream, empty

try:
    import torch
except ImportError:
    torch = None

needs_torch = unittest.skipUnless(torch, "torch is not installed")


def advance(x):
    """Doubles what it is given where it lies."""
    launch_scale(x, x, 2.0)
    return scaled(x)


class MutatesTest(WrapCase):
    def check_written(self, x, read):
        """Of four calls, of which the last two are replays."""
        with wrap(advance, mutates="x") as fn:
            expected, kinds = read(x).copy(), []
            for _ in range(4):
                y = fn(x)
                kinds.append(y.lease.kind)
                expected *= 2
                np.testing.assert_array_equal(read(x), expected)
                self.check(y, 2 * expected)
            self.assertEqual(["warm_up", "record", "replay", "replay"], kinds)

    def test_what_is_written_to_an_array_is_the_callers(self):
        self.check_written(numbers(5, 3), np.asarray)
        self.check_written(device.upload(numbers(5, 3)), np.from_dlpack)

    def test_a_view_is_written_and_what_lies_between_is_not(self):
        whole = numbers(10, 6)
        self.check_written(whole[::2, 1::2], np.asarray)
        np.testing.assert_array_equal(whole[1::2], numbers(10, 6)[1::2])
        np.testing.assert_array_equal(whole[:, ::2], numbers(10, 6)[:, ::2])
        self.check_written(np.asfortranarray(numbers(5, 3)), np.asarray)

    @needs_torch
    def test_what_is_written_to_a_tensor_of_the_cpu_is_the_callers(self):
        whole = torch.ones(10, 6)
        for x in (torch.ones(5, 3), torch.ones(5, 3, requires_grad=True), whole[::2, 1::2],
                  torch.ones(3, 5).t()):
            before = x._version
            self.check_written(x, lambda x: x.detach().numpy())
            self.assertEqual(before + 4, x._version, "so that autograd knows")
        self.assertEqual(45, int((whole == 1).sum()))

    def test_several_are_written_each(self):
        def both(x, pair):
            return advance(x), advance(pair["w"])

        x, w = numbers(4, 3), numbers(2)
        with wrap(both, mutates=("pair.w", "x")) as fn:
            for call in (2, 4, 8):
                fn(x, {"w": w})
                np.testing.assert_array_equal(x, call * numbers(4, 3))
                np.testing.assert_array_equal(w, call * numbers(2))

    def test_a_run_on_another_stream_has_written_when_it_returns(self):
        x, stream = numbers(4, 3), device.create_stream()
        with wrap(advance, mutates="x") as fn:
            for call in (2, 4, 8):
                fn.run(x, options={"stream": stream})
                np.testing.assert_array_equal(x, call * numbers(4, 3))
        device.synchronize_stream(stream)

    def test_a_call_that_is_refused_writes_nothing(self):
        x = numbers(65, 3)
        with wrap(advance, mutates="x") as fn, self.assertRaises(InvalidArgument):
            fn(x)
        np.testing.assert_array_equal(x, numbers(65, 3))

    def test_what_cannot_be_written_to_is_refused(self):
        fixed = numbers(4, 3)
        fixed.flags.writeable = False
        with wrap(advance, mutates="x") as fn:
            for x, why in ((fixed, "x is read-only"),
                           (device.upload(fixed.copy()).to_host(), "x is a HostTensor")):
                with self.assertRaisesRegex(InvalidArgument, f"{why}.*upload"):
                    fn(x)
        np.testing.assert_array_equal(fixed, numbers(4, 3))


class MemberTest(WrapCase):
    def refused(self, message, *args, dynamic=None, **options):
        def both(d, n=0):
            return scaled(d["a"])

        with wrap(both, dynamic or {}, **options) as fn:
            with self.assertRaisesRegex(InvalidArgument, message):
                fn(*args)

    def test_a_member_that_there_is_not_is_told_with_those_that_there_are(self):
        d, message = {"a": numbers(4), "b": (numbers(3),)}, "no argument {}; it has d.a, d.b.0, n"
        for path in ("d.aa", "d.b.1", "d.b", "d", "d.a.0", "n.0"):
            told = message.format(path.replace(".", r"\."))
            with self.subTest(path=path):
                self.refused("dynamic: .*" + told, d, dynamic={path: {0: ROWS}})
                self.refused("static: .*" + told, d, static=path)
                self.refused("mutates: .*" + told, d, mutates=path)
                self.refused("fills: .*" + told, d, fills={path: 3})

    def test_a_member_of_what_is_left_out_may_be_missing(self):
        def last(d=None, *args, cache=(), **kwargs):
            return scaled(args[-1])

        dynamic = {"d.a": {0: ROWS}, "args.0": {0: ROWS}, "args.1": {0: ROWS},
                   "kwargs.x": {0: ROWS}, "cache.0": {0: ROWS}}
        with wrap(last, dynamic) as fn:
            for args, more in (((None, numbers(4)), {}), (({}, numbers(4), numbers(4)), {}),
                               (({"a": numbers(4)}, numbers(4)), {"x": numbers(4)}),
                               ((None, numbers(4)), {"y": numbers(2), "cache": [numbers(4)]})):
                self.check(fn(*args, **more), 2 * numbers(4))
            self.assertEqual(4, fn.stats()["variants"])


class ShownTest(WrapCase):
    @needs_torch
    def test_operators_of_pytorch_are_told_to_be_for_torch_compile(self):
        linear = torch.nn.Linear(3, 2)
        for fn, cause in ((linear, "linear.*must be Tensor, not Tensor"),
                          (lambda input: input * 2, "unsupported operand"),
                          (lambda input: input.softmax(-1), "no attribute 'softmax'"),
                          (lambda input: torch.cat([input, input]), "expected Tensor")):
            for outputs in (None, {"y": ("f32", [4, 2])}):
                with self.subTest(cause=cause, outputs=outputs), self.assertRaisesRegex(
                        InvalidArgument, f"{cause}.*coppice.Tensor.*torch.compile") as told:
                    coppice.wrap(fn, device="emulator", outputs=outputs)(torch.ones(4, 3))
                self.assertIsInstance(told.exception.__cause__, (TypeError, AttributeError))

    def test_other_errors_of_these_kinds_are_the_callers(self):
        for fn, kind, message in (
                (lambda x: len(3), TypeError, "has no len"),
                (lambda x: np.nothing, AttributeError, "nothing"),
                (lambda x: scaled(x, y=3), TypeError, "unexpected keyword"),
                (lambda x: device.copy(x, x, 3), TypeError, "incompatible function arguments")):
            with self.subTest(message=message), self.assertRaisesRegex(kind, message):
                coppice.wrap(fn, device="emulator")(numbers(4, 3))


    def test_outside_of_callables_there_is_no_current_stream(self):
        for call in (current_stream, lambda: empty([1], "f32")):
            with self.assertRaises(FailedPrecondition):
                call()


class EndTest(WrapCase):
    def test_an_argument_that_makes_a_variant_per_call_is_told_once(self):
        def step(x, options):
            return scaled(x)

        with mock.patch.object(wrapping, "VARIANTS_MAX", 3), wrap(step) as fn:
            with self.assertNoLogs("coppice", logging.WARNING):
                for count in range(3):
                    fn(numbers(4), {"count": count, "scale": 2})
            with self.assertLogs("coppice", logging.WARNING) as told:
                for count in range(3, 9):
                    fn(numbers(4), {"count": count, "scale": 2})
            self.assertEqual(6, fn.stats()["variants_ended"])
        self.assertEqual(1, len(told.output))
        self.assertRegex(told.output[0],
                         "step: has 3 variants.* call to call: options.count; make a size a Dim")

    def test_outputs_outlive_close_until_they_are_written_over(self):
        fn, other = wrap(), wrap(lambda x: scaled(x, 3.0))
        with other:
            for _ in range(3):
                y = fn(numbers(8, 3))
            fn.close()
            self.check(y, 2 * numbers(8, 3))
            for _ in range(3):
                other(numbers(8, 3))
            with self.assertRaises(StaleOutput):
                np.from_dlpack(y)
        gc.collect()


if __name__ == "__main__":
    unittest.main()
