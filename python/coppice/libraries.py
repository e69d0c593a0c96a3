"""The libraries with which a wrapped callable launches kernels, and their state while it runs.

While a callable runs, the run's stream is the current stream of each library. On CUDA, each library
also allocates from the run's memory. The libraries are PyTorch and CuPy on CUDA, if they have been
imported, and Triton on the emulator.

Threads: everything here applies to the calling thread.
"""

import contextlib
import sys

from coppice.devices import LEGACY_STREAM
from coppice.errors import FailedPrecondition
from coppice.running import entered


def library_stream(kind, ordinal=None):
    """The current stream of a library, on a GPU (None: the library's current GPU). 0: the library
    has no current stream."""
    if kind == "torch":
        return sys.modules["torch"].cuda.current_stream(ordinal).cuda_stream or LEGACY_STREAM
    if kind == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream().ptr or LEGACY_STREAM
    return 0


@contextlib.contextmanager
def running(run):
    """Inside the scope, `run` is this thread's, and libraries launch on its stream."""
    with contextlib.ExitStack() as scopes:
        for enter in scopes_of(run):
            scopes.enter_context(enter(run))
        yield scopes.enter_context(entered(run))


def scopes_of(run):
    if run.device.kind == "emulator":
        if "triton" in sys.modules:
            from coppice.triton import launching

            yield lambda run: launching(run.device, run.stream, loaded=run.loaded)
        return
    if "torch" in sys.modules:
        from coppice.torch.allocator import running_torch

        yield running_torch
    if "cupy" in sys.modules:
        yield running_cupy


@contextlib.contextmanager
def running_cupy(run):
    """CuPy's current stream and allocator. During a recording, memory from CuPy's own pools is an
    error."""
    import cupy

    def allocate(size, _device):
        return run.context.allocate(max(size, 1))

    pool = cupy.get_default_memory_pool()
    with cupy.cuda.ExternalStream(run.stream), contextlib.ExitStack() as scopes:
        if run.context is None:
            yield
            return
        allocator = cupy.cuda.PythonFunctionAllocator(allocate, lambda _address, _device: None)
        scopes.enter_context(cupy.cuda.using_allocator(allocator.malloc))
        before = (pool.total_bytes(), pool.free_bytes())
        yield
        if run.context.phase == "record" and (pool.total_bytes(), pool.free_bytes()) != before:
            raise FailedPrecondition(
                "the callable took memory from CuPy's own pool while it was recorded; replays "
                "would write to that memory after CuPy has reused it: allocate on the thread that "
                "makes the call")
