"""The libraries that a wrapped callable launches by, and what they have while it runs.

While a callable runs, each library has the run's stream as its current one, and on CUDA the run's
memory as its own: all that are imported by then of PyTorch and CuPy on CUDA, and Triton on the
emulator.

Threads: what is said here is of the calling thread.
"""

import contextlib
import sys

from coppice.errors import FailedPrecondition
from coppice.running import entered


def library_stream(kind):
    """The stream that a library works on by now; 0: CUDA's legacy stream, or none is known."""
    if kind == "torch":
        return sys.modules["torch"].cuda.current_stream().cuda_stream
    if kind == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream().ptr
    return 0


@contextlib.contextmanager
def ordered(device, kind):
    """Within, what runs on the device's own stream comes behind what a library has queued on the
    legacy stream, which nothing of coppice runs on; what it queues later comes behind it."""
    if kind == "torch":
        torch = sys.modules["torch"]
        own = torch.cuda.ExternalStream(device.stream, device=torch.device("cuda", device.ordinal))
        current = torch.cuda.current_stream()
        own.wait_stream(current)
        try:
            yield
        finally:
            current.wait_stream(own)
    elif kind == "cupy":
        cupy = sys.modules["cupy"]
        own, current = cupy.cuda.ExternalStream(device.stream), cupy.cuda.get_current_stream()
        own.wait_event(current.record())
        try:
            yield
        finally:
            current.wait_event(own.record())
    else:
        yield


@contextlib.contextmanager
def running(run):
    """Within, `run` is this thread's, and libraries launch on its stream."""
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
    """CuPy's current stream and allocator. In a recording, memory of its own pools is an error."""
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
                "the callable took memory of CuPy's own pool while it was recorded, which replays "
                "would write to when it is somebody else's; allocate on the thread that is called")
