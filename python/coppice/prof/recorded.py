"""The graphs of a trace and their kernels, as `coppice prof kernels` prints them."""

import collections
import dataclasses
import json
import math

from coppice.prof import command
from coppice.prof.command import Refused
from coppice.prof.symbols import identifier
from coppice.prof.traced import program_of

SCHEMA = "coppice.kernels/1"


@dataclasses.dataclass(frozen=True)
class Recorded:
    """A kernel of a graph."""

    name: str  # The symbol, as the driver knows it.
    grid: tuple
    block: tuple
    place: int  # In the order of the graph.
    program: str
    step: int | None  # None: no package, or a kernel of coppice itself; so are those below.
    kernel: str | None
    source: str | None
    padded: float | None  # The share of its blocks that only padding needs, from 0 to 1.


class Node:
    """A graph as it was launched: the recording of one bucket, or a piece of it between breaks,
    with grids that were recorded or patched."""

    def __init__(self, fields, calls, kernels, is_piece=False):
        self.is_piece = is_piece
        self.number, self.label, self.calls = fields["node"], fields["label"], calls
        self.bucket, self.program = tuple(fields["bucket"]), program_of(fields)
        self.kernels = kernels
        # Kernels that look alike on a timeline, with their mangled names, and with identifiers.
        self.alike = {True: self._alike(lambda name: name), False: self._alike(identifier)}
        self.counts = {key: collections.Counter({look: len(kernels) for look, kernels in
                                                 alike.items()})
                       for key, alike in self.alike.items()}

    def _alike(self, shown):
        found = collections.defaultdict(list)
        for kernel in self.kernels:
            found[shown(kernel.name), kernel.grid, kernel.block].append(kernel)
        return dict(found)


def nodes_of(fields, executables):
    """All graphs that calls of a node launched. `executables` are the fields of nodes by number. A
    kernel whose patched grid is not known, such as a copy's, is none of the kernels to look for."""
    own = [recorded(place, kernel, fields, kernel["grid"], kernel["blocks_needed"])
           for place, kernel in enumerate(fields["kernels"])]
    launched = [(fields["calls"] - sum(each["calls"] for each in fields["patched"]), fields, own)]
    for each in fields["patched"]:
        of = executables[each["node"]]
        launched.append((each["calls"], of, [
            grid and recorded(place, kernel, of, grid, needed)
            for place, (kernel, grid, needed) in enumerate(zip(
                of["kernels"], each["grids"], each["blocks_needed"], strict=True))]))
    for calls, of, kernels in launched:
        begin = 0
        for count in of["pieces"]:
            if piece := list(filter(None, kernels[begin:begin + count])):
                yield Node(fields, calls, piece, is_piece=len(of["pieces"]) > 1)
            begin += count


def recorded(place, fields, node, grid, needed):
    own, program = fields["program"], program_of(node)
    padded = None
    if needed is not None:
        padded = min(max(1 - needed / math.prod(grid), 0.0), 1.0)
    return Recorded(fields["name"], tuple(grid), tuple(fields["block"]), place,
                    program if own in (None, node["program"]) else own, fields["step"],
                    fields["kernel"], fields["source"], padded)


def read(trace, package=None):
    """The nodes that have kernels. Raises Refused if the command cannot read the trace, or if there
    are none."""
    chosen = ("--package", package) if package else ()
    text = "".join(command.lines("prof", "kernels", trace, *chosen, "--json"))
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise ValueError(f"the schema is not {SCHEMA}")
        executables = {fields["node"]: fields for fields in document["nodes"]}
        nodes = [node for fields in executables.values() for node in nodes_of(fields, executables)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = " ".join(str(error).split())[:200]
        raise Refused(f"coppice prof kernels printed what this package does not know: {why}; "
                      "install both in the same version") from error
    if not nodes:
        raise Refused(f"{trace}: the trace has no graph with kernels; trace calls that replay on a "
                      "GPU")
    return nodes
