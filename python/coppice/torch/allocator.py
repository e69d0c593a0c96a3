"""Memory from coppice for PyTorch: for any torch.cuda.MemPool, and for callables while they run.

    pool = torch.cuda.MemPool(coppice.torch.allocator())
    with torch.cuda.use_mem_pool(pool):
        cache = torch.empty(...)

PyTorch's own allocator is never replaced. During a run, the thread of the callable allocates from a
pool of that run.

Units: bytes. Threads: any.
"""

import concurrent.futures
import contextlib
import functools
import inspect
import re

import torch

from coppice.devices import LEGACY_STREAM
from coppice.devices import device as shared_device
from coppice.errors import FailedPrecondition, Unavailable

NAMED_MAX = 4  # Blocks that a message lists.


def allocator(device=None):
    """An allocator for torch.cuda.MemPool: it takes memory of a coppice.Device of CUDA (None: the
    shared one), or of the run inside wrapped callables. Raises Unavailable without CUDA."""
    shared = device or shared_device("cuda")
    if shared.kind != "cuda":
        raise Unavailable("coppice.torch.allocator: PyTorch cannot use the emulator's memory")
    shared.lend_memory()
    return pluggable().allocator()


@functools.lru_cache(maxsize=1)
def pluggable():
    return torch.cuda.memory.CUDAPluggableAllocator(
        library_path(), "coppice_external_allocate", "coppice_external_free")


def library_path():
    """The libcoppice.so that this process has loaded: another copy would not know the runs."""
    with open("/proc/self/maps") as maps:
        found = re.search(r"/\S*/libcoppice\.so[.\d]*$", maps.read(), re.M)
    if found is None:
        raise Unavailable("coppice.torch.allocator: this process has not loaded libcoppice.so")
    return found[0]


@contextlib.contextmanager
def running_torch(run):
    """PyTorch's current stream and memory of a run (coppice.running.Run). Raises FailedPrecondition
    after a recording that took memory elsewhere."""
    ordinal = run.device.ordinal
    with torch.no_grad(), on_stream(run.stream, ordinal):
        if run.context is None:
            yield
            return
        held = [torch.cuda.MemPool(pluggable().allocator())]
        recording = run.context.phase == "record"
        before = blocks_elsewhere(run.stream, held[0].id) if recording else ()
        try:
            with allocating(ordinal, held[0].id):
                yield
            if recording:
                check_blocks(before, blocks_elsewhere(run.stream, held[0].id))
        finally:
            drop(held)


class StepMemory:
    """PyTorch's stream and memory for the steps of a program that it runs. Every replay writes
    again to the memory that they allocated when they were recorded, so the pool lives as long as
    this object."""

    def __init__(self, ordinal):
        self.ordinal, self.pool = ordinal, torch.cuda.MemPool()

    @contextlib.contextmanager
    def running(self, stream):
        """Inside the scope, this thread's launches go to `stream`, which may be captured."""
        with on_stream(stream, self.ordinal), allocating(self.ordinal, self.pool.id):
            yield


def on_stream(stream, ordinal):
    """Inside the scope, a stream is PyTorch's current stream. PyTorch's default stream is the
    legacy one."""
    device = torch.device("cuda", ordinal)
    return torch.cuda.stream(torch.cuda.default_stream(device) if stream == LEGACY_STREAM else
                             torch.cuda.ExternalStream(stream, device=device))


@contextlib.contextmanager
def allocating(ordinal, pool):
    """Like torch.cuda.use_mem_pool, for a capture that PyTorch did not begin. cuBLAS workspaces,
    which PyTorch keeps per stream, are allocated again inside the scope, and freed at its end.
    Otherwise another run would find them. Its allocations would then differ, or it would write to
    memory that has another owner by then."""
    torch._C._cuda_clearCublasWorkspaces()
    torch._C._cuda_beginAllocateCurrentThreadToPool(ordinal, pool)
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()
        torch._C._cuda_endAllocateToPool(ordinal, pool)
        torch._C._cuda_releasePool(ordinal, pool)  # Of what began it.


def blocks_elsewhere(stream, pool):
    """Blocks in use that PyTorch allocated for a stream in other pools, by address."""
    without = {"include_traces": False} if "include_traces" in inspect.signature(
        torch.cuda.memory_snapshot).parameters else {}  # Not before 2.11.
    return {block["address"]: block for segment in torch.cuda.memory_snapshot(**without)
            if segment["stream"] == stream and tuple(segment["segment_pool_id"]) != tuple(pool)
            for block in segment["blocks"] if block["state"] == "active_allocated"}


def check_blocks(before, after):
    new = [block for address, block in after.items() if address not in before]
    if not new:
        return
    named = "; ".join(describe(block) for block in new[:NAMED_MAX])
    more = f"; and {len(new) - NAMED_MAX} more" if len(new) > NAMED_MAX else ""
    raise FailedPrecondition(
        f"the callable took memory from PyTorch's own pools while it was recorded: {named}{more}; "
        "replays would write to that memory after PyTorch has reused it: allocate on the thread "
        "that makes the call, or before the call")


def describe(block):
    """The bytes of a block, and where they were allocated if PyTorch keeps a history."""
    frames = block.get("frames") or []
    where = next((f" at {frame['filename']}:{frame['line']}" for frame in frames
                  if frame["filename"].endswith(".py")), "")
    return f"{block.get('requested_size', block['size'])} bytes{where}"


_undertaker = concurrent.futures.ThreadPoolExecutor(1, "coppice-pools")


def drop(held):
    """Ends a run's pool before the next run, on a thread that is in no run. On a thread in a run,
    these frees would count as part of that run, and would change the order of its allocations."""
    _undertaker.submit(held.clear).result()
