#!/usr/bin/env python3
"""Goal: each device of CUDA is its own: arrays of another are refused, and no call changes what
other libraries take for the current device. Ranks on two devices agree.
Method: the emulated libcuda.so.1 with two devices, beside the command COPPICE. Arrays say of
themselves what PyTorch's and Numba's do; the driver's own function says which context is current.

    core_devices_test.py COPPICE [unittest's options]
"""

import concurrent.futures
import contextlib
import ctypes
import os
import pathlib
import sys
import threading
import unittest

import numpy as np

HERE = pathlib.Path(__file__).resolve()
COMMAND = pathlib.Path(sys.argv[1]).resolve()
FOLDER = COMMAND.parent.parent / "runtime" / "emulated_cuda"
ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": str(FOLDER), "COPPICE_EMULATED_DEVICES": "2"}
if ENVIRONMENT != os.environ:  # The loader reads it before Python runs.
    os.execve(sys.executable, [sys.executable, "-B", *sys.argv], ENVIRONMENT)
del sys.argv[1]

import coppice  # noqa: E402
from coppice import _core, devices  # noqa: E402
from coppice.devices import LEGACY_STREAM  # noqa: E402
from coppice.errors import InvalidArgument  # noqa: E402

PACKAGE = HERE.parents[2] / "samples" / "triton_kernels.zip"
driver = ctypes.CDLL("libcuda.so.1")


def current():
    context = ctypes.c_void_p()
    assert driver.cuCtxGetCurrent(ctypes.byref(context)) == 0
    return context.value


def make_current(context):
    assert driver.cuCtxSetCurrent(ctypes.c_void_p(context)) == 0


def read_on_legacy_stream(tensor, like):
    """What a copy on that stream reads, which the driver does for PyTorch's .cpu()."""
    read = np.empty_like(like)
    assert driver.cuMemcpyDtoH_v2(
        ctypes.c_void_p(read.ctypes.data), ctypes.c_uint64(tensor.data_ptr()),
        ctypes.c_size_t(read.nbytes)) == 0
    return read


class Interface:
    """An array that says by __cuda_array_interface__ where it lies: not on which device."""

    def __init__(self, tensor):
        self.tensor = tensor

    @property
    def __cuda_array_interface__(self):
        return {"shape": tuple(self.tensor.shape), "typestr": "<f4", "strides": None, "version": 3,
                "data": (self.tensor.data_ptr(), False)}


