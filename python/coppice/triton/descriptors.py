"""Tensor descriptors that are made on the host, and the parameters that a kernel gets for one.

Below sm_90, Triton splits a descriptor into a pointer and numbers. From sm_90 on, the kernel gets a
tensor map, which the driver encodes.
"""

import contextlib
import ctypes
import dataclasses
import re
from unittest import mock

from triton.tools.tensor_descriptor import TensorDescriptor

from coppice._core import Tensor
from coppice.errors import InvalidArgument, Unimplemented
from coppice.running import BYTES

MAP = "a tensor map"  # The type of a parameter, beside Triton's.
MAP_BYTES = MAP_ALIGNMENT = 128
SHAPE = re.compile(r"tensordesc<([^[<>]*)\[([^\]]*)\]")
HOST_TYPES = {8: 10, 9: 8, 10: 9}  # What the driver calls a type that kernels call otherwise.
TF32 = 11
PROMOTION = 2  # Lines of 128 bytes of the second-level cache, as Triton asks for.


@dataclasses.dataclass(frozen=True)
class Map:
    descriptor: object  # Triton's TensorDescriptor.
    known: dict  # What Triton says of the map that its kernel reads.


def is_descriptor(kind):
    return kind.startswith("tensordesc")


def parts_of(name, kind, value, known):
    """Name, type and value of each parameter that a descriptor is passed as. `known` describes the
    map that the kernel reads, None if it reads none. Raises Unimplemented for im2col."""
    shape = SHAPE.match(kind)
    if shape is None or (known or {}).get("is_im2col"):
        raise Unimplemented(f"{name} has type {kind}, which the emulator does not support")
    sizes = [(f"{name}.shape", size) for size in value.shape]
    strides = [(f"{name}.strides", stride) for stride in value.strides]
    if known is None:
        yield f"{name}.base", f"*{shape[1]}", value.base
        yield from ((part, "i64", number) for part, number in (*sizes, *strides))
        yield f"{name}.padding", "i1", value.padding == "nan"
        yield f"{name}.round_f32_to_tf32", "i1", value.round_f32_to_tf32
    else:
        yield name, MAP, Map(value, known)
    yield from ((part, "i32", number) for part, number in sizes)
    yield from ((part, "i64", number) for part, number in strides)


def encoded(device, address, map_):
    """The bytes of a tensor map. Raises InvalidArgument for a map that no driver encodes."""
    descriptor, known = map_.descriptor, map_.known
    rank, element = len(descriptor.shape), known["elem_size"]
    # The fastest dimension is the driver's first one; of two 4-bit numbers a byte has both.
    sizes = list(descriptor.shape)
    sizes[-1] *= 2 if known["fp4_padded"] else 1
    strides = [stride * element for stride in descriptor.strides[:-1]]
    kind = TF32 if descriptor.round_f32_to_tf32 else known["elem_type"]
    memory = (ctypes.c_uint8 * (MAP_BYTES + MAP_ALIGNMENT))()
    place = -ctypes.addressof(memory) % MAP_ALIGNMENT
    encode = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32,
                                              ctypes.c_uint64], *[ctypes.c_void_p] * 4,
                              *[ctypes.c_int] * 4)(device.driver_function("cuTensorMapEncodeTiled"))
    device.make_current()
    result = encode(
        ctypes.addressof(memory) + place, HOST_TYPES.get(kind, kind), rank, address,
        (ctypes.c_uint64 * rank)(*reversed(sizes)), (ctypes.c_uint64 * rank)(*reversed(strides)),
        (ctypes.c_uint32 * rank)(*reversed(known["block_size"])),
        (ctypes.c_uint32 * rank)(*[1] * rank), 0, known["swizzle"], PROMOTION,
        int(descriptor.padding == "nan"))
    if result != 0:
        raise InvalidArgument(
            f"cuTensorMapEncodeTiled: CUresult {result} for a tensor of {list(descriptor.shape)} "
            f"in blocks of {known['block_size']}", result)
    return bytes(memory[place:place + MAP_BYTES])


@dataclasses.dataclass(frozen=True)
class DType:
    """The type of a descriptor's base, with the attributes that Triton reads."""

    name: str
    itemsize: int
    is_floating_point: bool

    def __str__(self):
        return self.name


class Base:
    """A coppice.Tensor whose type looks like PyTorch's types."""

    def __init__(self, tensor):
        self.data_ptr = tensor.data_ptr
        self.dtype = DType(tensor.dtype, BYTES[tensor.dtype], tensor.dtype[0] in "fb"
                           and tensor.dtype != "bool")


@contextlib.contextmanager
def taking_tensors():
    """Inside the scope, Triton's TensorDescriptor takes a coppice.Tensor."""
    check = TensorDescriptor.__post_init__

    def check_tensor(self):
        base = self.base
        if isinstance(base, Tensor):
            self.base = Base(base)
        try:
            check(self)
        finally:
            self.base = base

    with mock.patch.object(TensorDescriptor, "__post_init__", check_tensor):
        yield
