"""Copies of PyTorch's CPU memory on the device, for the duration of a launch.

Memory that overlaps on the host has one copy on the device, so views of one tensor are views there,
too. A copy ends where the memory ends, so an access beyond it is found.
"""

import contextlib
import ctypes
import sys

ALIGNMENT = 16  # What Triton compiles for, of addresses; copies lie to it as their memory does.


def as_it_is():
    """A scope in which PyTorch's tensors report their real device."""
    torch = sys.modules.get("torch")
    return torch._C.DisableTorchFunction() if torch else contextlib.nullcontext()


def find_host_tensor(value, depth=3):
    """The CPU tensor of PyTorch in an argument of a kernel; None if it is something else. The
    argument may be an object with data_ptr() that holds, in an attribute, the tensor which it
    points into, or another such object: that of triton.reinterpret, say."""
    torch = sys.modules.get("torch")
    if torch is None or isinstance(value, type) or not hasattr(value, "data_ptr"):
        return None
    with as_it_is():
        if isinstance(value, torch.Tensor):
            return value if value.device.type == "cpu" else None
        if depth == 0:
            return None
        address = value.data_ptr()
        found = [tensor for held in attributes(value)
                 if (tensor := find_host_tensor(held, depth - 1)) is not None]
        places = [(tensor, address - tensor.untyped_storage().data_ptr(),
                   tensor.untyped_storage().nbytes()) for tensor in found]
        # An address at the end may be the beginning of another one.
        return next((tensor for tensor, at, nbytes in places if 0 <= at < nbytes),
                    next((tensor for tensor, at, nbytes in places if at == nbytes), None))


def attributes(value):
    names = [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())]
    return [*getattr(value, "__dict__", {}).values(),
            *(getattr(value, name, None) for name in names)]


@contextlib.contextmanager
def mirrored(device, stream, tensors):
    """Inside the scope, the memory of `tensors` is on the device; yields Mirrors. At the end, the
    scope waits for all work, and copies what was written back to the memory."""
    copies = [Copy(device, stream, *span) for span in spans_of(tensors)]
    try:
        yield Mirrors(copies)
        if copies:
            device.synchronize()
            for copy in copies:
                copy.bring_back(stream)
    finally:
        copies.clear()  # Which an exception would keep, and the device with them.


def spans_of(tensors):
    """First and end addresses of the memory of tensors. Memory that overlaps is one span."""
    with as_it_is():
        storages = [tensor.untyped_storage() for tensor in tensors]
        known = {(each.data_ptr(), each.data_ptr() + each.nbytes()) for each in storages}
    spans = []
    for start, end in sorted(known):
        if spans and start < spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        elif start < end:
            spans.append((start, end))
    return spans


def memory_at(start, nbytes):
    """Bytes of the host as a tensor of PyTorch's."""
    import torch

    return torch.frombuffer((ctypes.c_uint8 * nbytes).from_address(start), dtype=torch.uint8)


@contextlib.contextmanager
def kept(tensors):
    """A scope that undoes, at its end, what was written to the memory of tensors."""
    with as_it_is():
        memory = [memory_at(start, end - start) for start, end in spans_of(tensors)]
        before = [each.clone() for each in memory]
    try:
        yield
    finally:
        with as_it_is():
            for each, values in zip(memory, before):
                write(each, values)


def write(memory, values):
    """Writes the values that differ. Memory that is only read may not be writable."""
    if not memory.equal(values):
        memory.copy_(values)


class Copy:
    """The copy of one span of addresses."""

    def __init__(self, device, stream, start, end):
        self.start, self.nbytes = start, end - start
        memory = device.empty([start % ALIGNMENT + self.nbytes], "u8")
        self.address = memory.data_ptr() + start % ALIGNMENT
        self.tensor = device.view(self.address, [self.nbytes], "u8", owner=memory)
        with as_it_is():
            self.tensor.copy_from(memory_at(start, self.nbytes), stream)

    def bring_back(self, stream):
        import torch

        with as_it_is():
            write(memory_at(self.start, self.nbytes),
                  torch.from_dlpack(self.tensor.to_host(stream)))


class Mirrors:
    """The copies of one launch."""

    def __init__(self, copies):
        self.copies = copies
        self.nbytes = sum(copy.nbytes for copy in copies)

    def address_of(self, value):
        """The address of the copy of a tensor's first element; None if there is no copy. The tensor
        is any object with data_ptr()."""
        address = value.data_ptr()
        inside = (copy for copy in self.copies if 0 <= address - copy.start < copy.nbytes)
        behind = (copy for copy in self.copies if address - copy.start == copy.nbytes)
        copy = next(inside, None) or next(behind, None)
        return copy and copy.address + address - copy.start