class Capsule:
    """An array that says it by __dlpack__."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)


class DevicesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.devices = [_core.Device("cuda", ordinal) for ordinal in range(2)]
        cls.contexts = []
        for device in cls.devices:
            device.make_current()
            cls.contexts.append(current())
        cls.w = (np.arange(64 * 40, dtype=np.float32).reshape(64, 40) % 7) / 8
        cls.x = np.arange(5 * 64, dtype=np.float32).reshape(5, 64) % 5
        cls.sessions, cls.programs = [], []
        for device in cls.devices:
            session = _core.Session(device)
            package = device.load_package(PACKAGE, allow_ptx=True)
            cls.sessions.append(session)
            cls.programs.append(session.register_package(package, policies={"rows": ("pow2", 64)}))

    @classmethod
    def tearDownClass(cls):
        for session in cls.sessions:
            session.close()

    def inputs(self, ordinal):
        return [self.devices[ordinal].upload(array) for array in (self.x, self.w)]

    def test_each_computes_on_its_own(self):
        results, kinds = [], []
        for _ in range(3):
            for ordinal, program in enumerate(self.programs):
                for shown in (lambda tensor: tensor, Interface, Capsule):
                    lease = program.run([shown(one) for one in self.inputs(ordinal)])
                    self.assertEqual((2, ordinal), lease[0].__dlpack_device__())
                    results.append(np.asarray(lease[0].numpy()))
                    kinds.append(lease.kind)
        self.assertGreater(kinds.count("replay"), 10)
        self.assertTrue(np.isfinite(results[0]).all() and results[0].any())
        for result in results:
            np.testing.assert_array_equal(result, results[0])

    def test_what_lies_on_the_other_is_refused(self):
        for ordinal, program in enumerate(self.programs):
            x, w = self.inputs(ordinal)
            other = self.inputs(1 - ordinal)[0]
            for shown in (lambda tensor: tensor, Interface, Capsule):
                with self.assertRaisesRegex(
                        InvalidArgument, f"input 0: is on device {1 - ordinal} of type 2, but the "
                                         f"session is on device {ordinal} of type 2"):
                    program.run([shown(other), w])
            program.run([x, w]).release()

    def test_runs_are_in_the_order_of_the_legacy_stream(self):
        """Which PyTorch works on unless it is told otherwise, and which knows of no other."""
        device, program = self.devices[0], self.programs[0]
        x, w = self.inputs(0)
        expected = np.asarray(program.run([x, w])[0].numpy())
        target = device.empty(list(expected.shape), "f32")
        make_current(self.contexts[0])
        self.addCleanup(make_current, None)
        kinds = []
        for _ in range(4):
            assert driver.cuMemsetD8Async(*map(ctypes.c_uint64, (target.data_ptr(), 0xFF,
                                               expected.nbytes, LEGACY_STREAM))) == 0
            lease = program.run([x, w], stream=LEGACY_STREAM, output_mode="write_into",
                                targets=[target])
            kinds.append(lease.kind)
            lease.release()
            np.testing.assert_array_equal(read_on_legacy_stream(target, expected), expected)
        self.assertEqual("replay", kinds[-1])

    def test_consumers_of_dlpack_are_behind_the_run_on_their_stream(self):
        device, program = self.devices[0], self.programs[0]
        x, w = self.inputs(0)
        expected = np.asarray(program.run([x, w])[0].numpy())
        make_current(self.contexts[0])
        self.addCleanup(make_current, None)
        for _ in range(4):
            output = program.run([x, w])[0]
            capsule = output.__dlpack__(stream=LEGACY_STREAM)
            np.testing.assert_array_equal(read_on_legacy_stream(output, expected), expected)
            del capsule
        with self.assertRaisesRegex(InvalidArgument, "on stream 2; pass a stream of your own"):
            output.__dlpack__(stream=2)
        device.synchronize()

    def test_no_call_changes_the_current_context(self):
        device, program = self.devices[0], self.programs[0]
        x, w = self.inputs(0)
        stream = device.create_stream()
        calls = {
            "upload": lambda: device.upload(self.x), "empty": lambda: device.empty([3], "f32"),
            "fill": lambda: device.fill(x.data_ptr(), 0), "copy": lambda: device.copy(
                x.data_ptr(), x.data_ptr(), 0),
            "filled": lambda: device.fill(x.data_ptr(), 12),
            "holds": lambda: device.holds(x.data_ptr()), "to_host": x.to_host,
            "synchronize": device.synchronize, "stream": lambda: device.stream,
            "streams": lambda: device.destroy_stream(device.create_stream()),
            "synchronize_stream": lambda: device.synchronize_stream(stream),
            "run": lambda: program.run([x, w]), "released": lambda: program.run([x, w]).release(),
            "numpy": lambda: program.run([x, w])[0].numpy(),
            "interface": lambda: program.run([Interface(x), w]),
            "detach": lambda: program.run([x, w]).detach(),
            "load": lambda: device.load_package(PACKAGE, allow_ptx=True),
            "session": lambda: _core.Session(device).close(), "bind": lambda: program.bind([]),
            "stats": lambda: self.sessions[0].stats, "open": lambda: _core.Device("cuda", 0)}
        for before in (self.contexts[1], None):
            make_current(before)
            changed = []
            for name, call in calls.items():
                call()
                if current() != before and (name, before) != ("open", None):
                    changed.append(name)
                make_current(before)
            self.assertEqual([], changed)


KINDS = ("eager", "warm_up", "record", "replay")  # Lowest first.
SECONDS_MAX = 60  # That a rank waits for the other.


class Rank:
    """A rank of two, which are threads: it votes for the larger bucket and the lower kind."""

    def __init__(self, number, device, meeting, proposals):
        self.number, self.device, self.meeting, self.proposals = number, device, meeting, proposals
        self.agreed = []
        self.session = _core.Session(device, vote=self.vote, barrier=self.barrier)
        package = device.load_package(PACKAGE, allow_ptx=True)
        self.program = self.session.register_package(package, policies={"rows": ("pow2", 64)})

    def vote(self, bucket, kind, unanimous=True):
        self.proposals[self.number] = bucket, kind
        self.barrier()
        buckets, kinds = zip(*self.proposals)
        self.barrier()  # Before the next vote of either.
        self.agreed.append((list(map(max, *buckets)), min(kinds, key=KINDS.index)))
        return *self.agreed[-1], buckets[0] == buckets[1]

    def barrier(self):
        self.meeting.wait(SECONDS_MAX)

    def run(self, x, w):
        """The result of a call, read from the rank's own device."""
        lease = self.program.run([self.device.upload(one) for one in (x, w)])
        assert lease[0].__dlpack_device__() == (2, self.number)
        return np.asarray(lease[0].numpy())


