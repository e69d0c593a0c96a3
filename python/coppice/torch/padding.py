"""Which sizes of a graph are padded, and why the others are not.

A size is padded if the options claim something about it. A claim about all sizes covers those that
the caller marked or named, and those that the graph proves independent (independence.py). Even with
a claim, a size is not padded if its padding would
    draw random numbers that eager does not draw, or in other places than the backward graph
    write rows that may be live, if nothing says to which rows padding may write
"""

import dataclasses

import torch

from coppice.export.inductor import line_of
from coppice.torch.independence import (SAME_VALUES, Trace, arguments_of, input_of, is_random,
                                        name_of, rank_of)
from coppice.torch.lowering import fake_mode_of

SEEDED = {"prims.inductor_random", "prims.inductor_randint"}
READS = {"aten.embedding", "aten.gather", "aten.index", "aten._unsafe_index", "aten.index_select"}
WRITES = {f"aten.{name}" for name in (
    "_unsafe_index_put", "index_add", "index_copy", "index_fill", "index_put", "index_reduce",
    "put", "scatter", "scatter_add", "scatter_reduce")}
NAMED, MARKED, PROVED = "named", "marked", "proved"  # Why a size is padded.


@dataclasses.dataclass
class Padding:
    claims: dict = dataclasses.field(default_factory=dict)  # {symbol of the program: claim}
    padded: dict = dataclasses.field(default_factory=dict)  # {name of a size: why}
    unpadded: dict = dataclasses.field(default_factory=dict)  # {name of a size: why not}
    asked: set = dataclasses.field(default_factory=set)  # Of the latter what the caller asked for.
    fills: dict = dataclasses.field(default_factory=dict)  # {input of the program: its Fill}
    names: set = dataclasses.field(default_factory=set)  # Of inputs, as options call them.


def padding_of(lowered, module, options, frame, kind):
    """The Padding of a lowered graph. `module` has the aten operators that AOTAutograd made.
    Errors: ValueError for a fill that is an index out of range."""
    result, names = Padding(), names_of(module, frame.inputs)
    placeholders = module.graph.find_nodes(op="placeholder")
    result.names = set(names.values())
    for one in lowered.inputs:
        fill = one.position < len(placeholders) and options.fills.get(
            names.get(placeholders[one.position]))
        if fill and not one.static:
            result.fills[one.name] = fill
    simplify = simplifier(fake_mode_of(module).shape_env)
    for symbol, sources in lowered.sources.items():
        claim = options.claim_of(sources)
        if claim is None:
            continue
        trace = Trace(module.graph, lowered.symbol_names[symbol], simplify)
        asked = (NAMED if {*sources} & {*options.names()} else
                 MARKED if {*sources} & frame.marked else "")
        why_not = drawn(trace, options.fallback_random, kind) or written(trace, names, options)
        if not why_not and not asked:
            why_not = unproved(trace)
        if why_not:
            result.unpadded[sources[0]] = why_not
            result.asked |= {sources[0]} if asked else set()
            continue
        result.padded[sources[0]] = asked or PROVED
        if claim[0] == "any" and has_indices(trace):
            claim = ("row_independent", *claim[1:])  # Other integers are out of bounds.
        result.claims[symbol] = claim
    return result


def simplifier(shape_env):
    """A function that simplifies sizes, also by the values that were specialised on since the graph
    was made."""
    return lambda size: shape_env.replace(size).xreplace(shape_env.replacements)


def names_of(module, inputs):
    """{placeholder: its name in options} for placeholders that are unchanged tensors of the caller.
    `inputs` are names by position in Dynamo's graph."""
    names = {}
    for position, node in enumerate(module.graph.find_nodes(op="placeholder")):
        described = node.meta.get("desc")
        if described is not None:
            position = described.idx if type(described).__name__ == "PlainAOTInput" else -1
        if 0 <= position < len(inputs) and inputs[position]:
            names[node] = inputs[position]
    return names


def sources_by(names, sources):
    """{symbol: names of its axes}, from the caller's names for tensors. PyTorch has no names for
    sizes that it knows nothing about."""
    called = {node.name: name for node, name in names.items()}

    def by_caller(source):
        tensor, colon, axis = source.rpartition(":")
        return f"{called[tensor]}:{axis}" if colon and tensor in called else source

    return {symbol: [by_caller(one) for one in several] for symbol, several in sources.items()}


def unproved(trace):
    reason = trace.verdict().reason
    return reason and (f"{reason}; if padding is harmless nevertheless, name the size in claim, or "
                       "mark it with torch._dynamo.mark_dynamic")


def has_indices(trace):
    """Whether integer tensors that have the size are indices by which something is read or
    written."""
    return any(name_of(node) in READS | WRITES and any(
        trace.carries(index) for index in indices_of(node)) for node in trace.nodes())


