"""A fake of torch.cuda for tests without a GPU: what coppice.torch asks of it, and no more.

Streams, memory and graphs are the emulator's: a CUDAGraph captures by the driver's functions, a
MemPool asks libcoppice.so's own functions for segments, by ctypes as CUDAPluggableAllocator does.
What is made up is PyTorch's side: which pool a thread allocates from, segments that are kept and
cut into blocks, snapshots, states of generators. A tensor is an address. Whether PyTorch behaves
so, a GPU alone can tell.
"""

import contextlib
import ctypes
import threading
import weakref
from unittest import mock

import torch

MIB = 1 << 20
SEGMENT_BYTES = 2 * MIB
BLOCK_BYTES = 512
WORKSPACE_BYTES = 32 << 20
OWN_SEGMENTS = 1 << 60  # Where the segments of PyTorch's own are, which are no memory.


class Driver:
    """The emulator's driver, by ctypes."""

    def __init__(self, device):
        self.device = device

    def call(self, name, *arguments):
        kinds = [type(argument) if not isinstance(argument, int) else ctypes.c_uint64
                 for argument in arguments]
        function = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(self.device.driver_function(name))
        result = function(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: CUresult {result}")


class Tensor:
    """A block of memory."""

    def __init__(self, cuda, segment, block):
        self.cuda, self.segment, self.block = cuda, segment, block

    def data_ptr(self):
        return self.block["address"]

    def __del__(self):
        self.block["state"] = "inactive"


class MemPool:
    """torch.cuda.MemPool."""

    numbers = 0

    def __init__(self, allocator=None):
        MemPool.numbers += 1
        self.id, self.allocator, self.segments = (0, MemPool.numbers), allocator or Segments(), []
        self.cuda = current()
        self.cuda.pools.add(self)
        self.cuda.uses[self.id] = 1

    def __del__(self):
        self.cuda.uses[self.id] -= 1
        if self.cuda.uses[self.id]:  # PyTorch keeps its segments, and stops the process.
            self.cuda.leaked.append(self.id)
            return
        for segment in self.segments:
            self.allocator.free(segment["address"], segment["total_size"])


class Segments:
    """PyTorch's own allocator: addresses that are no memory."""

    def allocate(self, size, stream):
        fake = current()
        fake.own_end += size
        return fake.own_end - size

    def free(self, address, size):
        pass


class CUDAPluggableAllocator:
    """torch.cuda.memory.CUDAPluggableAllocator: its functions are called as PyTorch calls them."""

    def __init__(self, path, allocate, free):
        library = ctypes.CDLL(path)
        self._allocate, self._free = getattr(library, allocate), getattr(library, free)
        self._allocate.restype = ctypes.c_void_p
        self._allocate.argtypes = (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        self._free.restype = None
        self._free.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)

    def allocator(self):
        return self

    def allocate(self, size, stream):
        address = self._allocate(size, 0, stream)
        if address is None:
            raise MemoryError(f"the allocator has no {size} bytes")
        return address

    def free(self, address, size):
        self._free(address, size, 0, None)


class Generator:
    """A torch.Generator of CUDA: a seed and an offset."""

    def __init__(self):
        self.offset = 0

    def get_state(self):
        return torch.tensor([1, self.offset])

    def set_state(self, state):
        self.offset = int(state[1])


class CUDAGraph:
    """torch.cuda.CUDAGraph. `draws` says how many random numbers a replay advances by."""

    def __init__(self, keep_graph=False, draws=0):
        self.keep_graph, self.draws = keep_graph, draws
        self.graph, self.executable, self.replays = ctypes.c_void_p(), ctypes.c_void_p(), 0

    def raw_cuda_graph(self):
        if not self.keep_graph or not self.graph.value:
            raise RuntimeError("You cannot access the raw CUDAGraph instance unless keep_graph")
        return self.graph.value

    def replay(self):
        fake = current()
        if not self.executable.value:
            fake.driver.call("cuGraphInstantiateWithFlags", ctypes.pointer(self.executable),
                             self.graph, 0)
        fake.driver.call("cuGraphLaunch", self.executable, fake.stream)
        self.replays += 1
        fake.generators[0].offset += self.draws


class FakeCuda:
    """The state of the device and of PyTorch's allocator."""

    def __init__(self, device):
        self.device, self.driver, self.stream = device, Driver(device), device.stream
        self.pools, self.thread, self.own = weakref.WeakSet(), threading.local(), []
        self.own_end, self.generators = OWN_SEGMENTS, [Generator()]
        self.current = self.stream
        self.uses, self.leaked = {}, []  # How often each pool is in use; those that never end.
        self.workspaces = {}  # Of cuBLAS, by streams, until somebody clears them.

    def empty(self, size, pool=None):
        """torch.empty: of the thread's pool, else of PyTorch's own."""
        stream = getattr(self.thread, "stream", self.stream)
        number = pool or getattr(self.thread, "pool", None)
        pool = next((known for known in self.pools if known.id == number), None)
        segments = self.own if pool is None else pool.segments
        rounded = -(-size // BLOCK_BYTES) * BLOCK_BYTES
        for segment in segments:
            if segment["stream"] == stream and segment["used"] + rounded <= segment["total_size"]:
                return self.cut(segment, size, rounded)
        total = max(SEGMENT_BYTES, rounded)
        if pool is None:
            address, self.own_end = self.own_end, self.own_end + total
        else:
            address = pool.allocator.allocate(total, stream)
        segments.append({"address": address, "total_size": total, "stream": stream, "used": 0,
                         "segment_pool_id": pool.id if pool else (0, 0), "blocks": []})
        return self.cut(segments[-1], size, rounded)

    def cut(self, segment, size, rounded):
        block = {"address": segment["address"] + segment["used"], "size": rounded,
                 "requested_size": size, "state": "active_allocated",
                 "frames": [{"filename": "model.py", "line": 7}]}
        segment["used"] += rounded
        segment["blocks"].append(block)
        return Tensor(self, segment, block)

    def multiply(self):
        """What cuBLAS allocates for a product on the thread's stream."""
        stream = getattr(self.thread, "stream", self.stream)
        if stream not in self.workspaces:
            self.workspaces[stream] = self.empty(WORKSPACE_BYTES)

    def snapshot(self, include_traces=True):
        return self.own + [segment for pool in self.pools for segment in pool.segments]

    # Scopes.

    @contextlib.contextmanager
    def on_stream(self, stream):
        known = getattr(self.thread, "stream", self.stream)
        self.thread.stream = stream.cuda_stream
        try:
            yield
        finally:
            self.thread.stream = known

    def begin_pool(self, device, pool):
        self.thread.pool = pool
        self.uses[pool] += 1

    def end_pool(self, device, pool):
        self.thread.pool = None

    def release_pool(self, device, pool):
        self.uses[pool] -= 1

    @contextlib.contextmanager
    def capture(self, graph):
        """torch.cuda.graph."""
        self.driver.call("cuStreamBeginCapture", self.stream, 0)
        try:
            yield
        finally:
            self.driver.call("cuStreamEndCapture", self.stream, ctypes.pointer(graph.graph))


_installed = []


def current():
    return _installed[-1]


class Stream:
    """torch.cuda.ExternalStream."""

    def __init__(self, stream, device=None):
        self.cuda_stream = int(stream)


@contextlib.contextmanager
def installed(device):
    """Within, torch.cuda is a fake on an emulator. Yields the FakeCuda."""
    fake = FakeCuda(device)
    names = {
        "ExternalStream": Stream, "stream": fake.on_stream, "MemPool": MemPool,
        "memory_snapshot": fake.snapshot, "CUDAGraph": CUDAGraph, "graph": fake.capture,
        "default_generators": fake.generators, "current_device": lambda: 0,
        "synchronize": lambda device=None: fake.device.synchronize(),
        "current_stream": lambda device=None: Stream(fake.current),
        "default_stream": lambda device=None: Stream(0),
    }
    with contextlib.ExitStack() as stack:
        for name, value in names.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        stack.enter_context(mock.patch.object(torch.cuda.memory, "CUDAPluggableAllocator",
                                              CUDAPluggableAllocator))
        for name, value in (("_cuda_beginAllocateCurrentThreadToPool", fake.begin_pool),
                            ("_cuda_endAllocateToPool", fake.end_pool),
                            ("_cuda_releasePool", fake.release_pool),
                            ("_cuda_clearCublasWorkspaces", fake.workspaces.clear)):
            stack.enter_context(mock.patch.object(torch._C, name, value, create=True))
        _installed.append(fake)
        try:
            yield fake
        finally:
            _installed.pop()
