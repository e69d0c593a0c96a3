"""Finds which graph of a trace each launch on a GPU's timeline replayed."""

import collections
import dataclasses
import functools

from coppice.prof.command import Refused
from coppice.prof.symbols import identifier
from coppice.prof.timelines import graph_option
from coppice.prof.traced import told


@dataclasses.dataclass(frozen=True)
class Known:
    """What coppice knows of a kernel on the timeline. Several nodes may look the same; a fact in
    which they differ is None."""

    nodes: tuple  # Their numbers.
    programs: tuple
    label: str  # "decode 8", or "decode 8 or draft 8".
    bucket: tuple | None
    listed: bool  # False: a library launched it in a graph of its own.
    place: int | None
    step: int | None
    kernel: str | None
    source: str | None
    padded: float | None

    def identity(self):
        """What the kernels of one graph node have in common, whichever size they ran with."""
        if len(self.programs) > 1:
            return None
        if not self.listed:
            return self.programs, None
        if self.step is None:
            return None if self.place is None else (self.programs, "place", self.place)
        return self.programs, "step", self.step


class Join:
    """The launches of a timeline. Each kernel of a launch of the trace gets its `known`."""

    def __init__(self):
        self.matched = self.others = 0
        self.by_nodes = collections.Counter()  # Launches, by numbers of nodes.
        self.ambiguous = collections.Counter()  # Those of several buckets, by labels.
        self.conflicts = {}  # Identities by process, device, graph and graph node: several.


def join(timeline, nodes):
    """Raises Refused if no launch is one of the nodes'."""
    result, matcher = Join(), Matcher(nodes)
    groups = collections.defaultdict(list)
    for kernel in told(timeline.kernels, len(timeline.kernels)):
        if kernel.launch is not None:
            groups[kernel.launch].append(kernel)
    for group in told(groups.values(), len(groups)):
        match(result, matcher, group)
    if not result.matched:
        raise Refused(why_none(timeline, result, nodes))
    result.conflicts = conflicts(timeline.kernels)
    return result


def match(result, matcher, group):
    """Counts the launch, and gives its kernels what is known of them."""
    says = {kernel.in_graph() for kernel in group}
    if says == {False}:
        return  # Kernels outside graphs.
    # Without ids of graphs, one kernel is a graph only if a node has no other.
    only_exact = True not in says and len(group) == 1
    group.sort(key=lambda kernel: kernel.start)
    looks = looks_of(group)
    plan = matcher.plan(looks[0], frozenset(collections.Counter(looks[1]).items()))
    if plan is None or (only_exact and not plan.exact):
        result.others += not only_exact
        return
    result.matched += 1
    result.by_nodes[plan.nodes] += 1
    if not plan.one_bucket:
        result.ambiguous[plan.label] += 1
    seen = collections.Counter()
    for kernel, look in zip(group, looks[1]):
        kernel.known = plan.known(look, seen[look])
        seen[look] += 1


def looks_of(group):
    """Whether all kernels have mangled names, and what to compare of each."""
    mangled = all(kernel.symbol for kernel in group)
    return mangled, [(kernel.symbol if mangled else identifier(kernel.name), kernel.grid,
                      kernel.block) for kernel in group]


class Matcher:
    """Finds the nodes whose kernels are those of a launch."""

    def __init__(self, nodes):
        self._nodes = nodes
        self.plan = functools.lru_cache(maxsize=1 << 14)(self._plan)

    def _plan(self, mangled, counted):
        """The plan of a launch with so many kernels of each look; None: no node has them."""
        counts = dict(counted)
        total, found, fewest = sum(counts.values()), [], None
        for node in self._nodes:
            over = total - len(node.kernels)
            if over < 0 or (fewest is not None and over > fewest):
                continue
            if over and node.is_piece:
                continue  # It may be so small that other graphs have its kernels.
            if any(counts.get(look, 0) < count for look, count in node.counts[mangled].items()):
                continue
            if fewest is None or over < fewest:
                found, fewest = [], over
            found.append(node)
        return Plan(found, mangled, exact=fewest == 0) if found else None


class Plan:
    """What is known of the kernels of launches that look the same."""

    def __init__(self, nodes, mangled, exact):
        self.exact = exact
        self.nodes = tuple(dict.fromkeys(node.number for node in nodes))
        self.label = " or ".join(dict.fromkeys(node.label for node in nodes))
        self._kernels = [node.alike[mangled] for node in nodes]
        self._found = nodes
        self.one_bucket = len({(node.program, node.bucket) for node in nodes}) == 1
        self.known = functools.lru_cache(maxsize=None)(self._known)

    def _known(self, look, place):
        """Of the kernel that comes in that place among those of its look."""
        alike = [kernels.get(look, ()) for kernels in self._kernels]
        if not any(len(kernels) > place for kernels in alike):
            return self._others
        each = [kernels[place] if place < len(kernels) else None for kernels in alike]
        programs = dict.fromkeys(kernel.program if kernel else node.program
                                 for kernel, node in zip(each, self._found))
        facts = {fact: agreed([kernel and getattr(kernel, fact) for kernel in each])
                 for fact in ("place", "step", "kernel", "source")}
        return Known(self.nodes, tuple(programs), self.label, self._bucket, True, **facts,
                     padded=self._padded([kernel and kernel.padded for kernel in each]))

    def _padded(self, shares):
        """The share that all nodes have. Of several nodes of one bucket, as on several lanes, it is
        the mean over their calls."""
        called = [(share, node.calls) for share, node in zip(shares, self._found) if node.calls]
        if not self.one_bucket or not called:
            return agreed(shares)
        if any(share is None for share, _ in called):
            return agreed([share for share, _ in called])
        return sum(share * calls for share, calls in called) / sum(calls for _, calls in called)

    @functools.cached_property
    def _others(self):
        programs = dict.fromkeys(node.program for node in self._found)
        return Known(self.nodes, tuple(programs), self.label, self._bucket, False, None, None, None,
                     None, None)

    @functools.cached_property
    def _bucket(self):
        return agreed([node.bucket for node in self._found])


def agreed(values):
    """The value, or None if there are several."""
    return values[0] if all(value == values[0] for value in values) else None


def conflicts(kernels):
    """The graph nodes that are kernels of several steps. One executable may replay several sizes of
    a program, but each of its graph nodes is always the same step."""
    found = collections.defaultdict(set)
    for kernel in kernels:
        identity = kernel.known and kernel.node and kernel.known.identity()
        if identity:
            found[kernel.process, kernel.device, kernel.graph, kernel.node].add(identity)
    return {ids: identities for ids, identities in found.items() if len(identities) > 1}


def why_none(timeline, result, nodes):
    if not result.others:
        option = graph_option() if timeline.format == "nsys" else "profile calls that replay"
        return (f"{timeline.path}: none of its {len(timeline.kernels)} kernels ran in a graph; "
                f"{option}")
    return (f"{timeline.path}: none of its {result.others} graph launches has the kernels of one "
            f"of the {len(nodes)} graphs in the trace; give a trace and a timeline of the same run")
