#!/usr/bin/env python3
"""Goal: the emulated libcuda.so.1 has the driver's names, versions and results. Method: ctypes on
the library, whose path is the first argument, as a client of the driver calls it; each test in a
process of its own, since a process has one driver."""

import ctypes
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import traceback
import unittest

LIBRARY = sys.argv.pop(1) if len(sys.argv) > 1 else ""
ROOT = pathlib.Path(__file__).resolve().parents[2]
ENTRIES = ROOT / "include" / "coppice" / "runtime" / "driver_entries.inc"
CLIENTS = ROOT / "runtime" / "emulated_cuda" / "client_entries.inc"
NOT_FOUND, INVALID_VALUE, INVALID_HANDLE, INVALID_CONTEXT = 500, 1, 400, 201
FILL_PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 seven = 7;
.visible .entry Store(.param .u64 target, .param .u32 value)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [target];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}
\0"""


class Driver:
    """The library; each name is a function that fails unless it returns `expect`, or 0."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments, expect=0):
            result = function(*arguments)
            assert result == expect, f"{name}: {result}, not {expect}"
        return call

    def value(self, name, *arguments, kind=ctypes.c_void_p):
        """What the function writes to its first argument."""
        out = kind()
        getattr(self, name)(ctypes.byref(out), *arguments)
        return out

    def find(self, name, version, flags=1):
        """What cuGetProcAddress finds, and its status."""
        function = ctypes.c_void_p()
        status = ctypes.c_int(-1)
        self.cuGetProcAddress_v2(name.encode(), ctypes.byref(function), version,
                                 ctypes.c_uint64(flags), ctypes.byref(status))
        return function.value, status.value

    def context(self, device=0):
        self.cuInit(0)
        return self.value("cuCtxCreate_v2", 0, device)

    def allocate(self, bytes_=4):
        return self.value("cuMemAlloc_v2", ctypes.c_size_t(bytes_), kind=ctypes.c_uint64)

    def read(self, address):
        word = ctypes.c_uint32()
        self.cuMemcpyDtoH_v2(ctypes.byref(word), address, ctypes.c_size_t(4))
        return word.value

    def module(self):
        return self.value("cuModuleLoadData", FILL_PTX)

    def end(self, stream):
        """Ends a capture; the graph's address."""
        graph = ctypes.c_void_p()
        self.cuStreamEndCapture(stream, ctypes.byref(graph))
        return graph.value

    def store(self, module, stream, address, value, expect=0):
        function = self.value("cuModuleGetFunction", module, b"Store")
        given = (ctypes.c_uint64(address.value), ctypes.c_uint32(value))
        pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(one) for one in given))
        self.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, pointers, None, expect=expect)


def run(test, path, answers):
    try:
        test(Driver(path))
        answers.put("")
    except BaseException:  # All of it belongs to the parent.
        answers.put(traceback.format_exc())


def alone(test):
    """The test as a method whose body runs in a fresh process."""
    def method(self):
        spawn = multiprocessing.get_context("fork")
        answers = spawn.Queue()
        process = spawn.Process(target=run, args=(test, LIBRARY, answers))
        process.start()
        process.join(60)
        self.assertEqual(process.exitcode, 0)
        said = answers.get(timeout=5)
        self.assertEqual(said, "", said)
    return method


def driver_names():
    lines = re.findall(r"^(?:OPTIONAL_)?X\((\w+), (\d+),", ENTRIES.read_text(), re.MULTILINE)
    return [("cu" + name, int(version)) for name, version in lines]


def client_names():
    return [(name, exported, int(version)) for name, exported, version in
            re.findall(r'^X\(\w+, "(\w+)", (\w+), (\d+),', CLIENTS.read_text(), re.MULTILINE)]


