"""Sizes that vary: what PyTorch knows about them, the guards that follow from it, and strides."""

import ast
import re

import sympy
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod
from torch.utils._sympy.value_ranges import bound_sympy

from coppice.export.expressions import text_of
from coppice.export.manifest import ExportError

INT64_MAX = (1 << 63) - 1
REMAINDERS = (PythonMod, Mod)


def identifier(text):
    """The text, changed into a name that is valid in expressions."""
    return re.sub(r"\W", "_", text)


def finite(limit, instead):
    """A bound of a range as an integer; `instead` if there is none."""
    return int(limit) if getattr(limit, "is_Integer", False) else instead


def peak_of(text, largest):
    """The largest number that may occur while an expression is computed, for sizes of up to
    `largest`: a subtracted term counts as if it were added. A symbol without a limit in `largest`
    counts as 1."""
    peak = 0

    def reach(node):
        nonlocal peak
        found = bound(node)
        peak = max(peak, found)
        return found

    def bound(node):
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return largest.get(node.id, 1)
            case ast.BinOp(left, operator, right):
                sides = reach(left), reach(right)
                product = isinstance(operator, ast.Mult)
                quotient = isinstance(operator, ast.FloorDiv)
                return sides[0] * sides[1] if product else sides[0] if quotient else sum(sides)
            case ast.Call():
                sides = [reach(part) for part in node.args]
                return sum(sides) if node.func.id == "align" else max(sides)
            case _:  # Signs, and comparisons, which are 0 or 1.
                return max([1, *(reach(part) for part in ast.iter_child_nodes(node)
                                 if isinstance(part, ast.expr))])

    reach(ast.parse(str(text), mode="eval").body)
    return peak


def follows_from_limits(condition, limits):
    """Whether a condition holds for all sizes within their limits. PyTorch's own answer cannot be
    used, because it relies on the guards that are to be written."""
    known = bound_sympy(condition, limits)
    return known.is_singleton() and known.lower == sympy.true


def limits_as_guards(name, low, high):
    """The limits of a scalar as guards, because they are stored nowhere else. PyTorch assumes that
    the scalar is not negative, unless the example is."""
    below = [f"{name} >= {low}"]
    return below + ([f"{name} <= {high}"] if high < INT64_MAX >> 1 else [])


def limits_of(shape_env, symbol):
    """The least and the largest size of a symbol: 0 and INT64_MAX if there is no limit."""
    limits = shape_env.var_to_range[symbol]
    return max(finite(limits.lower, 0), 0), finite(limits.upper, INT64_MAX)


def open_conditions(shape_env):
    """PyTorch's assumptions about sizes, except those that follow from their limits."""
    for guard in shape_env.guards:
        condition = in_whole_chunks(shape_env.replace(guard.expr))
        if not follows_from_limits(condition, shape_env.var_to_range):
            yield condition


def guards_of(shape_env, names):
    """The open conditions, with the names of a program. Errors: ExportError for a size that has no
    name."""
    result = []
    for condition in open_conditions(shape_env):
        unknown = {symbol.name for symbol in condition.free_symbols} - set(names)
        if unknown:
            raise ExportError(f"the guard {condition} reads {', '.join(sorted(unknown))}, but "
                              "guards may read only sizes of inputs")
        text = text_of(condition, names)
        if text not in result and text != 1:
            result.append(text)
    return result


def size_of(value):
    """An integer, or the expression of a symbolic one."""
    return sympy.Integer(value) if isinstance(value, int) else value.node.expr


def in_whole_chunks(expression):
    """Rewrites (c - n % c) % c, the usual padding of n to whole chunks of c, as c * ((n + c - 1) //
    c) - n. Expressions that divide by chunks then become short, while a remainder would stay in
    each of them."""
    return expression.replace(lambda e: type(e) in REMAINDERS,
                              lambda e: whole_chunks(*e.args) or e)


def whole_chunks(value, divisor):
    """The remainder in that form; None for any other expression."""
    rest = divisor - value
    chunk = divisor.is_Integer and divisor > 0
    if not chunk or type(rest) not in REMAINDERS or rest.args[1] != divisor:
        return None
    return FloorDiv(rest.args[0] + divisor - 1, divisor) * divisor - rest.args[0]


def dense_strides(shape):
    strides, step = [], sympy.Integer(1)
    for size in reversed(shape):
        strides.insert(0, step)
        step = step * size
    return tuple(strides)


def is_dense(shape, strides):
    """Whether strides are row-major. Strides of axes with one element do not matter."""
    return all(size == 1 or stride == dense
               for size, stride, dense in zip(shape, strides, dense_strides(shape)))


def overlaps(shape, strides):
    """Whether elements of a tensor with this shape and these strides may share memory, as after
    expand and unfold."""
    reach = 1
    for stride, size in sorted(zip(strides, shape)):
        if size > 1 and stride < reach:
            return True
        reach += (size - 1) * stride if size > 1 else 0
    return False


def span(shape, strides):
    """Elements from the first to the last, both included."""
    if any(size == 0 for size in shape):
        return 0
    return sum(((size - 1) * stride for size, stride in zip(shape, strides)), 1)
