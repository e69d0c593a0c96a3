"""Finds the independent sizes of a graph of aten operators, which AOTAutograd made for Inductor.

A size is *independent* if the graph, run at a larger size, computes the same elements within the
real size. That must hold for all contents of its inputs beyond the real size, except that integers
which are indices hold their fill. A batch usually is independent; the axis that a softmax sums over
is not. An independent size may be padded without a promise by the caller.

The size is followed through the graph. An axis *carries* the size if its own size depends on it.
The first elements of that axis, up to the real size, have to be those of a run at the real size.
The rules below say which operators preserve that. An operator without a rule is assumed not to
preserve it, if anything that it reads or makes carries the size.
"""

import dataclasses
import itertools
import math
import operator

import sympy
import torch
from torch.utils._pytree import tree_leaves

from coppice.export.inductor import line_of
from coppice.export.sizes import size_of

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
# What makes no tensor that anyone reads.
CHECKS = {"aten._assert_async", "aten._assert_scalar", "aten._assert_tensor_metadata",
          "aten.sym_constrain_range", "aten.sym_constrain_range_for_size"}
VIEWS = {"aten.view", "aten.reshape", "aten._unsafe_view"}
COPIES = {"aten._to_copy", "aten.alias", "aten.clone", "aten.copy", "aten.copy_", "aten.detach",
          "aten.lift_fresh_copy", "prims.convert_element_type", "prims.device_put"}
RENAMES = {"aten.permute", "aten.squeeze", "aten.t", "aten.transpose", "aten.unsqueeze"}
SAME_VALUES = {*VIEWS, *COPIES, *RENAMES, "aten.expand", "aten.select", "aten.slice"}
# Which compute along the axes `dim` or `dims`, along all if those name none.
ALONG = {"_log_softmax", "_softmax", "all", "amax", "amin", "any", "argmax", "argmin", "cummax",
         "cummin", "cumprod", "cumsum", "flip", "kthvalue", "linalg_vector_norm", "logcumsumexp",
         "logsumexp", "max", "mean", "median", "min", "mode", "nanmedian", "prod", "roll", "sort",
         "split", "split_with_sizes", "std", "sum", "topk", "unbind", "var", "var_mean"}
# Of each matrix, or several, the axis that products are summed along.
PRODUCTS = {"mm": {"self": 1, "mat2": 0}, "bmm": {"self": 2, "mat2": 1},
            "addmm": {"mat1": 1, "mat2": 0}, "baddbmm": {"batch1": 2, "batch2": 1}}
# Which compute each element of the first axis by itself.
BY_FIRST_AXIS = {"_adaptive_avg_pool2d", "_scaled_dot_product_efficient_attention",
                 "_scaled_dot_product_flash_attention", "avg_pool2d", "convolution",
                 "max_pool2d_with_indices", "upsample_bilinear2d", "upsample_nearest2d"}


@dataclasses.dataclass(frozen=True)
class Verdict:
    reason: str = ""  # Why the size is not independent; empty: it is.


def verdict_of(graph, symbol, simplify):
    """The Verdict on the symbol with this name. `simplify` simplifies SymPy expressions of
    sizes."""
    return Trace(graph, symbol, simplify).verdict()