def indices_of(node):
    given = arguments_of(node)
    several = given.get("indices", given.get("index"))
    return [index for index in (several if isinstance(several, (list, tuple)) else [several])
            if index is not None]


# Random numbers.


def drawn(trace, eager, kind):
    """Why random numbers forbid padding. `eager` numbers are drawn one after another. Others depend
    on their position, counted row by row, so that the backward graph can draw them again."""
    for node in trace.nodes():
        if is_random(node) and eager:
            return (f"{name_of(node)} draws more random numbers if this size is padded, but "
                    f"fallback_random promises the random numbers of eager{line_of(node)}")
        if name_of(node) in SEEDED and kind == "forward" and trace.axes(node) - {0}:
            return (f"{name_of(node)} draws random numbers along this dimension, which the "
                    f"backward graph draws again without padding{line_of(node)}")
    return ""


# Rows that are written.


@dataclasses.dataclass
class Written:
    """Rows along a size that an operator writes at given indices, and not in their order."""

    target: object  # The placeholder that is written to; None: another tensor.
    places: list  # Of each index that says where: its node, and how many rows there are.


def written(trace, names, options):
    """Why writes forbid padding. Errors: ValueError."""
    for node in trace.nodes():
        found = write_of(trace, node)
        if found is None or names.get(found.target, "") in options.written:
            continue
        filled = [place for place in found.places if are_filled(place[0], names, options.fills)]
        varying = [rows for _, rows in filled if not isinstance(rows, int)]
        target = names.get(found.target, "")
        if varying:
            return (f"{name_of(node)} writes to {target or 'a tensor'}, whose number of rows "
                    "varies, so the row that a fill names may not exist; fix the number with "
                    f"torch._dynamo.mark_static{line_of(node)}")
        if not filled:
            return advice(node, target, sorted(
                name for index, _ in found.places for one in sources_of(index) or ()
                if (name := names.get(one))))
        for index, rows in filled:
            check_rows(index, rows, names, options.fills)
    return ""


def advice(node, target, indices):
    said = []
    if indices:
        said.append(f"use fills={{{indices[0]!r}: ...}} to name a row that nobody reads")
    if target:
        said.append(f"use claim={{{target!r}: \"written\"}} to promise that nobody reads these "
                    "rows")
    return (f"{name_of(node)} writes rows of padding to {target or 'a tensor'}"
            f"{': ' * bool(said)}{', or '.join(said)}{line_of(node)}")


def write_of(trace, node):
    """The Written of an operator. None if it has none, for example if it writes row by row."""
    name = name_of(node).removesuffix("_")
    if name == "aten.slice_scatter":
        given = arguments_of(node)
        axis = given["dim"] % rank_of(node)
        here = axis in trace.axes(given["src"]) and axis not in trace.axes(given["self"])
        return Written(root_of(node), []) if here else None
    if name not in WRITES:
        return None
    given, indices = arguments_of(node), indices_of(node)
    own, shape = trace.axes(given["self"]), given["self"].meta["val"].shape
    rows = own or not any(trace.carries(given.get(key)) for key in ("values", "source"))
    if rows and not any(map(trace.carries, indices)):
        return None
    if "indices" in given:
        return Written(root_of(node), [(one, shape[axis]) for axis, one in enumerate(
            given["indices"]) if one is not None])
    axis = given.get("dim", 0) % max(len(shape), 1)
    if "scatter" in name and trace.axes(indices[0]) <= own - {axis}:
        return None
    return Written(root_of(node), [(indices[0], shape[axis] if shape else 1)])


def root_of(node):
    """The placeholder whose elements an operator writes to, or is a view of."""
    while isinstance(node, torch.fx.Node) and node.op == "call_function":
        name = name_of(node).removesuffix("_")
        if name not in SAME_VALUES | WRITES and not name.endswith("_scatter"):
            return None
        node = node.args[0]
    return node if isinstance(node, torch.fx.Node) and node.op == "placeholder" else None


def sources_of(node):
    """The placeholders with varying sizes from which a node's elements are computed. None if they
    depend on something else, such as positions of elements or random numbers."""
    found, left, seen = set(), [node], set()
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.op == "placeholder":
            found.add(one)
            continue
        behind = [value for value in one.all_input_nodes if varies(value)]
        if not behind:
            return None
        left += behind
    return found


def varies(node):
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and any(
        isinstance(size, torch.SymInt) for size in value.shape)


def are_filled(index, names, fills):
    sources = sources_of(index)
    return bool(sources) and all(names.get(one) in fills for one in sources)


def check_rows(index, rows, names, fills):
    """Errors: ValueError for a fill that is not a row. Checks only indices that are unchanged
    inputs."""
    for one in sources_of(index):
        fill = fills[names[one]]
        if fill.row is None or one is input_of(index) and not 0 <= fill.row < rows:
            raise ValueError(f"coppice: the fill of {names[one]} is {fill.given!r}, but must be "
                             f"a row that padding may write to; give a row from 0 to {rows - 1}")
