#!/usr/bin/env python3
"""Goal: nothing that Python can give the extension ends the process, hangs it, or is read as
something else: each is an error that says what was given and what is needed.
Method: wrong types, sizes and strides; sessions that are called while they run, closed while they
are called, and closed; many threads of one session.

    core_misuse_test.py [unittest's options]
"""

import gc
import pathlib
import sys
import tempfile
import threading
import time
import unittest
import weakref

import numpy as np

import coppice
from coppice import _core, devices

SAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "samples"
SPEC = {"name": "plain", "claim": "row_independent",
        "symbols": [{"name": "rows", "kind": "dynamic", "policy": ("pow2", 64)}],
        "inputs": [{"name": "x", "dtype": "f32", "shape": ["rows", 2]}],
        "outputs": [{"name": "y", "dtype": "f32", "shape": ["rows", 2]}]}
SECONDS_MAX, FREE_BYTES = 60, 64 << 20


def array(rows, columns=2):
    return np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)


def in_threads(*bodies):
    """Runs them at the same time. Raises if one does not end."""
    threads = [threading.Thread(target=body, daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS_MAX)
    if any(thread.is_alive() for thread in threads):
        raise AssertionError(f"a thread waits for more than {SECONDS_MAX} s")


class CoreMisuseTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = devices.device("emulator")

    def setUp(self):
        self.session = _core.Session(self.device)
        self.addCleanup(self.session.close)

    def plain(self, fn=lambda context: context.output(0), **changes):
        return self.session.register_callable({**SPEC, **changes}, fn)

    def refused(self, what, fn, *args, **options):
        with self.assertRaisesRegex((coppice.InvalidArgument, TypeError), what):
            fn(*args, **options)

    # Sessions.

    def test_lanes_are_as_many_as_there_may_be(self):
        for lanes in (1025, 5000, 2**31 - 1, -1):
            with self.subTest(lanes=lanes):
                self.refused("lanes", _core.Session, self.device, lanes=lanes)
        with tempfile.TemporaryDirectory() as folder:
            _core.Session(self.device, lanes=1024, trace_path=f"{folder}/t.trace").close()

    def test_sessions_come_and_go_for_ever(self):
        for _ in range(5600):  # Of 25 GB of addresses each, of which there are 128 TiB.
            _core.Session(self.device).close()

    # Tensors.

    def test_sizes_that_no_tensor_has_are_refused(self):
        for shape, what in (((-1, 4), "negative size, -1"),
                            ((1 << 40, 1 << 40), "does not fit into 64 bits"),
                            ((1 << 62,), "does not fit into 64 bits"), ((1,) * 9, "8 axes"),
                            ((2,) * 40, "8 axes")):
            with self.subTest(shape=shape):
                self.refused(what, self.device.empty, shape, "f32")
                self.refused(what, self.device.view, 512, shape, "f32")
        self.assertEqual(0, self.device.empty((0, 1 << 40, 1 << 40), "f32").nbytes)
        self.refused("8 axes", self.device.upload, np.ones((1,) * 12, np.float32))

    def test_strides_that_go_back_are_refused(self):
        given, tensor = array(6, 4), self.device.empty((6, 4), "f32")
        for wrong in (given[::-1], given[:, ::-1]):
            self.refused("negative strides", self.device.upload, wrong)
            self.refused("negative strides", tensor.copy_from, wrong)
        self.refused("negative strides", self.device.view, tensor.data_ptr() + 64, (3,), "f32",
                     strides=(-1,))
        self.refused("does not fit into 64 bits", self.device.view, tensor.data_ptr(), (3,), "f32",
                     strides=(1 << 61,))
        self.refused("input: it has negative strides", self.plain().run, [array(4)[::-1]])

    def test_what_dlpack_asks_for_is_checked(self):
        tensor = self.device.empty((3,), "f32")
        for options in ({"max_version": 3}, {"max_version": ("a", 1)}, {"dl_device": 5},
                        {"dl_device": ()}, {"copy": "x"}):
            with self.subTest(options=options):
                self.refused(next(iter(options)), tensor.__dlpack__, **options)

    # Options and specs.

    def test_options_of_another_type_are_named(self):
        for options in ({"lanes": "x"}, {"lanes": 2.5}, {"stance": 3}, {"gate": "yes"},
                        {"trace_path": 3}, {"log": 3}, {"vote": "x"}):
            with self.subTest(options=options):
                self.refused(f"session: {next(iter(options))}: .* is needed, but a .* is given",
                             _core.Session, self.device, **options)

    def test_fields_of_another_type_are_named(self):
        x = SPEC["inputs"][0]
        for changes, what in (({"claim": 3}, "spec: claim"), ({"name": None}, "spec: name"),
                              ({"symbols": 3}, "spec: symbols"), ({"symbols": [3]}, "symbol: dict"),
                              ({"symbols": [{}]}, "symbol: name"), ({"guards": "rows"}, "guards"),
                              ({"symbols": [{"name": "rows", "policy": ("pow2",)}]}, "policy"),
                              ({"symbols": [{"name": "rows", "policy": ("pow2", "x")}]},
                               "policy: maximum"),
                              ({"symbols": [{"name": "rows", "claim": ()}]}, "claim"),
                              ({"joint": [("rows", "rows", "8x8")]}, "spec: joint: dict"),
                              ({"joint": {"rows": "8x8"}}, "joint policy: symbols"),
                              ({"joint": {("rows", 3): "8x8"}}, "joint policy: symbol: str"),
                              ({"joint": {("rows", "rows"): 8}}, "joint policy: text"),
                              ({"joint": {("rows", "rows"): ("8x8", 8)}}, "joint policy: maxima"),
                              ({"joint": {("rows", "rows"): ("8x8", (8, "8"))}},
                               "joint policy: maximum"),
                              ({"inputs": [{"name": "x"}]}, "tensor: dtype"),
                              ({"inputs": [{**x, "shape": "rows"}]}, "tensor: shape"),
                              ({"inputs": [{**x, "strides": 5}]}, "tensor: strides"),
                              ({"inputs": [{**x, "fill": []}]}, "fill")):
            with self.subTest(changes=changes):
                self.refused(what, self.plain, **changes)
        self.refused("fn: function is needed", self.plain, 3)

    def test_parts_of_a_call_of_another_type_are_named(self):
        program = self.plain()
        for options in ({"scalars": "a"}, {"extents": [1.5]}, {"extents": [1 << 70]},
                        {"binding": 3}, {"donated": [1]}, {"output_mode": 3}, {"poison": 3}):
            with self.subTest(options=options):
                self.refused(next(iter(options)), program.run, [array(3)], **options)
        self.refused("input: list or tuple", program.run, 3)
        self.refused("progress", program.warm, [[8]], progress=3)
        self.refused("scratch", program.warm, [[8]], scratch=3)
        self.refused("evict", self.session.evict, "x")

    def test_a_call_that_is_refused_gives_its_staging_back(self):
        two = {"inputs": [SPEC["inputs"][0], {"name": "z", "dtype": "f32", "shape": ["rows"]}]}
        program = self.plain(**two)
        quarter = np.zeros((FREE_BYTES // 32, 2), np.float32)
        rest = self.device.empty((self.device.total_bytes - FREE_BYTES,), "u8")
        for _ in range(6):
            self.refused("input 1", program.run, [quarter, None])
        del rest

    def test_streams_that_come_and_go_leave_no_staging(self):
        program, quarter = self.plain(), np.zeros((FREE_BYTES // 32, 1), np.int64)
        rest = self.device.empty((self.device.total_bytes - FREE_BYTES,), "u8")
        for _ in range(6):
            stream = self.device.create_stream()
            self.refused("i64", program.run, [quarter], stream=stream)
            self.device.destroy_stream(stream)
        del rest
        self.refused("own", self.device.destroy_stream, self.device.stream)

    def test_an_iterator_of_statics_is_kept(self):
        static = {"inputs": [{**SPEC["inputs"][0]},
                             {"name": "w", "dtype": "f32", "shape": [2], "static": True}]}
        program = self.plain(**static)
        binding = program.bind(iter([self.device.upload(np.ones(2, np.float32))]))
        self.assertEqual(1, len(binding.tensors))

    def test_a_package_that_is_refused_lets_its_functions_go(self):
        package = self.device.load_package(SAMPLES / "triton_kernels.zip")

        def function(_inputs, _outputs, _options, _stream):
            pass

        for options in ({"policies": {"nothing": 3}}, {"program": "nothing"},
                        {"exact": "often"}):
            before = sys.getrefcount(function)
            with self.assertRaises((coppice.Error, TypeError)):
                self.session.register_package(package, functions={"nothing": function}, **options)
            gc.collect()
            self.assertEqual(before, sys.getrefcount(function))

    # Sessions that end.

    def test_a_closed_session_refuses_everything(self):
        program = self.plain()
        lease = program.run([array(3)])
        self.session.close()
        for method in ("stats", "memory", "buckets", "trim", "suspend", "resume", "evict",
                       "wait_for_recordings", "flush_trace"):
            with self.subTest(method=method), \
                    self.assertRaisesRegex(coppice.FailedPrecondition, "session: it is closed"):
                getattr(self.session, method)()
        for call in (lambda: self.session.dump(0, 1), lambda: self.session.find("plain"),
                     lambda: self.session.load_profile("x"), lambda: program.warm([[8]]),
                     lambda: self.session.chain().__enter__(), lambda: self.plain()):
            with self.assertRaisesRegex(coppice.FailedPrecondition, "session: it is closed"):
                call()
        for read in (lease.detach, lease.split):
            with self.assertRaisesRegex(coppice.StaleOutput, "gone"):
                read()

    def test_a_session_is_closed_while_threads_call_it(self):
        for _ in range(10):
            with _core.Session(self.device) as session:
                program = session.register_callable(SPEC, lambda context: context.output(0))

                def work():
                    with self.assertRaises(coppice.FailedPrecondition):
                        while True:
                            program([array(3)]).shape

                def close():
                    time.sleep(0.01)
                    session.close()

                in_threads(work, work, close, close)
                self.assertTrue(session.closed)

    def test_a_reader_does_not_wait_for_a_callable_that_waits_for_the_interpreter(self):
        def slow(context):
            time.sleep(0.001)
            context.output(0)

        program = self.plain(slow)

        def work():
            for rows in range(1, 40):
                try:
                    output = program([array(rows)])
                    self.assertEqual((rows, 2), output.shape)
                    with self.session.chain():
                        pass
                except coppice.FailedPrecondition:  # Written over, or chained, by another thread.
                    pass
                program.reset()

        in_threads(work, work, work)

    def test_texts_that_grow_meanwhile_are_whole(self):
        program, done = self.plain(), threading.Event()

        def grow():
            for round_ in range(60):
                program.warm([[2 ** (round_ % 7)]])
                if round_ % 7 == 6:
                    program.reset()
            done.set()

        def read():
            while not done.is_set():
                self.session.buckets()

        in_threads(grow, read)

    def test_a_session_that_refers_to_itself_is_collected(self):
        class Engine:
            def __init__(self, device, **options):
                self.session = _core.Session(device, log=self.log, **options)
                self.program = self.session.register_callable(SPEC, self.step)
                self.last, self.lines, self.steps = None, [], 0

            def log(self, line):
                self.lines.append(line)

            def step(self, context):
                self.steps += 1
                context.output(0)

        for options in ({}, {"record_in_background": True}):
            for kept in (False, True):
                with self.subTest(options=options, kept=kept):
                    engine = Engine(self.device, **options)
                    for rows in range(1, 40):
                        engine.last = engine.program([array(rows)])
                    self.assertLess(0, engine.steps)
                    held = engine.last if kept else None
                    ended = weakref.ref(engine)
                    del engine
                    gc.collect()
                    self.assertEqual(kept, ended() is not None)
                    if kept:
                        self.assertEqual((39, 2), held.shape)
                    del held
                    gc.collect()
                    self.assertIsNone(ended())

    # Callables that call.

    def test_a_callable_that_calls_its_session_is_refused_and_runs(self):
        x = self.device.upload(array(3))
        calls = {"run": lambda: program.run([x]), "reset": lambda: program.reset(),
                 "stats": self.session.stats, "evict": self.session.evict,
                 "unregister": lambda: program.unregister(), "read": lambda: earlier[0].numpy(),
                 "warm": lambda: program.warm([[8]])}
        refused, earlier = set(), []

        def asks(context):
            for name, call in calls.items():
                try:
                    call()
                except coppice.FailedPrecondition as error:
                    self.assertIn("callback", str(error))
                    refused.add(name)
                except IndexError:
                    pass
            context.output(0)

        program = self.plain(asks)
        earlier.append(program([array(3)]))
        second = program.run([array(3)])
        self.assertEqual(("record", "new_bucket"), (second.kind, second.reason))
        self.assertEqual(set(calls), refused)

    def test_a_session_that_its_callable_closes_ends_when_the_call_has(self):
        def closes(context):
            self.session.close()
            context.output(0)

        program = self.plain(closes)
        lease = program.run([array(3)])
        self.assertEqual("warm_up", lease.kind)
        with self.assertRaises(coppice.StaleOutput):
            lease[0].numpy()

    def test_what_a_callback_raised_is_not_told_of_another_call(self):
        told = []

        def log(_line):
            try:
                self.session.dump(0, 99)
            except coppice.Error as error:
                told.append(error)

        def fails(context):
            if context.phase == "record":
                raise KeyError("of the callable")
            context.output(0)

        self.session = _core.Session(self.device, log=log)
        self.addCleanup(self.session.close)
        program = self.plain(fails)
        for _ in range(2):
            program.run([array(3)])
        self.assertTrue(told)
        with self.assertRaisesRegex(KeyError, "of the callable"):
            program.warm([[16]])


if __name__ == "__main__":
    unittest.main()
