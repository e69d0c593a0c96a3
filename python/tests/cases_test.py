#!/usr/bin/env python3
"""Goal: coppice.record writes a case of what led to an error, and coppice.replay says what is wrong
with it.
Method: a kernel that reads far behind its input is loaded, and a model of PyTorch is compiled;
arrays that a replay gives are compared with NumPy's.

    cases_test.py COPPICE [unittest's options]

Without NumPy or the extension all is skipped.
"""

import contextlib
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

try:
    import load_test
    import numpy as np

    import coppice
except ImportError as error:
    raise unittest.SkipTest(f"needs NumPy and the extension: {error}") from error

try:
    import torch

    import coppice.torch
except ImportError:
    torch = None

COMMAND = pathlib.Path(sys.argv.pop(1)).resolve()
os.environ["PATH"] = os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]])
# Each row but the last takes a part of the row behind it, and clears that.
NEIGHBOUR = load_test.SCALE.replace(b"ld.global.f32 %f1, [%a1];", b"""
  ld.global.f32 %f1, [%a1]; mov.f32 %f2, 0f00000000;
  add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, %r1; @%p ld.global.f32 %f2, [%a1+4];
  mov.b32 %r3, %f2; xor.b32 %r3, %r3, %r3; mov.b32 %f2, %r3; add.f32 %f1, %f1, %f2;
  """)
SIZES = {"main": {"n": {"min": 1, "max": 256, "claim": load_test.ANY}}}


def loaded(ptx=load_test.SCALE):
    return coppice.load(load_test.doubling(ptx=ptx, **SIZES), device="emulator",
                        policies={"n": "pow2"})


class CasesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "x.coppice-case"
        self.device = coppice.device("emulator")

    def test_an_error_that_leaves_the_scope_has_its_case(self):
        model = loaded(load_test.SCALE.replace(b"%a3, %r2, 4;", b"%a3, %r2, 1073741824;"))
        self.addCleanup(coppice.reset_device)
        with self.assertRaises(coppice.Error) as caught:
            with coppice.record(self.path, self.device):
                np.from_dlpack(model(np.ones(4, np.float32)))
        self.assertEqual(str(self.path), caught.exception.case)
        self.assertIn("coppice replay", str(caught.exception))
        small = self.path.with_name("small.coppice-case")
        found = coppice.replay(self.path, write=small, seeds=1, calls=1)
        self.assertEqual(("out_of_bounds", "scale", str(small)),
                         (found["kind"], found["kernel"], found["shrunk"]))
        self.assertEqual("out_of_bounds", coppice.replay(small)["kind"])

    def test_other_errors_and_a_quiet_end_write_nothing(self):
        with self.assertRaises(KeyError), coppice.record(self.path, self.device):
            raise KeyError("mine")
        with coppice.record(self.path, self.device):
            pass
        self.assertFalse(self.path.exists())

    def test_without_room_for_the_case_the_error_is_what_it_was(self):
        with self.assertLogs("coppice", "WARNING"):
            with self.assertRaisesRegex(coppice.InvalidArgument, "mine") as caught:
                with coppice.record("/nowhere/x.coppice-case", self.device):
                    raise coppice.InvalidArgument("mine")
        self.assertIsNone(caught.exception.case)

    def test_buffers_of_a_case_that_is_right_are_those_of_its_calls(self):
        model = loaded()
        self.addCleanup(model.close)
        with coppice.record(self.path, self.device, outputs=True) as recording:
            for count in (5, 3):
                model(np.arange(count, dtype=np.float32))
            self.assertEqual(str(self.path), recording.save("outputs look odd"))
        found = coppice.replay(self.path, buffers=True)
        self.assertEqual("nothing", found["kind"], found["verdict"])
        self.assertEqual([1, 2], sorted(found["buffers"]))
        np.testing.assert_array_equal(np.arange(5) * 2, found["buffers"][1]["y"])

    def test_padding_that_reaches_outputs_is_told(self):
        for ptx, reaches in ((load_test.SCALE, False), (NEIGHBOUR, True)):
            model = loaded(ptx)
            self.addCleanup(model.close)
            with coppice.record(self.path, self.device) as recording:
                np.testing.assert_array_equal(
                    np.arange(5) * 2, np.from_dlpack(model(np.arange(5, dtype=np.float32))))
                recording.save()
            found = coppice.replay(self.path, taint=True, depends=True)
            self.assertEqual("nothing", found["kind"], found["verdict"])
            (padding,), (depends,) = found["padding"], found["depends"]
            self.assertEqual(reaches, padding["reaches_output"], padding)
            self.assertEqual({"y": ["x"]}, depends["outputs"])

    def test_a_scope_fails_where_padding_that_may_be_anything_reaches_an_output(self):
        for ptx, says in ((load_test.SCALE, None), (NEIGHBOUR, r"y\[4\].*kernel scale, PTX line")):
            model = loaded(ptx)
            self.addCleanup(model.close)
            with contextlib.ExitStack() as expected:
                if says:
                    expected.enter_context(self.assertRaisesRegex(coppice.Error, says))
                with coppice.checked(self.device, taint=True):
                    model(np.arange(5, dtype=np.float32))

    def test_each_padded_size_is_followed_alone(self):
        model = coppice.load(load_test.pairs(), device="emulator",
                             policies={("batch", "length"): "4x128"})
        self.addCleanup(model.close)
        with coppice.checked(self.device, taint=True):
            model(np.ones((3, 100), np.float32))

    def test_what_cannot_be_followed_is_a_warning(self):
        model = loaded()
        self.addCleanup(model.close)
        unknown = {"kind": "cannot_replay", "verdict": "it is a callable", "padding": []}
        with mock.patch("coppice.scopes.replay", return_value=unknown):
            with self.assertWarnsRegex(RuntimeWarning, "it is a callable"):
                with coppice.checked(self.device, taint=True):
                    model(np.ones(5, np.float32))
            with coppice.checked(self.device, taint=True):
                pass  # Nothing ran, so nothing has to be followed.

    def test_a_scope_tells_of_findings_and_of_padding(self):
        model = loaded(NEIGHBOUR.replace(b"st.global.f32 [%a2], %f2;", b"""
          st.global.f32 [%a2], %f2; ld.param.u64 %a2, [y]; st.global.f32 [%a2], %f2;"""))
        self.addCleanup(model.close)
        with self.assertRaisesRegex(coppice.Error, "(?s)race.*padding of x reaches"):
            with coppice.checked(self.device, taint=True):
                model(np.arange(5, dtype=np.float32))

    def test_an_error_inside_a_scope_that_follows_padding_is_raised_as_it_is(self):
        with self.assertRaisesRegex(coppice.InvalidArgument, "^mine$") as caught:
            with coppice.checked(self.device, taint=True):
                raise coppice.InvalidArgument("mine")
        self.assertIsNone(caught.exception.case)

    @unittest.skipUnless(torch, "torch is not installed")
    def test_what_torch_compiled_before_is_recorded(self):
        compiled = torch.compile(lambda x: torch.softmax(x * 2, 1), backend="coppice", dynamic=True)
        x = torch.randn(5, 7)
        compiled(x)
        with coppice.record(self.path, self.device) as recording:
            compiled(x)
            recording.save()
        found = coppice.replay(self.path, buffers=True)
        self.assertEqual("nothing", found["kind"], found["verdict"])
        (of_call,) = found["buffers"].values()
        self.assertTrue(any(array.shape == (5, 7) and
                            np.allclose(array, torch.softmax(x * 2, 1), atol=1e-5)
                            for array in of_call.values()))

    def test_what_is_no_case_is_refused(self):
        self.path.write_text("{}")
        with self.assertRaisesRegex(coppice.InvalidArgument, "x.coppice-case"):
            coppice.replay(self.path)


if __name__ == "__main__":
    unittest.main()
