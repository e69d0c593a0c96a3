#!/usr/bin/env python3
"""Goal: ragged sequences, breaks, loans, scrubs, gates, inclusions and cases are to Python what
they are to C++. Method: callables that copy on the device, on the emulator, against NumPy.

    core_facilities_test.py [unittest's options]
"""

import ctypes
import gc
import json
import pathlib
import sys
import tempfile
import unittest
import weakref
import zipfile

import numpy as np

import coppice
from coppice import _core, devices

ROWS_MAX = 64
SPEC = {"name": "plain", "claim": "row_independent",
        "symbols": [{"name": "rows", "kind": "dynamic", "policy": ("pow2", ROWS_MAX)}],
        "inputs": [{"name": "x", "dtype": "f32", "shape": ["rows"]}],
        "outputs": [{"name": "y", "dtype": "f32", "shape": ["rows"]}]}
CALLS = ("warm_up", "record", "replay", "replay")


def numbers(count):
    return np.arange(1, count + 1, dtype=np.float32)


class FacilitiesCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = devices.device("emulator")

    def setUp(self):
        self.session = _core.Session(self.device)
        self.addCleanup(self.session.close)

    def tearDown(self):
        self.assertEqual([], self.device.findings())

    def copy_of(self, context, output, tensor):
        """Makes an output of a run a copy of a tensor that it sees."""
        made = context.output(output)
        count = np.prod(tensor.shape, dtype=int) * 4
        self.device.copy(made.data_ptr(), tensor.data_ptr(), int(count), context.stream)

    def identity(self, context):
        self.copy_of(context, 0, context.input(0))

    def plain(self, fn=None, **changes):
        return self.session.register_callable({**SPEC, **changes}, fn or self.identity)