class Trace:
    """Follows one size through a graph."""

    def __init__(self, graph, symbol, simplify):
        self.graph, self.symbol, self.simplify = graph, symbol, simplify
        self.known = {}

    def carries(self, value):
        """Whether a size, a tensor, a node's result, or any of several such values carries the
        size."""
        if isinstance(value, torch.fx.Node):
            value = value.meta.get("val")
        if isinstance(value, torch.Tensor):
            value = value.shape
        if isinstance(value, (list, tuple)):
            return any(map(self.carries, value))
        if not isinstance(value, SYMBOLIC):
            return False
        expression = value.node.expr
        if expression not in self.known:
            self.known[expression] = self.symbol in {
                free.name for free in self.simplify(expression).free_symbols}
        return self.known[expression]

    def axes(self, node):
        """The axes that carry the size, in a node's tensor or in any of several."""
        return {axis for tensor in tensors_of(node) for axis, size in enumerate(tensor.shape)
                if self.carries(size)}

    def touches(self, node):
        """Whether a node reads or makes anything that carries the size."""
        return any(map(self.carries, (node, *tree_leaves((node.args, node.kwargs)))))

    def nodes(self):
        """Nodes of operators that read or make something that carries the size."""
        return [node for node in self.graph.nodes
                if node.op == "call_function" and self.touches(node)]

    def verdict(self):
        for node in self.nodes():
            name = name_of(node)
            if node.target is operator.getitem or name in CHECKS or isinstance(
                    node.meta.get("val"), SYMBOLIC):
                continue  # Sizes are looked at where they are used.
            if is_random(node):
                return Verdict(f"{name} draws different random numbers{line_of(node)}")
            rule, shapes = rule_of(node)
            if rule is None:
                return Verdict(f"coppice has no rule for {name}{line_of(node)}")
            given = arguments_of(node)
            if any(self.carries_number(value) for key, value in given.items()
                   if key not in shapes):
                return Verdict(f"{name} computes with this size{line_of(node)}")
            if not rule(self, node, given):
                return Verdict(f"{name} mixes elements along this dimension{line_of(node)}")
        return Verdict()

    def carries_number(self, value):
        return any(self.carries(one) for one in tree_leaves(value) if not tensors_of(one))

    def counts_to(self, index, size):
        """Whether an index is 0, 1, 2 and so on, up to the size of an axis."""
        found = given_by(index)
        if name_of(found) != "prims.iota" or found.op != "call_function":
            return False
        given = arguments_of(found)
        length = given["length"]
        length = length.meta["val"] if isinstance(length, torch.fx.Node) else length
        return (given["start"], given["step"]) == (0, 1) and (
            self.simplify(size_of(length)) == self.simplify(size_of(size)))

    def holds_fill(self, index):
        """Whether an index is within bounds in its padding: that is so if it has no padding, or if
        it is an unchanged input of integers, whose padding holds the fill."""
        return not self.carries(index) or input_of(index) is not None


# Nodes.


def name_of(node):
    """"aten.add" for any of its overloads."""
    packet = getattr(node.target, "overloadpacket", None)
    return str(packet or getattr(node.target, "__name__", node.target))


def tensors_of(value):
    if isinstance(value, torch.fx.Node):
        value = value.meta.get("val")
    return [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]


def rank_of(node):
    return node.meta["val"].dim()


def arguments_of(node):
    """{name: value} of all arguments of an operator. Those that are not given have the defaults of
    its schema."""
    schema = node.target._schema.arguments
    given = dict(zip((argument.name for argument in schema), node.args))
    return {**{argument.name: argument.default_value for argument in schema}, **given,
            **node.kwargs}


