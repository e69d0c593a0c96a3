"""The results of a graph, from its metadata before it is compiled.

    results of a graph                   become
    tensor with memory of its own        an Output of the program
    view of an argument                  a View of it
    views that share memory,             Views of the tensor that has this memory, which becomes an
      overlap, or change the type          Output in their place
    tensor on meta                       Meta: nothing is computed
    size                                 Size
    None, or a number                    the value itself

Types, sizes, strides, offsets and shared memory come from the graph's own metadata, never from the
compiled form. export/oracle.py compares the two, and each call compares the sizes again.
"""

import dataclasses
import operator

import torch
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from coppice.export.lift import returned_values
from coppice.export.manifest import ExportError
from coppice.export.sizes import size_of
from coppice.export.tensors import COMPLEX, DTYPES


@dataclasses.dataclass
class Output:
    """An output of the program, by its index. An `exact` output has the strides of the graph's
    metadata; others have those that Inductor chose."""

    index: int
    value: object = None  # The fake tensor, as long as the graph is compiled; so below.
    exact: bool = True
    base: object = None  # What has its memory first: offsets count from there, as in eager PyTorch.


@dataclasses.dataclass
class View:
    """A view of an argument, or of an output of the program."""

    position: int  # Of the argument; -1: of the output `index`.
    index: int
    value: object = None
    base: object = None  # What it is a view of.
    conjugated: bool = False  # Lazily, as PyTorch's flags say.
    negated: bool = False


@dataclasses.dataclass
class Meta:
    """A tensor without elements."""

    value: object = None


@dataclasses.dataclass
class Size:
    value: object = None  # A torch.SymInt.


class Results:
    """What a graph module returns. Its tensors are on `device`, a type such as "cpu". Changes the
    module so that it returns only the tensors that have memory of their own.

    returned  Output, View, Meta, Size or the value itself, of each result
    outputs   Output, of each tensor that the module returns from now on

    Errors: ExportError for results that a program cannot return."""

    def __init__(self, module, device):
        self.device = device
        (self.node,) = module.graph.find_nodes(op="output")
        self.values = returned_values(self.node)
        self.visible = set(self.node.meta.get("user_visible_output_idxs", ()))
        self.promised = self.node.meta.get(
            "original_output_strides", [None] * len(self.values))
        self.placeholders = module.graph.find_nodes(op="placeholder")
        self.owners = owners_of(module.graph)
        self.counts = {}  # Of results, by storage.
        for value in filter(has_storage, self.values):
            storage = storage_of(value.meta["val"])
            self.counts[storage] = self.counts.get(storage, 0) + 1
        self.outputs, self.nodes = [], []
        self.returned = [self.result(index, value) for index, value in enumerate(self.values)]
        self.node.args = (tuple(self.nodes),)
        self.node.meta["user_visible_output_idxs"] = [
            index for index, output in enumerate(self.outputs) if output.exact]
        self.node.meta["original_output_strides"] = [
            output.value.stride() for output in self.outputs]
        drop_tensors_on_meta(module.graph)
        module.graph.eliminate_dead_code()  # As views that are made from what is returned now.
        module.recompile()

    def result(self, index, node):
        if not isinstance(node, torch.fx.Node):
            return node
        value = value_of(node)
        if isinstance(value, torch.SymInt):
            return Size(value)
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            raise ExportError(f"result {index} is {value}, which varies and is not an integer")
        if not isinstance(value, torch.Tensor):
            return value
        if value.layout != torch.strided:
            raise ExportError(f"result {index} is a tensor with the layout {value.layout}")
        if value.device.type == "meta":
            return Meta(value)
        if value.device.type != self.device:
            raise ExportError(f"result {index} is on {value.device}, but the graph is on "
                              f"{self.device}")
        promised = self.promised[index]
        if index in self.visible and promised is not None and (
                list(map(size_of, promised)) != list(map(size_of, value.stride()))):
            raise ExportError(f"result {index} should have the strides {tuple(promised)}, but a "
                              f"pass of PyTorch gave it {value.stride()}")
        owner = self.owners[storage_of(value)]
        base = owner.meta["val"]
        if owner.op == "placeholder":
            return view(self.placeholders.index(owner), -1, value, base)
        shared = self.counts[storage_of(value)] > 1
        if not shared and (base.dtype not in DTYPES | COMPLEX
                           or value.dtype == base.dtype and not overlaps(value)
                           and not value.is_conj() and not value.is_neg()):
            return self.output(node, value, base, index in self.visible)
        if owner is not node:
            return view(-1, self.output(owner, base, base, True).index, value, base)
        return self.output(node, value, base, True)

    def output(self, node, value, base, exact):
        """The output that a node becomes, once."""
        if node in self.nodes:
            output = self.outputs[self.nodes.index(node)]
            output.exact |= exact
            return output
        self.nodes.append(node)
        self.outputs.append(Output(len(self.outputs), value, exact, base))
        return self.outputs[-1]