class LibraryTest(unittest.TestCase):
    def test_exports_names_of_the_driver_alone(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True,
                                stdout=subprocess.PIPE, text=True).stdout
        names = {line.split()[2] for line in listed.splitlines()}
        self.assertEqual([name for name in names if not re.match(r"cu[A-Z]", name)], [])
        for name, exported, _ in client_names():
            self.assertIn(exported, names, name)
        for name, _ in driver_names():
            self.assertTrue(any(re.fullmatch(name + r"(_v\d)?", one) for one in names), name)

    def test_is_called_libcuda(self):
        listed = subprocess.run(["readelf", "-d", LIBRARY], check=True, stdout=subprocess.PIPE,
                                text=True).stdout
        self.assertRegex(listed, r"SONAME.*\[libcuda\.so\.1\]")

    @alone
    def test_finds_each_entry_at_its_version_and_not_before(driver):
        every = driver_names() + [(name, version) for name, _, version in client_names()]
        first = {name: min(version for other, version in every if other == name)
                 for name, _ in every}
        for name, version in every:
            function, status = driver.find(name, version)
            assert function and status == 0, name
        for name, version in first.items():
            assert driver.find(name, version - 1) == (None, 2), name

    @alone
    def test_finds_what_an_older_version_had(driver):
        found = [driver.find("cuCtxCreate", version)[0] for version in (11000, 12000, 13000)]
        assert len(set(found)) == 3, found
        assert driver.find("cuCtxGetDevice", 12000) != driver.find("cuCtxGetDevice", 13000)

    @alone
    def test_says_what_it_has_not(driver):
        assert driver.find("cuTexRefCreate", 13000) == (None, 1)
        function = ctypes.c_void_p()
        driver.cuGetProcAddress(b"cuTexRefCreate", ctypes.byref(function), 13000,
                                ctypes.c_uint64(1), expect=NOT_FOUND)
        driver.cuGetProcAddress_v2(b"cuInit", ctypes.byref(function), 13010, ctypes.c_uint64(1),
                                   None, expect=INVALID_VALUE)

    @alone
    def test_needs_cuInit(driver):
        driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int()), expect=3)
        assert driver.value("cuDriverGetVersion", kind=ctypes.c_int).value == 13000
        text = ctypes.c_char_p()
        driver.cuGetErrorString(201, ctypes.byref(text))
        assert text.value == b"invalid device context"

    @alone
    def test_contexts_are_a_stack(driver):
        first = driver.context()
        second = driver.value("cuCtxCreate_v2", 0, 0)
        assert driver.value("cuCtxGetCurrent").value == second.value
        driver.cuCtxPushCurrent_v2(first)
        assert driver.value("cuCtxGetCurrent").value == first.value
        assert driver.value("cuCtxPopCurrent_v2").value == first.value
        assert driver.value("cuCtxGetCurrent").value == second.value
        driver.cuCtxDestroy_v2(second)
        assert driver.value("cuCtxGetCurrent").value == first.value
        driver.cuCtxPushCurrent_v2(second, expect=INVALID_CONTEXT)

    @alone
    def test_a_context_takes_its_streams_along(driver):
        first = driver.context()
        second = driver.value("cuCtxCreate_v2", 0, 0)
        stream = driver.value("cuStreamCreate", 1)
        driver.cuStreamSynchronize(stream)
        driver.cuCtxDestroy_v2(second)
        driver.cuStreamSynchronize(stream, expect=INVALID_HANDLE)
        driver.cuCtxDestroy_v2(first)
        driver.cuCtxSynchronize(expect=INVALID_CONTEXT)

    @alone
    def test_streams_of_another_context_take_no_work(driver):
        first = driver.context()
        stream = driver.value("cuStreamCreate", 1)
        address = driver.allocate()
        driver.value("cuCtxCreate_v2", 0, 0)
        driver.cuMemsetD32Async(address, 1, ctypes.c_size_t(1), stream, expect=INVALID_HANDLE)
        driver.cuCtxPushCurrent_v2(first)
        driver.cuMemsetD32Async(address, 1, ctypes.c_size_t(1), stream)

    @alone
    def test_what_is_left_is_destroyed_without_a_context(driver):
        context = driver.context()
        stream = driver.value("cuStreamCreate", 1)
        event = driver.value("cuEventCreate", 0)
        graph = driver.value("cuGraphCreate", 0)
        driver.cuCtxPopCurrent_v2(None)
        driver.cuStreamSynchronize(stream, expect=INVALID_CONTEXT)
        driver.cuStreamDestroy_v2(stream)
        driver.cuEventDestroy_v2(event)
        driver.cuGraphDestroy(graph)
        driver.cuStreamDestroy_v2(stream, expect=INVALID_HANDLE)
        driver.cuCtxDestroy_v2(context)

    @alone
    def test_copies_wait(driver):
        driver.context()
        address = driver.allocate()
        driver.cuMemsetD32_v2(address, 5, ctypes.c_size_t(1))
        assert driver.read(address) == 5
        word = ctypes.c_uint32(9)
        driver.cuMemcpyHtoD_v2(address, ctypes.byref(word), ctypes.c_size_t(4))
        word.value = 0
        assert driver.read(address) == 9
        driver.cuMemcpy(ctypes.c_uint64(ctypes.addressof(word)), address, ctypes.c_size_t(4))
        assert word.value == 9
        driver.cuMemsetD16_v2(address, 0x102, ctypes.c_size_t(2))
        assert driver.read(address) == 0x1020102

    @alone
    def test_a_module_runs_and_has_variables(driver):
        driver.context()
        module = driver.module()
        bytes_ = ctypes.c_size_t()
        variable = driver.value("cuModuleGetGlobal_v2", ctypes.byref(bytes_), module, b"seven",
                                kind=ctypes.c_uint64)
        assert bytes_.value == 4 and driver.read(variable) == 7
        address = driver.allocate()
        driver.store(module, None, address, 11)
        assert driver.read(address) == 11
        out = ctypes.c_void_p()
        driver.cuModuleGetFunction(ctypes.byref(out), module, b"Other", expect=NOT_FOUND)
        driver.cuModuleUnload(module)
        driver.cuModuleUnload(module, expect=INVALID_HANDLE)

    @alone
    def test_an_image_for_a_host_is_none(driver):
        driver.context()
        out = ctypes.c_void_p()
        host = (ROOT / "include/coppice/runtime/kernel_image.h").read_text()
        magic = int(re.search(r"kMagic = (0x[0-9A-Fa-f']+)", host)[1].replace("'", ""), 16)
        image = magic.to_bytes(8, "little") + bytes(64)
        driver.cuModuleLoadData(ctypes.byref(out), image, expect=200)

    @alone
    def test_host_memory_is_reached_by_both(driver):
        driver.context()
        module = driver.module()
        pinned = driver.value("cuMemHostAlloc", ctypes.c_size_t(4), 0)
        word = ctypes.cast(pinned, ctypes.POINTER(ctypes.c_uint32))
        word[0] = 3
        driver.store(module, None, pinned, 4)
        driver.cuStreamSynchronize(None)
        assert word[0] == 4
        driver.cuMemFree_v2(ctypes.c_uint64(pinned.value), expect=INVALID_VALUE)
        driver.cuMemFreeHost(pinned)
        managed = driver.value("cuMemAllocManaged", ctypes.c_size_t(4), 1, kind=ctypes.c_uint64)
        driver.store(module, None, managed, 8)
        driver.cuStreamSynchronize(None)
        assert ctypes.cast(managed.value, ctypes.POINTER(ctypes.c_uint32))[0] == 8
        driver.cuMemFree_v2(managed)
        own = (ctypes.c_uint32 * 1024)()
        address = ctypes.c_uint64(ctypes.addressof(own))
        driver.cuMemHostRegister_v2(own, ctypes.c_size_t(4096), 0)
        driver.cuMemHostRegister_v2(own, ctypes.c_size_t(4096), 0, expect=712)
        driver.store(module, None, address, 6)
        driver.cuStreamSynchronize(None)
        assert own[0] == 6
        driver.cuMemHostUnregister(own)
        driver.cuMemHostUnregister(own, expect=713)

    @alone
    def test_host_memory_that_nobody_registered_ends_the_context(driver):
        driver.context()
        own = (ctypes.c_uint32 * 4)()
        driver.store(driver.module(), None, ctypes.c_uint64(ctypes.addressof(own)), 6)
        driver.cuStreamSynchronize(None, expect=700)
        assert own[0] == 0

    @alone
    def test_pools_give_and_take_in_stream_order(driver):
        driver.context()
        stream = driver.value("cuStreamCreate", 1)
        module = driver.module()
        address = driver.value("cuMemAllocAsync", ctypes.c_size_t(4), stream, kind=ctypes.c_uint64)
        pool = driver.value("cuDeviceGetDefaultMemPool", 0)
        used = ctypes.c_uint64()
        driver.cuMemPoolGetAttribute(pool, 7, ctypes.byref(used))
        assert used.value == 4
        driver.store(module, stream, address, 2)
        driver.cuMemFreeAsync(address, stream)
        driver.cuStreamSynchronize(stream)
        driver.cuMemPoolGetAttribute(pool, 7, ctypes.byref(used))
        assert used.value == 0
        driver.cuMemFreeAsync(address, stream, expect=INVALID_VALUE)
        driver.cuMemPoolDestroy(pool, expect=INVALID_VALUE)

    @alone
    def test_what_is_used_behind_its_free_faults(driver):
        driver.context()
        stream = driver.value("cuStreamCreate", 1)
        module = driver.module()
        address = driver.value("cuMemAllocAsync", ctypes.c_size_t(4), stream, kind=ctypes.c_uint64)
        driver.cuMemFreeAsync(address, stream)
        driver.store(module, stream, address, 2)
        driver.cuStreamSynchronize(stream, expect=700)

    @alone
    def test_per_thread_entries_use_the_threads_own_stream(driver):
        driver.context()
        blocking = driver.value("cuStreamCreate", 0)
        begin = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
        legacy, _ = driver.find("cuStreamBeginCapture", 13000, flags=1)
        own, _ = driver.find("cuStreamBeginCapture", 13000, flags=2)
        assert begin(legacy)(None, 0) == 900
        assert begin(own)(None, 0) == 0
        driver.cuStreamIsCapturing(blocking, ctypes.byref(ctypes.c_int()))

    @alone
    def test_attributes_of_a_pointer(driver):
        context = driver.context()
        address = driver.allocate(64)
        inside = ctypes.c_uint64(address.value + 8)
        told = {}
        for number, kind in ((1, ctypes.c_void_p), (2, ctypes.c_int), (9, ctypes.c_int),
                             (11, ctypes.c_uint64), (12, ctypes.c_size_t)):
            told[number] = driver.value("cuPointerGetAttribute", number, inside, kind=kind).value
        assert told == {1: context.value, 2: 2, 9: 0, 11: address.value, 12: 64}, told
        out = ctypes.c_uint64(1)
        driver.cuPointerGetAttribute(ctypes.byref(out), 11, ctypes.c_uint64(8),
                                     expect=INVALID_VALUE)
        values = (ctypes.c_void_p * 1)(ctypes.addressof(out))
        driver.cuPointerGetAttributes(1, (ctypes.c_int * 1)(11), values, ctypes.c_uint64(8))
        assert out.value == 0

    @alone
    def test_two_devices_are_apart(driver):
        os.environ["COPPICE_EMULATED_DEVICES"] = "2"
        first = driver.context(0)
        there = driver.allocate()
        stream = driver.value("cuStreamCreate", 1)
        event = driver.value("cuEventCreate", 0)
        assert driver.value("cuDeviceGetCount", kind=ctypes.c_int).value == 2
        assert driver.value("cuDeviceCanAccessPeer", 0, 1, kind=ctypes.c_int).value == 0
        driver.value("cuCtxCreate_v2", 0, 1)
        assert driver.value("cuCtxGetDevice", kind=ctypes.c_int).value == 1
        driver.cuCtxEnablePeerAccess(first, 0, expect=217)
        here = driver.allocate()
        own = driver.value("cuStreamCreate", 1)
        driver.cuMemsetD32_v2(here, 4, ctypes.c_size_t(1))
        assert driver.read(here) == 4
        driver.cuMemsetD32_v2(there, 4, ctypes.c_size_t(1), expect=INVALID_VALUE)
        driver.cuMemcpyDtoD_v2(here, there, ctypes.c_size_t(4), expect=INVALID_VALUE)
        driver.cuMemsetD32Async(here, 4, ctypes.c_size_t(1), stream, expect=INVALID_HANDLE)
        driver.cuEventRecord(event, own, expect=INVALID_HANDLE)
        driver.cuStreamSynchronize(stream)
        module = driver.module()
        driver.store(module, None, here, 5)
        assert driver.read(here) == 5
        driver.cuCtxSetCurrent(first)
        driver.store(module, None, there, 5, expect=801)
        driver.cuMemsetD32_v2(there, 6, ctypes.c_size_t(1))
        assert driver.read(there) == 6

    @alone
    def test_a_kernel_that_touches_another_device_ends_the_context(driver):
        os.environ["COPPICE_EMULATED_DEVICES"] = "2"
        driver.context(0)
        there = driver.allocate()
        driver.value("cuCtxCreate_v2", 0, 1)
        driver.store(driver.module(), None, there, 5)
        driver.cuStreamSynchronize(None, expect=700)

    @alone
    def test_devices_have_budgets_of_their_own(driver):
        os.environ.update(COPPICE_EMULATED_DEVICES="2", COPPICE_EMULATED_MEMORY="4")
        driver.context(0)
        driver.allocate(3 << 20)
        out = ctypes.c_uint64()
        driver.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t(3 << 20), expect=2)
        driver.value("cuCtxCreate_v2", 0, 1)
        driver.allocate(3 << 20)
        driver.value("cuMemHostAlloc", ctypes.c_size_t(8 << 20), 0)

    @alone
    def test_captures_into_a_graph_that_is_given(driver):
        driver.context()
        stream = driver.value("cuStreamCreate", 1)
        graph = driver.value("cuGraphCreate", 0)
        root = driver.value("cuGraphAddEmptyNode", graph, None, ctypes.c_size_t(0))
        roots = (ctypes.c_void_p * 1)(root)
        address = driver.allocate()
        driver.cuStreamBeginCaptureToGraph(stream, graph, roots, None, ctypes.c_size_t(1), 1)
        driver.cuMemsetD32Async(address, 3, ctypes.c_size_t(1), stream)
        assert driver.end(stream) == graph.value
        count = ctypes.c_size_t(0)
        driver.cuGraphGetRootNodes(graph, None, ctypes.byref(count))
        assert count.value == 1
        driver.cuGraphNodeGetDependentNodes_v2(root, None, None, ctypes.byref(count))
        assert count.value == 1
        exec_ = driver.value("cuGraphInstantiateWithFlags", graph, ctypes.c_uint64(0))
        driver.cuGraphLaunch(exec_, stream)
        driver.cuStreamSynchronize(stream)
        assert driver.read(address) == 3

    @alone
    def test_nodes_of_any_type_are_added_and_changed(driver):
        driver.context()
        graph = driver.value("cuGraphCreate", 0)
        address = driver.allocate()
        fill = (ctypes.c_uint64 * 32)(2)  # A fill; of it address, pitch, value and size, width ...
        fill[2], fill[4], fill[5], fill[6] = address.value, 7 | 4 << 32, 1, 1
        node = driver.value("cuGraphAddNode_v2", graph, None, None, ctypes.c_size_t(0), fill)
        exec_ = driver.value("cuGraphInstantiateWithFlags", graph, ctypes.c_uint64(0))
        driver.cuGraphLaunch(exec_, None)
        assert driver.read(address) == 7
        fill[4] = 8 | 4 << 32
        driver.cuGraphExecNodeSetParams(exec_, node, fill)
        driver.cuGraphLaunch(exec_, None)
        assert driver.read(address) == 8
        fill[31] = 1  # Which is reserved.
        driver.cuGraphExecNodeSetParams(exec_, node, fill, expect=INVALID_VALUE)
        conditional = (ctypes.c_uint64 * 32)(13)
        out = ctypes.c_void_p()
        driver.cuGraphAddNode_v2(ctypes.byref(out), graph, None, None, ctypes.c_size_t(0),
                                 conditional, expect=801)


if __name__ == "__main__":
    unittest.main()
