"""The elements of an argument that as_strided reads. It counts from the beginning of a tensor's
storage. A program gets only the argument's own elements, and nothing before, between or after them.
"""

import torch

from coppice.export.manifest import ExportError
from coppice.export.sizes import size_of, span
from coppice.torch.results import has_storage, hint_of, storage_of

aten = torch.ops.aten
# Where sizes, strides and the offset stand among an operator's arguments.
STRIDED = {aten.as_strided.default: 1, aten.as_strided_scatter.default: 2}


def count_from_arguments(graph):
    """Makes as_strided count from the beginning of an argument. Errors: ExportError for a node that
    reads more than the argument's elements, for the sizes of the example."""
    for node in graph.nodes:
        first = STRIDED.get(node.target)
        root = root_of(node.args[0]) if first else node
        if root.op != "placeholder" or not first:
            continue
        given, seen = root.meta["val"], node.args[0].meta["val"]
        layout = [list(map(value_of, part)) for part in node.args[first:first + 2]]
        offset = node.args[first + 2] if len(node.args) > first + 2 else None
        begin = size_of(value_of(seen.storage_offset() if offset is None else offset))
        begin -= size_of(given.storage_offset())
        if not begin.is_Integer:
            raise ExportError(f"as_strided reads {root.name} from element {begin} on, and this "
                              "offset varies between calls")
        if not holds([map(hint_of, part) for part in (given.shape, given.stride())],
                     [map(hint_of, part) for part in layout], int(begin)):
            raise ExportError(f"as_strided reads elements outside of {root.name}, the tensor that "
                              "it is a view of")
        if offset is not None:
            node.update_arg(first + 2, int(begin))


def root_of(node):
    """The node that a node is a view of, or itself."""
    while node.op == "call_function" and node.args and has_storage(node.args[0]) and (
            storage_of(node.args[0].meta["val"]) == storage_of(node.meta["val"])):
        node = node.args[0]
    return node


def value_of(size):
    return size.meta["val"] if isinstance(size, torch.fx.Node) else size


def holds(given, read, begin):
    """Whether a tensor with the sizes and strides `given` has all elements of `read`, which begin
    `begin` elements after its first."""
    given, read = ([list(part) for part in layout] for layout in (given, read))
    if None in (*given[0], *given[1], *read[0], *read[1]):
        return False
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        known = torch.zeros(span(*given), dtype=torch.bool)
        if begin < 0 or begin + span(*read) > known.numel():
            return 0 in read[0]
        known.as_strided(*given).fill_(True)
        return bool(known.as_strided(*read, begin).all())