def view(position, index, value, base):
    return View(position, index, value, base, value.is_conj(), value.is_neg())


def complete(module, mode):
    """Computes the metadata of nodes that a pass of PyTorch's inserted without metadata, and of
    views of a tensor that a pass replaced: they would still share memory with the old one."""
    for node in module.graph.nodes:
        if node.op == "call_function" and ("val" not in node.meta or not is_view_of_its(node)):
            arguments, named = map_arg((node.args, node.kwargs), value_of)
            with mode:
                node.meta["val"] = node.target(*arguments, **named)


def is_view_of_its(node):
    """Whether a view shares memory with the tensor that it is given; true of what is no view."""
    viewed = viewed_by(node)
    if viewed is None or not has_storage(viewed):
        return True
    made = [value for value in tree_leaves(node.meta["val"]) if isinstance(value, torch.Tensor)]
    return all(storage_of(value) == storage_of(viewed.meta["val"]) for value in made)


def viewed_by(node):
    """The node of which an operator returns a view, or that getitem takes one out of."""
    if node.target is operator.getitem:
        made_by = node.args[0]
        return viewed_by(made_by) if isinstance(made_by, torch.fx.Node) else None
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    schema = node.target._schema
    if not any(one.alias_info is not None and not one.alias_info.is_write
               for one in schema.returns):
        return None
    for argument, given in zip(schema.arguments, node.args):
        if argument.alias_info is not None:
            return given if isinstance(given, torch.fx.Node) else None
    return None


def value_of(node):
    if "val" not in node.meta:
        raise ExportError(f"PyTorch does not give the type of {node.name}")
    return node.meta["val"]


def has_storage(value):
    known = value.meta.get("val") if isinstance(value, torch.fx.Node) else None
    return isinstance(known, torch.Tensor) and known.layout == torch.strided


def storage_of(value):
    return value.untyped_storage()._cdata


def owners_of(graph):
    """{storage: the node that made it}, which is the first node that has it."""
    owners = {}
    for node in filter(has_storage, graph.nodes):
        owners.setdefault(storage_of(node.meta["val"]), node)
    return owners


def overlaps(value, but=()):
    """Whether two elements of a tensor may share bytes, for the sizes of the example. Axes in `but`
    are ignored."""
    axes = [(hint_of(stride), hint_of(size)) for axis, (size, stride) in enumerate(
        zip(value.shape, value.stride())) if axis not in but]
    if any(None in axis or axis[1] == 0 for axis in axes):
        return False
    behind = 1
    for stride, size in sorted(axis for axis in axes if axis[1] != 1):
        if stride < behind:
            return True
        behind += stride * (size - 1)
    return False


def hint_of(size):
    """A size in the example; None if it depends on data."""
    return size if isinstance(size, int) else size.node.hint


def drop_tensors_on_meta(graph):
    """Drops nodes whose results nothing reads any more, even if they write something. Otherwise
    they would be computed on the device.
    """
    for node in reversed(list(graph.nodes)):
        value = node.meta.get("val")
        if node.op == "call_function" and not node.users and isinstance(
                value, torch.Tensor) and value.device.type == "meta":
            graph.erase_node(node)
