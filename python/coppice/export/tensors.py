"""The names of element types in packages, and the tensors of programs, which are views of
buffers."""

import dataclasses

import sympy
import torch

from coppice.export.manifest import DTYPE_BYTES

DTYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
    torch.uint64: "u64", torch.uint32: "u32", torch.uint16: "u16", torch.uint8: "u8",
    torch.bool: "bool", torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2",
}
# Complex numbers are pairs of these, along an axis of their own.
COMPLEX = {torch.complex32: "c32", torch.complex64: "c64", torch.complex128: "c128"}
PARTS = {"c32": "f16", "c64": "f32", "c128": "f64"}
ELEMENT_BYTES = {**DTYPE_BYTES, **{pair: 2 * DTYPE_BYTES[part] for pair, part in PARTS.items()}}


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A view of a buffer. Sizes are integers or SymPy expressions; the offset is in bytes."""

    buffer: str
    offset: object
    dtype: str
    shape: tuple
    strides: tuple


def in_pairs(tensor):
    """A complex tensor as a tensor of its real and imaginary parts; any other tensor unchanged."""
    if tensor.dtype not in PARTS:
        return tensor
    strides = (*(stride * 2 for stride in tensor.strides), sympy.Integer(1))
    return dataclasses.replace(tensor, dtype=PARTS[tensor.dtype],
                               shape=(*tensor.shape, sympy.Integer(2)), strides=strides)


def broadcast(tensor, shape):
    """The tensor with axes of stride 0, so that it has this shape."""
    missing = len(shape) - len(tensor.shape)
    sizes = (None,) * missing + tensor.shape
    strides = (sympy.Integer(0),) * missing + tensor.strides
    strides = tuple(stride if size == whole else sympy.Integer(0)
                    for size, stride, whole in zip(sizes, strides, shape))
    return dataclasses.replace(tensor, shape=tuple(shape), strides=strides)