class RanksTest(unittest.TestCase):
    """Two ranks, each on a device of its own."""

    def setUp(self):
        meeting, proposals = threading.Barrier(2), [None, None]
        self.ranks = [Rank(number, _core.Device("cuda", number), meeting, proposals)
                      for number in range(2)]
        for rank in self.ranks:
            self.addCleanup(rank.session.close)
        pool = concurrent.futures.ThreadPoolExecutor(2)
        self.addCleanup(pool.shutdown)
        self.together = lambda function: [done.result() for done in [
            pool.submit(function, rank) for rank in self.ranks]]

    def test_ranks_agree_on_buckets_and_their_results_are_right(self):
        random = np.random.default_rng(1)
        w = random.random((64, 40), np.float32)
        calls = [[random.random((rows, 64), np.float32) for rows in both]
                 for both in ((3, 9), (4, 30), (20, 2), (9, 5), (3, 4), (17, 32), (1, 60))]
        with _core.Session(self.ranks[0].device) as alone:
            package = self.ranks[0].device.load_package(PACKAGE, allow_ptx=True)
            program = alone.register_package(package, policies={"rows": ("pow2", 64)})
            upload = self.ranks[0].device.upload
            expected = [[np.asarray(program.run([upload(x), upload(w)])[0].numpy()) for x in both]
                        for both in calls]

        def run(rank):
            return [rank.run(both[rank.number], w) for both in calls]

        for rank, results in zip(self.ranks, self.together(run)):
            for result, right in zip(results, expected, strict=True):
                np.testing.assert_array_equal(result, right[rank.number])
        first, second = [rank.agreed for rank in self.ranks]
        self.assertEqual(first, second)
        twice = [16, 16, 32, 32, 32, 32, 16, 16, 4, 32, 64, 64]  # Where what they propose differs.
        self.assertEqual(twice, [rows for (rows,), _ in first])
        recorded = [sorted(one["bucket"] for one in rank.session.buckets()) for rank in self.ranks]
        self.assertEqual([[[4], [16], [32], [64]]] * 2, recorded)
        for rank in self.ranks:
            self.assertEqual(3, rank.session.stats()["runs"]["replay"])

    def test_an_input_of_the_other_rank_is_refused_before_the_vote(self):
        x, w = np.ones((5, 64), np.float32), np.ones((64, 40), np.float32)
        for rank, other in zip(self.ranks, self.ranks[::-1]):
            with self.assertRaisesRegex(InvalidArgument, f"on device {other.number} of type 2"):
                rank.program.run([other.device.upload(x), rank.device.upload(w)])
            self.assertEqual([], rank.agreed)
        results = self.together(lambda rank: rank.run(x, w))
        np.testing.assert_array_equal(*results)


class SharedSessionTest(unittest.TestCase):
    def test_functions_on_cpu_tensors_beside_a_gpu_are_what_is_shown(self):
        """As in README's example, whose tensors are on the CPU wherever it runs."""
        emulator = devices.device_of_tensors("emulator")  # As the backend of torch.compile.
        model = coppice.load(PACKAGE, device=emulator, policies={"rows": ("pow2", 64)})
        self.addCleanup(devices.exchange_session, emulator, None)
        with contextlib.closing(coppice.session(emulator)):
            for rows in (5, 7, 8):
                model(np.ones((rows, 64), np.float32), np.ones((64, 40), np.float32))
            self.assertEqual(3, sum(coppice.session().stats()["runs"].values()))
            with coppice.stance("strict"):
                model(np.ones((6, 64), np.float32), np.ones((64, 40), np.float32))
            self.assertIn('coppice_runs_total{path="replay"} 3\n', coppice.prof.metrics())
            self.assertEqual("cuda", coppice.device().kind)


if __name__ == "__main__":
    unittest.main()
