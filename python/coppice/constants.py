"""Values by which calls differ, compared bit for bit: 0.0 and -0.0 differ, and NaN equals
itself."""

import dataclasses
import struct
import sys

from coppice.errors import InvalidArgument

PLAIN = (int, bool, str, bytes, type(None))

pack = struct.Struct("d").pack


class Constant:
    """A value that is neither a tensor nor a size. Two are equal if their types and bits are
    equal."""

    __slots__ = ("value", "bits", "number")

    def __init__(self, path, value):
        self.value = value
        try:
            self.bits = bits_of(value)
            self.number = hash(self.bits)
        except TypeError as error:
            kind = type(value).__name__
            raise InvalidArgument(f"{path} is a {kind}, whose values cannot be compared between "
                                  "calls; pass tensors, numbers, strings, or tuples of "
                                  "these") from error

    def __eq__(self, other):
        return isinstance(other, Constant) and self.bits == other.bits

    def __hash__(self):
        return self.number

    def __repr__(self):
        return f"{self.value}"


def bits_of(value):
    """A key that is equal for two values if their types and bits are equal. Types that are not
    known here are compared by their own `==`; Decimals are compared as text."""
    of = type(value)
    if of in PLAIN:
        return of, value
    if is_of_numpy(of):
        return of, value.dtype.str, value.tobytes()
    if isinstance(value, float):
        return of, pack(value)
    if isinstance(value, complex):
        return of, pack(value.real), pack(value.imag)
    if isinstance(value, tuple):
        return of, tuple(map(bits_of, value))
    if isinstance(value, frozenset):
        return of, frozenset(map(bits_of, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hash(value)
        return of, tuple((field.name, bits_of(getattr(value, field.name)))
                         for field in dataclasses.fields(value) if field.compare)
    if of.__module__ in ("decimal", "_decimal"):
        return of, str(value)
    return of, value


def is_of_numpy(of):
    """Whether a type is a number of NumPy. Some of these derive from Python's numbers."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(of, numpy.generic)
