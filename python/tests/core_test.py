#!/usr/bin/env python3
"""Goal: the extension does what its docstrings say, on the emulator.
Method: a package of Triton kernels and callables that launch nothing or copy by the host, with
tensors of NumPy and, where it is installed, PyTorch.

    core_test.py [unittest's options]
"""

import gc
import json
import pathlib
import sys
import threading
import tracemalloc
import unittest
import weakref

import numpy as np

import coppice
from coppice import _core, devices

SAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "samples"
ROWS_MAX = 64
SPEC = {"name": "plain", "claim": "row_independent",
        "symbols": [{"name": "rows", "kind": "dynamic", "policy": ("pow2", ROWS_MAX)}],
        "inputs": [{"name": "x", "dtype": "f32", "shape": ["rows", 2]}],
        "outputs": [{"name": "y", "dtype": "f32", "shape": ["rows", 2]}]}


def array(rows, columns=2):
    return np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)


class CoreTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = devices.device("emulator")
        cls.package = cls.device.load_package(SAMPLES / "triton_kernels.zip")

    def setUp(self):
        self.session = _core.Session(self.device)
        self.addCleanup(self.session.close)

    def shares(self, **options):
        return self.session.register_package(self.package, policies={"rows": ("pow2", ROWS_MAX)},
                                             **options)

    def plain(self, fn=lambda context: context.output(0), **changes):
        return self.session.register_callable({**SPEC, **changes}, fn)

    def test_a_device_describes_itself(self):
        self.assertEqual(("emulator", 0), (self.device.kind, self.device.ordinal))
        self.assertGreater(self.device.total_bytes, 1 << 20)
        self.assertEqual([], self.device.findings())

    def test_a_process_has_one_emulator(self):
        with self.assertRaisesRegex(coppice.FailedPrecondition, "emulator"):
            _core.Device("emulator")

    def test_a_device_knows_its_memory(self):
        """On any thread, in captures too."""
        tensor, host = self.device.upload(array(3)), array(3)
        address, asked = tensor.data_ptr(), []

        def ask(context=None):
            asked.append([self.device.holds(at) for at in (
                address, address + 23, host.ctypes.data, 0)])
            if context:
                self.device.copy(context.output(0).data_ptr(), context.input(0).data_ptr(), 24,
                                 context.stream)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        program = self.plain(ask)
        for _ in range(3):
            program.run([host])
        self.assertGreater(len(asked), 1)
        self.assertEqual([[True, True, False, False]] * len(asked), asked)
        del tensor
        self.assertFalse(self.device.holds(address))

    def test_a_device_that_there_is_not_is_unavailable(self):
        with self.assertRaises(coppice.Unavailable) as raised:
            _core.Device("cuda", 99)
        self.assertIsInstance(raised.exception, coppice.Error)
        self.assertEqual(0, raised.exception.driver_result)

    def test_kinds_of_devices_are_named(self):
        with self.assertRaisesRegex(ValueError, "auto, cuda, emulator"):
            _core.Device("tpu")

    def test_what_is_uploaded_comes_back_with_its_strides(self):
        given = array(6, 4).T
        tensor = self.device.upload(given)
        self.assertEqual(((4, 6), (1, 4), "f32"), (tensor.shape, tensor.strides, tensor.dtype))
        np.testing.assert_array_equal(given, tensor.numpy())
        np.testing.assert_array_equal(given, np.from_dlpack(tensor))

    def test_numpy_reads_what_it_is_given(self):
        tensor = self.device.upload(array(3))
        for read in (np.asarray(tensor), np.array(tensor, copy=True), np.add(tensor, 0)):
            np.testing.assert_array_equal(array(3), read)
        self.assertEqual(np.asarray(tensor, np.float64).dtype, np.float64)
        with self.assertRaisesRegex(ValueError, "copy"):
            tensor.__array__(copy=False)

    def test_a_copy_needs_the_same_sizes_and_type(self):
        tensor = self.device.empty((3, 2), "f32")
        tensor.copy_from(array(3))
        np.testing.assert_array_equal(array(3), tensor.numpy())
        for wrong in (array(2), array(3).astype(np.float64), "text"):
            with self.subTest(wrong=wrong), self.assertRaises(coppice.InvalidArgument):
                tensor.copy_from(wrong)

    def test_a_view_keeps_its_owner(self):
        tensor = self.device.upload(array(4))
        view = self.device.view(tensor.data_ptr() + 8, (3, 2), "f32", owner=tensor)
        del tensor
        gc.collect()
        np.testing.assert_array_equal(array(4)[1:], view.numpy())

    def test_types_are_named(self):
        for name in ("f64", "f32", "f16", "i64", "i32", "i16", "i8", "u8", "bool"):
            self.assertEqual(name, self.device.empty((2,), name).dtype)
        with self.assertRaisesRegex(coppice.InvalidArgument, "f33.*bf16"):
            self.device.empty((2,), "f33")

    def test_the_first_call_of_a_package_records_and_later_ones_replay(self):
        program, x, w = self.shares(), array(5, 64) / 100, array(64, 40) / 1000
        leases = [program.run([x, w]) for _ in range(3)]
        self.assertEqual(["record", "replay", "replay"], [lease.kind for lease in leases])
        self.assertEqual(["new_bucket", "none", "none"], [lease.reason for lease in leases])
        self.assertEqual([1, 2, 3], [lease.call_number for lease in leases])
        np.testing.assert_allclose(np.ones(5), leases[-1][0].numpy().sum(1), rtol=1e-5)

    def test_calls_count_in_statistics_and_buckets(self):
        program, w = self.shares(), array(64, 40)
        for rows in (5, 7, 3, 8):
            program.run([array(rows, 64), w])
        stats = self.session.stats()
        self.assertEqual((4, 2, 2), (stats["calls"], stats["runs"]["record"],
                                     stats["runs"]["replay"]))
        self.assertEqual({"new_bucket": 2}, stats["reasons"])
        self.assertEqual([[8], [4]], [bucket["bucket"] for bucket in self.session.buckets()])
        self.assertGreater(self.session.memory()["height"], 0)

    def test_an_output_that_was_written_over_is_stale(self):
        program, w = self.shares(), array(64, 40)
        lease = program.run([array(5, 64), w])
        program.run([array(5, 64), w])
        for read in (lambda: lease[0].numpy(), lambda: np.from_dlpack(lease[0]),
                     lambda: lease[0].shape):
            with self.assertRaisesRegex(coppice.StaleOutput, "'shares'.*overwritten by call 2"):
                read()

    def test_an_output_is_kept_alive_in_a_chain(self):
        program, w = self.shares(), array(64, 40)
        with self.session.chain():
            first = program.run([array(5, 64), w])
            before = first[0].numpy()
            program.run([array(5, 64) * 2, w])
            np.testing.assert_array_equal(before, first[0].numpy())
            with self.assertRaises(coppice.FailedPrecondition), self.session.chain():
                pass

    def test_an_output_is_read_where_it_lies_by_the_next_call(self):
        def copy(context):
            context.output(0)

        program = self.plain(copy)
        for _ in range(4):
            y = program([array(8)])
            program([y])
        self.assertGreater(self.session.stats()["inputs_in_place"], 0)

    def test_detached_outputs_outlive_their_session(self):
        program, w = self.shares(), array(64, 40) / 1000
        (kept,) = program.run([array(5, 64) / 100, w]).detach()
        program.run([array(5, 64), w])
        self.session.close()
        np.testing.assert_allclose(np.ones(5), kept.numpy().sum(1), rtol=1e-5)

    def test_parts_of_a_lease_are_dropped_one_by_one(self):
        spec = {**SPEC, "outputs": [{**SPEC["outputs"][0], "name": name} for name in "yz"]}

        def both(context):
            context.output(0), context.output(1)

        program = self.session.register_callable(spec, both)
        lease = program.run([array(4)])
        first, second = lease.split()
        first.release()
        self.assertEqual((4, 2), second[1].shape)
        with self.assertRaises(coppice.FailedPrecondition):
            first.kind
        program.run([array(4)], donated=[second])

    def test_the_device_decides_how_much_of_an_input_is_real(self):
        """By a count of the caller's, and by that of an output; None: the host does."""
        count = self.device.upload(np.array(3, np.int64))

        def copy(context):
            context.device.copy(context.output(0).data_ptr(), context.input(0).data_ptr(),
                                context.extent(0) * 8, context.stream)

        def keep(context):
            copy(context)
            context.device.copy(context.output(1).data_ptr(), count.data_ptr(), 8, context.stream)

        counted = self.plain(copy, name="counted",
                             symbols=[{**SPEC["symbols"][0], "counted": True}])
        kept = self.plain(keep, name="kept", outputs=[
            {**SPEC["outputs"][0], "count": "n"}, {"name": "n", "dtype": "i64", "shape": []}])
        x, zeros = array(5) + 1, np.zeros((2, 2), np.float32)
        for _ in range(3):
            np.testing.assert_array_equal(
                counted.run([x], counts=[count])[0].numpy(), np.vstack([x[:3], zeros]))
            np.testing.assert_array_equal(counted.run([x], counts=[None])[0].numpy(), x)
            made = kept.run([x])
            np.testing.assert_array_equal(
                counted.run([made[0]], counts=[made[0].count])[0].numpy(),
                np.vstack([x[:3], zeros]))
        for wrong, message in (([count, count], "count"), ([5], "count 0: a int is not a tensor")):
            with self.subTest(message=message), self.assertRaisesRegex(ValueError, message):
                counted.run([x], counts=wrong)
        with self.assertRaisesRegex(coppice.NotFound, "does not decide the size of this output"):
            made[1].count

    def test_recordings_are_timed_by_the_callers_clock(self):
        """Which is told of, and goes on, if it fails."""
        ticks = iter(range(1000, 10**9, 1000))
        with _core.Session(self.device, now_ns=lambda: next(ticks)) as session:
            program = session.register_callable(SPEC, lambda context: context.output(0))
            for _ in range(3):
                program.run([array(3)])
            self.assertEqual(0, session.buckets()[0]["record_ns"] % 1000)
            self.assertGreater(session.buckets()[0]["record_ns"], 0)

    def test_leases_are_sequences_of_outputs(self):
        lease = self.plain().run([array(4)])
        self.assertEqual(1, len(lease))
        self.assertEqual([0], [output.index for output in lease])
        self.assertIs(lease, lease[0].lease)
        with self.assertRaises(IndexError):
            lease[1]

    def test_wrong_calls_are_told(self):
        program = self.shares()
        x, w = array(5, 64), array(64, 40)
        for inputs, message in (([x], "copied inputs of program .* must be 2, not 1"),
                                ([x, 5], "input 1: a int is not a tensor"),
                                ([x, w.astype(np.float64)], "f64"), ([x[:, ::-1], w], "negative")):
            with self.subTest(message=message), self.assertRaisesRegex(ValueError, message):
                program.run(inputs)
        with self.assertRaises(TypeError):
            program.run(5)
        with self.assertRaisesRegex(ValueError, "not one of off, nan"):
            program.run([x, w], poison="acid")
        self.assertEqual("record", program.run([x, w]).kind)

    def test_wrong_options_and_specs_are_told(self):
        for make, message in (
                (lambda: _core.Session(self.device, lane=1),
                 "no option is called 'lane'; valid names: stance, lanes, .*trace_path"),
                (lambda: _core.Session(self.device, stance="calm"), "record, replay_only"),
                (lambda: _core.Session(self.device, lanes=-1), "lanes"),
                (lambda: self.plain(fill=1), "no field is called 'fill'"),
                (lambda: self.plain(inputs=[{"name": "x", "dtype": "f32", "rank": 2}]), "'rank'"),
                (lambda: self.plain(claim="all"), "row_independent"),
                (lambda: self.session.register_package(self.package, "other"), "other")):
            with self.subTest(message=message), self.assertRaisesRegex(coppice.Error, message):
                make()

    def test_programs_are_found_by_name_and_variant_until_they_end(self):
        program = self.plain(variant="own")
        self.assertIsNone(self.session.find("plain"))
        found = self.session.find("plain", "own")
        self.assertEqual("warm_up", found.run([array(3)]).kind)
        program.unregister()
        self.assertIsNone(self.session.find("plain", "own"))

    def test_a_policy_may_be_json(self):
        program = self.session.register_package(
            self.package, policies={"rows": '{"version": 1, "buckets": [6, 60]}'})
        program.run([array(5, 64), array(64, 40)])
        self.assertEqual([[6]], [bucket["bucket"] for bucket in self.session.buckets()])

    def test_a_callable_is_told_of_its_run(self):
        told = []

        def fn(context):
            address = context.allocate(1024)
            told.append((context.phase, context.extent(0), context.input(0).shape,
                         context.output(0).shape, address > 0, context.stream != 0))
            context.free(address)

        program = self.plain(fn)
        for _ in range(3):
            program.run([array(3)])
        self.assertEqual([(phase, 4, (4, 2), (4, 2), True, True) for phase in
                          ("warm_up", "record")], told)

    def test_a_context_that_is_kept_says_that_its_run_is_over(self):
        kept = []

        def fn(context):
            kept.append(context)
            context.output(0)

        self.plain(fn).run([array(3)])
        with self.assertRaisesRegex(coppice.FailedPrecondition, "its run is over"):
            kept[0].extent(0)

    def test_an_exception_of_a_callable_is_raised_as_it_is(self):
        def fn(context):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            self.plain(fn).run([array(3)])
        self.assertEqual("warm_up", self.plain(name="after").run([array(3)]).kind)

    def test_warming_records_ahead_of_traffic(self):
        program, progress = self.shares(), []
        program.warm([[8], [16]], progress=lambda *done: progress.append(done))
        self.assertEqual([(1, 2), (2, 2)], progress)
        self.assertEqual("replay", program.run([array(9, 64), array(64, 40)]).kind)
        with self.assertRaises(coppice.InvalidArgument):
            program.warm([[7]])

    def test_planning_runs_and_maps_nothing(self):
        plans = self.shares().plan([[8], [16]])
        self.assertEqual([plan["live_bytes"] for plan in plans],
                         [plan["plan_height"] for plan in plans])
        self.assertEqual(0, self.session.memory()["height"])

    def test_stances(self):
        program, w = self.shares(), array(64, 40)
        self.assertEqual("record", self.session.stance)
        with coppice.stance("strict", self.session):
            with self.assertRaisesRegex(coppice.FailedPrecondition, "new_bucket"):
                program.run([array(5, 64), w])
            with coppice.stance("eager", self.session):
                self.assertEqual("eager", program.run([array(5, 64), w]).kind)
            self.assertEqual("strict", self.session.stance)
        self.assertEqual("record", program.run([array(5, 64), w]).kind)
        with self.assertRaises(ValueError):
            self.session.stance = "calm"

    def test_static_tensors_are_bound(self):
        spec = {**SPEC, "inputs": [*SPEC["inputs"], {"name": "w", "dtype": "f32", "shape": [4],
                                                    "static": True}]}
        program = self.session.register_callable(spec, lambda context: context.output(0))
        weights = self.device.upload(np.zeros(4, np.float32))
        binding = program.bind([weights])
        self.assertEqual("warm_up", program.run([array(4)], binding=binding).kind)
        program.unbind(binding)
        with self.assertRaises(coppice.FailedPrecondition):
            program.run([array(4)], binding=binding)
        with self.assertRaisesRegex(coppice.InvalidArgument, "static"):
            program.bind([])

    def test_a_log_gets_lines_and_an_exception_in_it_stops_nothing(self):
        lines = []
        with_log = _core.Session(self.device, log=lines.append)
        self.addCleanup(with_log.close)
        with_log.register_callable(SPEC, lambda context: context.output(0)).run([array(3)])
        self.assertRegex(lines[0], "'plain' runs without replay: new_bucket")

        def broken(line):
            raise ValueError(line)

        told, before = [], sys.unraisablehook
        sys.unraisablehook = told.append
        self.addCleanup(setattr, sys, "unraisablehook", before)
        with_broken = _core.Session(self.device, log=broken)
        self.addCleanup(with_broken.close)
        program = with_broken.register_callable(SPEC, lambda context: context.output(0))
        self.assertEqual("warm_up", program.run([array(3)]).kind)
        self.assertIs(ValueError, told[0].exc_type)

    def test_ranks_vote_with_functions(self):
        votes = []

        def vote(bucket, kind, unanimous):
            votes.append((bucket, kind, unanimous))
            return [8], kind, bucket == [8]

        voting = _core.Session(self.device, vote=vote, barrier=lambda: votes.append("barrier"))
        self.addCleanup(voting.close)
        program = voting.register_callable(SPEC, lambda context: context.output(0))
        for _ in range(3):
            program.run([array(3)])
        self.assertIn("barrier", votes)
        self.assertEqual([[8]], [bucket["bucket"] for bucket in voting.buckets()
                                 if bucket["recorded"]])

    def test_memory_is_suspended_and_taken_again(self):
        program, w = self.shares(), array(64, 40)
        program.run([array(5, 64), w])
        self.session.suspend()
        with self.assertRaises(coppice.FailedPrecondition):
            program.run([array(5, 64), w])
        self.session.resume()
        self.assertEqual("replay", program.run([array(5, 64), w]).kind)

    def test_evicted_buckets_are_recorded_again(self):
        program, w = self.shares(), array(64, 40)
        program.run([array(5, 64), w]).release()
        self.assertEqual(1, self.session.evict(program))
        self.assertEqual("evicted", program.run([array(5, 64), w]).reason)

    def test_a_closed_session_refuses_calls(self):
        program = self.plain()
        self.session.close()
        self.session.close()
        self.assertTrue(self.session.closed)
        with self.assertRaisesRegex(coppice.FailedPrecondition, "closed"):
            program.run([array(3)])

    def test_threads_call_one_session(self):
        program, w = self.shares(), array(64, 40) / 1000
        wrong = []

        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(20):
                rows = int(rng.integers(1, ROWS_MAX))
                with self.session_lock:
                    got = program([rng.random((rows, 64), np.float32), w]).numpy()
                wrong.extend([] if np.allclose(got.sum(1), 1, atol=1e-5) else [rows])

        self.session_lock = threading.Lock()  # An output is stale after the next call of a lane.
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], wrong)
        self.assertEqual([], self.device.findings())

    def test_programs_that_come_and_go_leave_no_memory(self):
        def once():
            with _core.Session(self.device) as session:
                program = session.register_package(self.package,
                                                   policies={"rows": ("pow2", ROWS_MAX)})
                program.run([array(5, 64), array(64, 40)])

        for _ in range(3):
            once()
        gc.collect()
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        once()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            once()
        gc.collect()
        self.assertLess(tracemalloc.get_traced_memory()[0] - before, 4096)

    def test_an_unregistered_program_lets_go_of_its_package_and_callable(self):
        def mapped():
            with open("/proc/self/maps") as maps:
                return sum("triton_kernels.zip" in line for line in maps)

        before = mapped()
        package = self.device.load_package(SAMPLES / "triton_kernels.zip")
        program = self.session.register_package(package, variant="own",
                                                policies={"rows": ("pow2", ROWS_MAX)})
        del package
        gc.collect()
        self.assertGreater(mapped(), before)
        program.run([array(5, 64), array(64, 40)]).release()
        program.unregister()
        self.assertEqual(before, mapped())

        class Fn:
            def __call__(self, context):
                context.output(0)

        fn = Fn()
        ended = weakref.ref(fn)
        program = self.plain(fn)
        program.run([array(3)]).release()
        del fn
        self.assertIsNotNone(ended())
        program.unregister()
        self.assertIsNone(ended())

    def test_a_manifest_is_json(self):
        self.assertEqual("main", json.loads(self.package.manifest)["entry"])


if __name__ == "__main__":
    unittest.main()
