"""Compares a lifted program with the metadata of the graph that was compiled.

The two share only names of sizes: PyTorch computed the graph's metadata before Inductor saw the
graph.
"""

import sympy

from coppice.export.manifest import ExportError
from coppice.export.sizes import size_of


def check_output(where, lifted, value, dtype, shape_env, exact=True):
    """Compares an output with the fake tensor that it must match: type, axes and sizes, and strides
    if `exact`. `dtype` is the type of the fake tensor, as packages name it. Errors: ExportError."""
    if lifted.dtype != dtype:
        raise ExportError(f"{where} was compiled as {lifted.dtype}; the graph has {value.dtype}")
    if len(lifted.shape) != value.dim():
        raise ExportError(f"{where} was compiled with rank {len(lifted.shape)}; the graph has rank "
                          f"{value.dim()}")
    hints = hints_of(shape_env)

    def compare(what, found, right):
        # What is specialised on for the time of a compilation stands in `replacements` alone.
        right = shape_env.replace(size_of(right)).xreplace(shape_env.replacements)
        if differ(found, right, hints):
            raise ExportError(f"{where} was compiled with {what} = {found}; the graph has {right}")

    for axis, (size, stride) in enumerate(zip(value.shape, value.stride())):
        compare(f"the size of axis {axis}", lifted.shape[axis], size)
        if exact and lifted.shape[axis] != 1:
            compare(f"the stride of axis {axis}", lifted.strides[axis], stride)


def differ(left, right, hints):
    """Whether two sizes differ: their difference is a constant other than 0, or it is not 0 at the
    sizes of the example."""
    difference = sympy.expand(left - right)
    return difference != 0 and (difference.is_number or difference.xreplace(hints) != 0)


def hints_of(shape_env):
    """The sizes of the example, by symbol."""
    name = "backed_var_to_val" if hasattr(shape_env, "backed_var_to_val") else "var_to_val"
    return getattr(shape_env, name)
