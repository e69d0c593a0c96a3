"""The run of a wrapped callable: the stream that it launches on, and where its memory comes from.

The libraries that launch kernels by themselves have this stream as their current one
(libraries.py). Other ways to launch, such as cuda.core or coppice.Device.launch, take
current_stream().

Threads: everything here applies to the calling thread.
"""

import contextlib
import sys
import threading

from coppice.errors import FailedPrecondition

__all__ = ["current_stream", "empty", "empty_like"]

BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "c64": 8, "i64": 8,
         "i32": 4, "i16": 2, "i8": 1, "u64": 8, "u32": 4, "u16": 2, "u8": 1, "bool": 1}

_thread = threading.local()


class Stream(int):
    """A CUstream, usable as a number and by the protocol of cuda.core."""

    def __cuda_stream__(self):
        return (0, int(self))


class Run:
    """One run of a callable, on a thread. `context` is None while a run outside of any session
    looks for the outputs. `outputs` says which allocation of the run is which output, both by
    number."""

    def __init__(self, device, stream, context=None, outputs=(), loaded=None):
        self.device, self.stream, self.context = device, stream, context
        self.loaded = loaded  # Kernels of Triton's that stay loaded.
        self.outputs, self.asked = dict(outputs), []
        self.given = {}  # Addresses of the outputs that it asked for.

    def empty(self, shape, dtype):
        number = len(self.asked)
        self.asked.append(self.allocate(number, list(shape), dtype))
        return self.asked[number]

    def allocate(self, number, shape, dtype):
        if self.context is None:
            return self.device.empty(shape, dtype)
        if number in self.outputs:
            return self.output(self.outputs[number])
        address = self.context.allocate(max(bytes_of(shape, dtype), 1))
        return self.device.view(address, shape, dtype)

    def output(self, index):
        if index not in self.given:
            self.given[index] = self.context.output(index)
        return self.given[index]


def bytes_of(shape, dtype):
    total = BYTES[dtype]
    for size in shape:
        total *= size
    return total


@contextlib.contextmanager
def entered(run):
    """Inside the scope, `run` is this thread's."""
    runs = _thread.__dict__.setdefault("runs", [])
    runs.append(run)
    try:
        yield run
    finally:
        runs.pop()


def find_run():
    """The run of this thread, or None."""
    runs = getattr(_thread, "runs", None)
    return runs[-1] if runs else None


def this_run():
    """The run of this thread. Raises FailedPrecondition if there is none."""
    found = find_run()
    if found is None:
        raise FailedPrecondition("no wrapped callable is running on this thread")
    return found


def current_stream():
    """The stream on which the callable that runs on this thread must launch: a number, which
    cuda.core takes as well. Raises FailedPrecondition outside of wrapped callables."""
    return Stream(this_run().stream)


def empty(shape, dtype):
    """Memory of the run for a temporary or a result, as a coppice.Tensor. `dtype` is named as in
    packages: "f32". Raises FailedPrecondition outside of wrapped callables; use Device.empty
    there."""
    return this_run().empty(shape, dtype)


def empty_like(tensor, shape=None, dtype=None):
    """A new tensor of the same library, shape and type as `tensor`. `shape` and `dtype`, if given,
    replace those of `tensor`. In a wrapped callable, the memory is that of the run. For PyTorch,
    CuPy and NumPy it is their own empty_like; for a coppice.Tensor it is `empty`, which raises
    FailedPrecondition outside of wrapped callables."""
    module = type(tensor).__module__.partition(".")[0]
    if module in ("torch", "cupy", "numpy"):
        library = sys.modules[module]
        return library.empty_like(tensor, dtype=dtype) if shape is None else \
            tensor.new_empty(shape, dtype=dtype) if module == "torch" else \
            library.empty(shape, dtype or tensor.dtype)
    return empty(tensor.shape if shape is None else shape, dtype or tensor.dtype)
