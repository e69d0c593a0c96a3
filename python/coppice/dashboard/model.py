"""A model of a suite: how to build it, and what to call it with.

Two sizes vary from call to call: the number of rows and their length. Functions that draw arguments
take both from a Size, and values from torch's generator.
"""

import dataclasses
import random
from collections.abc import Callable

MODES = ("inference", "training")
DTYPES = ("float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class Size:
    """The sizes of one call. Both count elements of an axis."""

    rows: int
    length: int


@dataclasses.dataclass(frozen=True)
class Model:
    """A module, which is small unless `full`, and functions that draw its arguments."""

    suite: str
    name: str
    make: Callable  # From whether it is full: a module, of weights that torch's generator draws.
    draw: Callable  # From a Size and whether it is full: arguments, a list or {name: value}.
    axes: dict = dataclasses.field(default_factory=dict)  # {position: {axis: (min, max)}}, marked.
    dynamic: bool | None = True  # torch.compile's.
    options: dict = dataclasses.field(default_factory=dict)  # Of the backend.
    modes: tuple = MODES  # In which it runs.
    dtypes: tuple = DTYPES
    drops: bool = False  # Whether it drops elements in both modes, as in training.
    kept: tuple = ()  # Positions of arguments that stay from call to call, and are written to.
    expected: Callable | None = None  # From module, arguments, results: right ones; else its own.
    needs: str = ""  # The package that it comes from; empty: none but torch.

    @property
    def key(self):
        return f"{self.suite}/{self.name}"


def sizes_of(seed):
    """Three sizes: one, a shorter one that is odd, and one with more and longer rows than the
    first."""
    source = random.Random(seed)
    first = Size(2, 2 * source.randint(4, 6))
    return [first, Size(3, 2 * source.randint(2, 3) + 1), Size(source.randint(4, 6),
                                                               source.randint(17, 24))]
