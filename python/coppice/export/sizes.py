"""Sizes that vary: what PyTorch knows of them, the guards that rest on it, and strides."""

import re

import sympy
from torch.utils._sympy.value_ranges import bound_sympy

from coppice.export.expressions import text_of
from coppice.export.manifest import ExportError

INT64_MAX = (1 << 63) - 1


def identifier(text):
    """The text as a name that expressions may use."""
    return re.sub(r"\W", "_", text)


def finite(limit, instead):
    """A bound of a range as an integer; `instead` if there is none."""
    return int(limit) if getattr(limit, "is_Integer", False) else instead


def follows_from_limits(condition, limits):
    """Whether a condition holds for all sizes within their limits; what PyTorch itself makes of it
    rests on the guards that are to be written."""
    known = bound_sympy(condition, limits)
    return known.is_singleton() and known.lower == sympy.true


def limits_as_guards(name, low, high):
    """Conditions of a scalar, whose limits stand nowhere else. PyTorch takes it for not negative
    unless it was shown one that is."""
    below = [f"{name} >= {low}"]
    return below + ([f"{name} <= {high}"] if high < INT64_MAX >> 1 else [])


def limits_of(shape_env, symbol):
    """The least and the largest size of a symbol, 0 and INT64_MAX where there is no limit."""
    limits = shape_env.var_to_range[symbol]
    return max(finite(limits.lower, 0), 0), finite(limits.upper, INT64_MAX)


def open_conditions(shape_env):
    """What PyTorch assumed of sizes, as far as their limits do not say it already."""
    for guard in shape_env.guards:
        condition = shape_env.replace(guard.expr)
        if not follows_from_limits(condition, shape_env.var_to_range):
            yield condition


def guards_of(shape_env, names):
    """The open conditions in the names of a program. Errors: ExportError of a size without one."""
    result = []
    for condition in open_conditions(shape_env):
        unknown = {symbol.name for symbol in condition.free_symbols} - set(names)
        if unknown:
            raise ExportError(f"the guard {condition} reads {', '.join(sorted(unknown))}, "
                              "which no input has")
        text = text_of(condition, names)
        if text not in result and text != 1:
            result.append(text)
    return result


def size_of(value):
    """An integer, or the expression of a symbolic one."""
    return sympy.Integer(value) if isinstance(value, int) else value.node.expr


def dense_strides(shape):
    strides, step = [], sympy.Integer(1)
    for size in reversed(shape):
        strides.insert(0, step)
        step = step * size
    return tuple(strides)


def is_dense(shape, strides):
    """Whether row-major strides say the same, whatever axes of one element say."""
    return all(size == 1 or stride == dense
               for size, stride, dense in zip(shape, strides, dense_strides(shape)))


def span(shape, strides):
    """Elements from the first to the last, both included."""
    if any(size == 0 for size in shape):
        return sympy.Integer(0)
    return sum(((size - 1) * stride for size, stride in zip(shape, strides)), sympy.Integer(1))