def is_random(node):
    """Whether an operator draws from PyTorch's generator; attention without dropout does not."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags and arguments_of(node).get("dropout_p") != 0


def input_of(node):
    """The placeholder whose integers a node has unchanged; None if it computes others."""
    found = given_by(node)
    return found if found.op == "placeholder" and is_integer(found) else None


def given_by(node):
    """The node whose integers another node has unchanged."""
    while node.op == "call_function" and name_of(node) in SAME_VALUES and (
            is_integer(node) and isinstance(node.args[0], torch.fx.Node)):
        node = node.args[0]
    return node


def is_integer(node):
    dtype = node.meta["val"].dtype
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)


# Rules: whether an operator keeps the first elements of the axes that carry the size.


def elementwise(trace, node, given):
    """The axes of the operands are aligned at the last one."""
    (out,) = tensors_of(node)
    for tensor in tensors_of([one for one in tree_leaves(list(given.values()))
                              if isinstance(one, torch.fx.Node)]):
        first = out.dim() - tensor.dim()
        for axis, size in enumerate(tensor.shape):
            if first + axis < 0 or trace.carries(size) != trace.carries(
                    out.shape[first + axis]) and size != 1:
                return False
    return True


def kept(trace, node, given):
    return True


def along(trace, node, given):
    tensor = node.args[0]
    dims = given.get("dim", given.get("dims"))
    dims = [dims] if isinstance(dims, int) else dims or range(rank_of(tensor))
    return not trace.axes(tensor) & {dim % max(rank_of(tensor), 1) for dim in dims}


def product(trace, node, given):
    summed = PRODUCTS[name_of(node).partition(".")[2]]
    return not any(axis in trace.axes(given[name]) for name, axis in summed.items())


def by_first_axis(trace, node, given):
    return all(trace.axes(one) <= {0} for one in (node, *node.all_input_nodes))


def view(trace, node, given):
    """If axes are merged, or one is split, only the first of them may carry the size: the others
    decide where its elements lie."""
    if "size" not in given:  # Of another type: along the last axis there are more, or fewer.
        return True
    old, new = ([trace.simplify(size_of(size)) for size in one.meta["val"].shape]
                for one in (given["self"], node))
    free = lambda size: trace.symbol in {symbol.name for symbol in size.free_symbols}
    for group in groups_of(old, new):
        for sizes in group:
            sizes = [size for size in sizes if size != 1]
            if any(map(free, sizes[1:])):
                return False
    return True


def groups_of(old, new):
    """Pairs of lists of sizes whose products are equal. The lists are as short as possible, and the
    last axes come first."""
    result, i, j = [], 0, 0
    while old and new and old[-1] == new[-1]:
        result.append((old[-1:], new[-1:]))
        old, new = old[:-1], new[:-1]
    while i < len(old) or j < len(new):
        ends = sorted(itertools.product(range(i, len(old) + 1), range(j, len(new) + 1)), key=sum)
        i_end, j_end = next((end for end in ends[1:] if sympy.expand(
            math.prod(old[i:end[0]]) - math.prod(new[j:end[1]])) == 0), (len(old), len(new)))
        result.append((old[i:i_end], new[j:j_end]))
        i, j = i_end, j_end
    return result


def select(trace, node, given):
    axis = given["dim"] % rank_of(given["self"])
    return axis not in trace.axes(given["self"]) or is_from_start(given["index"])


def cut(trace, node, given):
    axis = given["dim"] % rank_of(node)
    carried = axis in trace.axes(given["self"]) | trace.axes(node)
    if trace.carries_number(given["start"]):
        return False
    return is_from_start(given["start"] or 0) if carried else not trace.carries_number(given["end"])


def is_from_start(index):
    """Whether an index counts from the first element for all sizes."""
    return isinstance(index, int) and index >= 0


def cat(trace, node, given):
    axis = given["dim"] % rank_of(node)
    tensors = given["tensors"]
    return all(rank_of(one) == rank_of(node) for one in tensors) and not any(
        axis in trace.axes(one) for one in tensors[:-1])


def pad(trace, node, given):
    rank, amounts = rank_of(node), given["pad"]
    return not any(amounts[2 * at:2 * at + 2] not in ([], [0, 0])
                   for axis in trace.axes(given["self"]) for at in [rank - 1 - axis])


def repeat(trace, node, given):
    own, first = given["self"], rank_of(node) - rank_of(given["self"])
    return all(given["repeats"][first + axis] == 1 for axis in trace.axes(own)) and (
        {first + axis for axis in trace.axes(own)} == trace.axes(node))


def filled(trace, node, given):
    return True


def drawn_by_seed(trace, node, given):
    """Each element depends on its position, counted row by row."""
    return trace.axes(node) <= {0}


def embedding(trace, node, given):
    return 0 not in trace.axes(given["weight"]) and trace.holds_fill(given["indices"])


def index(trace, node, given):
    """Padding moves the end of an axis, and indices below zero count from there. Other indices are
    safe."""
    sizes = given["self"].meta["val"].shape
    return all(trace.counts_to(one, size) or not trace.carries(size) and trace.holds_fill(one)
               for one, size in zip(given["indices"], sizes) if one is not None)


def index_select(trace, node, given):
    return (given["dim"] % rank_of(given["self"]) not in trace.axes(given["self"])
            and trace.holds_fill(given["index"]))


def put(trace, node, given):
    """Padding is harmless if the axes that are indexed do not carry the size."""
    written = {axis for axis, one in enumerate(given["indices"]) if one is not None}
    return not trace.axes(given["self"]) & written and not trace.carries(given["indices"]) and (
        bool(trace.axes(given["self"])) or not trace.carries(given["values"]))


def scatter(trace, node, given):
    """Padding is harmless if each row is written by itself."""
    own, axis = trace.axes(given["self"]), given["dim"] % max(rank_of(given["self"]), 1)
    return (axis not in own | trace.axes(given["index"]) and trace.axes(given["index"]) <= own
            and trace.holds_fill(given["index"]))


def gather(trace, node, given):
    axis = given["dim"] % max(rank_of(given["self"]), 1)
    return axis not in trace.axes(given["self"]) and (
        trace.axes(given["index"]) - {axis} <= trace.axes(given["self"])) and (
        trace.holds_fill(given["index"]))


def write_part(trace, node, given):
    """Padding is harmless if the axis of the part does not carry the size."""
    axis = given["dim"] % rank_of(given["self"])
    whole = trace.axes(given["self"])
    if "index" not in given:
        return axis not in whole | trace.axes(given["src"])
    return axis not in whole and {one + (one >= axis) for one in trace.axes(given["src"])} == whole


RULES = {  # The rule, and which arguments are sizes that may carry it.
    **{f"aten.{name}": (along, ()) for name in ALONG},
    **{f"aten.{name}": (product, ()) for name in PRODUCTS},
    **{f"aten.{name}": (by_first_axis, ()) for name in BY_FIRST_AXIS},
    **dict.fromkeys(VIEWS, (view, ("size", "shape"))),
    **dict.fromkeys(COPIES, (elementwise, ())),
    **dict.fromkeys(RENAMES, (kept, ())),
    "prims.rev": (along, ()), "aten.expand": (elementwise, ("size",)),
    "aten.tril": (kept, ()), "aten.triu": (kept, ()),
    "aten.select": (select, ()), "aten.slice": (cut, ("end",)),
    "aten.cat": (cat, ()), "aten.constant_pad_nd": (pad, ()), "aten.repeat": (repeat, ()),
    "aten.full": (filled, ("size",)), "aten.empty": (filled, ("size",)),
    "aten.zeros": (filled, ("size",)), "aten.ones": (filled, ("size",)),
    "aten.full_like": (filled, ()), "aten.empty_like": (filled, ()),
    "aten.zeros_like": (filled, ()), "aten.ones_like": (filled, ()),
    "prims.iota": (filled, ("length",)), "aten.arange": (filled, ("end",)),
    "prims.inductor_random": (drawn_by_seed, ("size",)),
    "prims.inductor_randint": (drawn_by_seed, ("size",)),
    "aten.embedding": (embedding, ()), "aten.index": (index, ()),
    "aten._unsafe_index": (index, ()), "aten.index_select": (index_select, ()),
    "aten.index_put": (put, ()), "aten._unsafe_index_put": (put, ()),
    "aten.scatter": (scatter, ()), "aten.scatter_add": (scatter, ()),
    "aten.scatter_reduce": (scatter, ()), "aten.gather": (gather, ()),
    "aten.slice_scatter": (write_part, ()), "aten.select_scatter": (write_part, ()),
}


def rule_of(node):
    """The rule of an operator, and which of its arguments are sizes; None if it has no rule."""
    known = RULES.get(name_of(node))
    if torch.Tag.pointwise in getattr(node.target, "tags", ()) and len(tensors_of(node)) == 1 and (
            isinstance(node.meta.get("val"), torch.Tensor)):
        return elementwise, ()
    return known or (None, ())
