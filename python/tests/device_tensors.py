"""PyTorch's tensors in an emulator's memory, so that what the backend does on CUDA alone computes.

Like tensors of CUDA they have an address that the host cannot read: touching one ends the process.
PyTorch takes them for tensors of the CPU, so it compiles as for the emulator, and `as_on_cuda`
replaces what asks PyTorch for a GPU. What a GPU and PyTorch's own allocator do is not shown.
"""

import contextlib
import ctypes
import weakref
from unittest import mock

import torch

from coppice.export.sizes import span
from coppice.export.tensors import DTYPES
from coppice.torch import graph
from coppice.torch.registered import Registered


class Block:
    def __init__(self, memory):
        self.memory, self.address = memory, memory.data_ptr()


class Memory:
    """An emulator's memory."""

    def __init__(self, device):
        self.device, self.blocks = device, weakref.WeakValueDictionary()

    def empty(self, shape, dtype=torch.float32, strides=None, offset=0):
        """A tensor without values, whose storage keeps its memory."""
        strides = torch.empty(shape, device="meta").stride() if strides is None else strides
        count = offset + span(shape, strides)
        size = max(count * dtype.itemsize, 1)
        block = Block(self.device.empty([size], "u8"))
        self.blocks[block.address] = block
        return of_block(block, dtype, shape, strides, offset)

    def sharing(self, tensor):
        """The same with a storage of its own, as if it were allocated where the other was."""
        block = self.blocks[tensor.untyped_storage().data_ptr()]
        return of_block(block, tensor.dtype, tensor.shape, tensor.stride(),
                        tensor.storage_offset())

    def put(self, value, offset=0):
        """A copy of a tensor of the CPU; `offset` counts elements from where its memory begins."""
        tensor = self.empty(value.shape, value.dtype, value.stride(), offset)
        self.write(tensor, value)
        return tensor

    def write(self, tensor, value):
        self.shown(tensor).copy_from(value)

    def read(self, tensor):
        self.device.synchronize()
        return torch.from_dlpack(self.shown(tensor).to_host()).clone()

    def shown(self, tensor):
        return self.device.view(tensor.data_ptr(), list(tensor.shape), DTYPES[tensor.dtype],
                                strides=list(tensor.stride()))


def of_block(block, dtype, shape, strides, offset):
    """A tensor whose storage keeps a Block."""
    buffer = (ctypes.c_char * block.memory.nbytes).from_address(block.address)
    buffer.block = block
    row = torch.frombuffer(buffer, dtype=torch.uint8)
    return torch.empty(0, dtype=dtype).set_(row.untyped_storage(), offset, shape, strides)


class Shown:
    """A program that takes PyTorch's tensors where they lie."""

    def __init__(self, program, memory):
        self.program, self.memory = program, memory

    def __getattr__(self, name):
        return getattr(self.program, name)

    def shown(self, tensors):
        return [self.memory.shown(one) if isinstance(one, torch.Tensor) else one
                for one in tensors]

    def bind(self, tensors):
        return self.program.bind(self.shown(tensors))

    def run(self, inputs, scalars, *, targets, **options):
        return self.program.run(self.shown(inputs), scalars, targets=self.shown(targets), **options)


@contextlib.contextmanager
def as_on_cuda(shared):
    """Inside the scope, graphs of a SharedSession of an emulator are made, and run, as on CUDA.
    Yields a Memory for their tensors."""
    memory, register = Memory(shared.device), Registered.__init__

    def register_shown(self, *arguments):
        register(self, *arguments)
        self.program = Shown(self.program, memory)

    def made(dtype, shape, strides, offset, device):
        assert device.type == "cuda", device
        return memory.empty(shape, dtype, strides, offset)

    with mock.patch.object(shared, "emulated", False), \
            mock.patch.object(graph, "made", made), \
            mock.patch.object(Registered, "__init__", register_shown), \
            mock.patch.object(graph, "library_stream", lambda kind, ordinal: shared.device.stream):
        yield memory
