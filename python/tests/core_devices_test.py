#!/usr/bin/env python3
"""Goal: each device of CUDA is its own: arrays of another are refused, and no call changes what
other libraries take for the current device.
Method: the emulated libcuda.so.1 with two devices, beside the command COPPICE. Arrays say of
themselves what PyTorch's and Numba's do; the driver's own function says which context is current.

    core_devices_test.py COPPICE [unittest's options]
"""

import contextlib
import ctypes
import os
import pathlib
import sys
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
                        InvalidArgument, f"input 0: on device {1 - ordinal} of type 2, not "
                                         f"{ordinal} of type 2"):
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
