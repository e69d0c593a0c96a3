"""Tensors of any library, and tuples, lists and dicts of them."""

import sys

from coppice import _core
from coppice.errors import InvalidArgument

# Names of element types elsewhere, as packages name them.
DTYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
          "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "complex64": "c64", "int64": "i64",
          "int32": "i32", "int16": "i16", "int8": "i8", "uint64": "u64", "uint32": "u32",
          "uint16": "u16", "uint8": "u8", "bool": "bool"}
OURS = (_core.Tensor, _core.Output, _core.HostTensor)

_kinds = {}  # Of types: the library, or None for what is no tensor.
_dtypes = {}


class Leaf:
    """A value that is not a tuple, list or dict, and its path: "cache.0"."""

    __slots__ = ("path", "value")

    def __init__(self, path, value):
        self.path, self.value = path, value


def kind_of(value):
    """"torch", "cupy", "numpy", "coppice", another library's name, or None for no tensor."""
    of = type(value)
    if of not in _kinds:
        module = of.__module__.partition(".")[0]
        if issubclass(of, OURS):
            module = "coppice"
        elif "torch" in sys.modules and issubclass(of, sys.modules["torch"].Tensor):
            module = "torch"
        there = hasattr(of, "__dlpack__") or hasattr(of, "__cuda_array_interface__")
        _kinds[of] = module if there and module != "builtins" else None
    return _kinds[of]


def is_tensor(value):
    return kind_of(value) is not None


def dtype_of(dtype):
    """An element type as packages name it. Raises InvalidArgument for a type that packages do not
    have."""
    known = _dtypes.get(dtype)
    if known is None:
        word = str(dtype).rpartition(".")[2]
        known = DTYPES.get(word, word if word in DTYPES.values() else None)
        if known is None:
            raise InvalidArgument(f"a tensor has dtype {dtype}, which programs do not support")
        _dtypes[dtype] = known
    return known


def layout_of(tensor):
    """Element type and sizes."""
    shape = getattr(tensor, "shape", None)
    if shape is None:
        interface = tensor.__cuda_array_interface__
        import numpy

        return dtype_of(numpy.dtype(interface["typestr"])), tuple(interface["shape"])
    return dtype_of(tensor.dtype), tuple(shape)


def flatten(value, path=""):
    """The leaves of named arguments or of results, in order. Members are called "x.0", "x.key"."""
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, (tuple, list)):
        members = enumerate(value)
    else:
        return [Leaf(path, value)]
    return [leaf for key, member in members
            for leaf in flatten(member, f"{path}.{key}" if path else str(key))]


def nesting_of(value):
    """How tuples, lists and dicts nest, and the keys of each dict in order. It is equal for values
    with the same structure_of."""
    if isinstance(value, dict):
        return dict, tuple((type(key), key, nesting_of(member)) for key, member in value.items())
    if isinstance(value, (tuple, list)):
        return (list if isinstance(value, list) else tuple), tuple(map(nesting_of, value))
    return None


def structure_of(value, path=""):
    """The same value with Leaf objects in it, each of which has its number as its value. Classes
    that derive from tuple, list or dict are replaced by the plain types."""
    count = [0]

    def visit(value, path):
        if isinstance(value, dict):
            return {key: visit(member, f"{path}.{key}" if path else str(key))
                    for key, member in value.items()}
        if isinstance(value, (tuple, list)):
            members = [visit(member, f"{path}.{index}" if path else str(index))
                       for index, member in enumerate(value)]
            return members if isinstance(value, list) else tuple(members)
        count[0] += 1
        return Leaf(path, count[0] - 1)

    return visit(value, path)


def rebuild(structure, value_of):
    """The structure with value_of(leaf) in place of its leaves."""
    if isinstance(structure, dict):
        return {key: rebuild(member, value_of) for key, member in structure.items()}
    if isinstance(structure, (tuple, list)):
        members = [rebuild(member, value_of) for member in structure]
        return members if isinstance(structure, list) else tuple(members)
    return value_of(structure)


class Unordered:
    """A tensor as DLPack consumers see it during a run. The run's stream orders it already, and a
    producer that waits would break a capture."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, *, stream=None, **options):
        return self.tensor.__dlpack__(stream=-1, **options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def shown(tensor, kind):
    """A coppice.Tensor on CUDA as a tensor of another library, without a copy."""
    if kind in ("torch", "cupy"):
        return sys.modules[kind].from_dlpack(Unordered(tensor))
    return tensor