class CaseTest(FacilitiesCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "x.coppice-case"

    def test_a_case_has_the_calls_that_the_flight_recorder_kept(self):
        self.session = _core.Session(self.device, recorder_ring_bytes=1 << 20)
        self.addCleanup(self.session.close)
        program = self.plain()
        for count in (3, 5, 4):
            program.run([self.device.upload(numbers(count))])
        self.session.save_case(str(self.path), "outputs look odd", values="noise")
        with zipfile.ZipFile(self.path) as archive:
            manifest = json.loads(archive.read("manifest.json"))
        self.assertEqual("outputs look odd", manifest["why"])
        self.assertEqual(3, len(manifest["calls"]))

    def test_without_a_flight_recorder_there_is_none(self):
        with self.assertRaisesRegex(coppice.FailedPrecondition, "recorder"):
            self.session.save_case(str(self.path))
        with self.assertRaisesRegex(coppice.InvalidArgument, "keep"):
            self.session.save_case(str(self.path), values="some")
        self.assertFalse(self.path.exists())


class RaggedTest(FacilitiesCase):
    def spec(self, by, rectangle):
        said = "count" if by == "lengths" else "count + 1"
        names = {"name": "seq", "count": "count", "total": "total", "lengths": "lengths", "by": by}
        return {"name": f"{by} {rectangle}", "claim": "any",
                "symbols": [{"name": name, "kind": "dynamic", "policy": ("pow2", ROWS_MAX),
                             "given": name == "length"} for name in ("count", "total", "length")],
                "ragged": [{**names, "length": "length"} if rectangle else names],
                "inputs": [{"name": "lengths", "dtype": "i32", "shape": [said],
                            "fill": "zero" if by == "lengths" else "repeat_last"},
                           {"name": "x", "dtype": "f32", "shape": ["seq", 2]}],
                "outputs": [{"name": "y", "dtype": "f32", "shape": ["seq", 2]},
                            {"name": "starts", "dtype": "i32", "shape": ["count + 1"]}]}

    def test_packed_rows_are_seen_packed_or_as_a_rectangle(self):
        for by in ("lengths", "offsets"):
            for rectangle in (False, True):
                seen = []

                def fn(context, seen=seen):
                    seen.append(len(context.input(1).shape))
                    self.copy_of(context, 0, context.input(1))
                    self.copy_of(context, 1, context.offsets(0))

                program = self.session.register_callable(self.spec(by, rectangle), fn)
                for lengths, kind in zip(([3, 0, 1, 2], [3, 0, 1, 2], [1, 2, 4]), CALLS):
                    starts = np.cumsum([0, *lengths], dtype=np.int32)
                    x = numbers(2 * starts[-1]).reshape(-1, 2)
                    with self.subTest(by=by, rectangle=rectangle, lengths=lengths):
                        lease = program.run(
                            [np.array(lengths, np.int32) if by == "lengths" else starts, x],
                            extents=[4])
                        self.assertEqual(kind, lease.kind)
                        np.testing.assert_array_equal(x, lease[0].numpy())
                        np.testing.assert_array_equal(starts, lease[1].numpy())
                self.assertEqual({3 if rectangle else 2}, set(seen))

    def test_sequences_that_cannot_be_are_refused(self):
        for changes, message in (
                ({"name": "total"}, "the name is taken"),
                ({"count": "none"}, "the spec has nothing called 'none'"),
                ({"by": "ends"}, "ragged: by: 'ends' is not one of lengths, offsets"),
                ({"total": "count"}, "name different symbols"),
                ({"rows": 3}, "no field is called 'rows'")):
            spec = self.spec("lengths", True)
            spec["ragged"][0].update(changes)
            with self.subTest(changes=changes), \
                    self.assertRaisesRegex(coppice.InvalidArgument, message):
                self.session.register_callable(spec, self.identity)
        spec = self.spec("lengths", True)
        del spec["ragged"][0]["lengths"]
        with self.assertRaisesRegex(TypeError, "lengths"):
            self.session.register_callable(spec, self.identity)

    def test_offsets_are_those_of_the_programs_sequences(self):
        def fn(context):
            with self.assertRaisesRegex(coppice.InvalidArgument, "the program has only 0"):
                context.offsets(0)
            self.identity(context)

        self.plain(fn).run([numbers(3)])


class BreakTest(FacilitiesCase):
    def pieces(self, between):
        def fn(context):
            self.identity(context)
            address, bytes_ = context.input(0).data_ptr(), 4 * context.extent(0)
            context.add_break(lambda stream: between(address, bytes_, stream))

        return self.plain(fn)

    def test_host_code_runs_between_graphs_in_every_run(self):
        sums = []

        def between(address, bytes_, stream):
            self.device.synchronize()
            sums.append((self.device.view(address, (bytes_ // 4,), "f32").numpy()[:3].sum(),
                         stream != 0))

        program = self.pieces(between)
        for kind in CALLS:
            lease = program.run([numbers(3)])
            self.assertEqual(kind, lease.kind)
            np.testing.assert_array_equal(numbers(3), lease[0].numpy())
        self.assertEqual([(6, True)] * 4, sums)

    def test_an_exception_of_host_code_is_raised_as_it_is(self):
        def between(*_):
            if self.tired:
                raise KeyError("tired")

        program = self.pieces(between)
        for self.tired in (False, False, True, False):
            if self.tired:
                with self.assertRaisesRegex(KeyError, "tired"):
                    program.run([numbers(3)])
            else:
                program.run([numbers(3)])
        self.assertEqual("replay", program.run([numbers(3)]).kind)

    def test_host_code_goes_with_its_graph(self):
        def between(*_):
            pass

        gone = weakref.ref(between)
        program = self.pieces(between)
        for _ in range(3):
            program.run([numbers(3)])
        del between
        program.unregister()
        del program
        gc.collect()
        self.assertIsNone(gone())

    def test_a_session_that_its_host_code_refers_to_is_collected(self):
        session = _core.Session(self.device)

        def fn(context):
            self.identity(context)
            context.add_break(lambda stream: session.device)

        program = session.register_callable(SPEC, fn)
        for _ in range(3):
            program.run([numbers(3)])
        gone = weakref.ref(fn)
        del program, fn, session
        gc.collect()
        self.assertIsNone(gone())

    def test_what_is_no_host_code_is_refused(self):
        def fn(context):
            with self.assertRaisesRegex(TypeError, "add_break"):
                context.add_break(3)
            self.identity(context)

        self.plain(fn).run([numbers(3)])

    def test_host_code_that_calls_its_session_is_refused(self):
        with self.assertRaisesRegex(coppice.FailedPrecondition, "of its own"):
            self.pieces(lambda *_: self.session.trim()).run([numbers(3)])


class LoanTest(FacilitiesCase):
    def run_until_recorded(self):
        program = self.plain()
        for _ in range(2):
            program.run([numbers(3)])[0].numpy()
        self.device.synchronize()
        return program

    def lent(self):
        self.device.synchronize()
        with self.session.lend() as loan:
            return self.device.view(loan.data, (loan.bytes,), "u8").numpy()

    def test_idle_memory_is_lent_and_given_back(self):
        program = self.run_until_recorded()
        with self.session.lend() as loan:
            self.assertGreater(loan.bytes, 0)
            self.device.fill(loan.data, loan.bytes, 7)
            self.assertEqual(
                {7}, set(self.device.view(loan.data, (loan.bytes,), "u8").numpy().tolist()))
            with self.assertRaisesRegex(coppice.FailedPrecondition, "is lent"):
                program.run([numbers(3)])
            with self.assertRaisesRegex(coppice.FailedPrecondition, "is lent"):
                self.session.lend()
        lease = program.run([numbers(3)])
        self.assertEqual("replay", lease.kind)
        np.testing.assert_array_equal(numbers(3), lease[0].numpy())

    def test_a_loan_ends_once_on_a_stream_or_with_its_object(self):
        program = self.run_until_recorded()
        stream = self.device.create_stream()
        with self.session.lend() as loan:
            self.device.fill(loan.data, loan.bytes, stream=stream)
            loan.give_back(stream)
            with self.assertRaisesRegex(coppice.FailedPrecondition, "the loan has ended"):
                loan.give_back()
        self.assertEqual("replay", program.run([numbers(3)]).kind)
        self.device.synchronize()
        loan = self.session.lend()
        del loan
        gc.collect()
        program.run([numbers(3)])

    def test_a_loan_outlives_its_closed_session(self):
        self.run_until_recorded()
        loan = self.session.lend()
        self.session.close()
        self.device.fill(loan.data, loan.bytes)
        loan.give_back()

    def test_scrub_leaves_nothing_of_earlier_calls(self):
        program = self.run_until_recorded()
        self.assertTrue(self.lent().any())
        self.session.scrub()
        self.assertFalse(self.lent().any())
        np.testing.assert_array_equal(numbers(3), program.run([numbers(3)])[0].numpy())

    def test_memory_that_somebody_uses_is_neither_lent_nor_scrubbed(self):
        program = self.run_until_recorded()
        lease = program.run([numbers(3)])
        self.device.synchronize()
        for call in (self.session.lend, self.session.scrub):
            with self.assertRaisesRegex(coppice.FailedPrecondition, "leased"):
                call()
            with self.assertRaisesRegex(coppice.InvalidArgument, "lane"):
                call(lane=1)
        del lease


class RecordedTest(FacilitiesCase):
    def test_a_program_may_never_be_recorded(self):
        program = self.plain(gate="always_eager")
        self.assertEqual(["eager"] * 3, [program.run([numbers(3)]).kind for _ in range(3)])
        with self.assertRaisesRegex(coppice.InvalidArgument, "always_eager"):
            self.plain(gate="never")

    def test_a_warm_program_goes_into_a_capture_of_the_callers(self):
        program, x = self.plain(), self.device.upload(numbers(3))
        with self.assertRaises(coppice.FailedPrecondition):
            program.include([x])
        program.run([x])

        def call(name, *arguments):
            address = self.device.driver_function(name)
            self.assertEqual(0, ctypes.CFUNCTYPE(ctypes.c_int)(address)(*arguments), name)

        stream = ctypes.c_void_p(self.device.create_stream())
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuStreamBeginCapture", stream, 1)
        lease = program.include([x], stream=stream.value)
        call("cuStreamEndCapture", stream, ctypes.byref(graph))
        self.assertEqual("include", lease.kind)
        call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        for factor in (1, 5):
            x.copy_from(factor * numbers(3))
            call("cuGraphLaunch", executable, stream)
            np.testing.assert_array_equal(factor * numbers(3), lease[0].numpy())
        call("cuGraphExecDestroy", executable)
        call("cuGraphDestroy", graph)


if __name__ == "__main__":
    sys.exit(unittest.main())
