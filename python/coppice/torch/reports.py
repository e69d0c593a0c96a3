"""Reports about the graphs of compiled functions: which were lifted, which were not, and why."""

import collections
import dataclasses
import inspect
import logging
import threading
import weakref

log = logging.getLogger("coppice")
lock = threading.Lock()
REFUSALS_MAX = 16
graphs, told = [], set()  # Weak references to GraphReport; reasons that the log has.


@dataclasses.dataclass(eq=False)
class GraphReport:
    """One graph. A function has several if it is compiled again, trains, or has graph breaks. A
    graph is *fully lifted* if no part of it runs elsewhere: it is lifted, has no `calls`, and not
    all of its calls were refused.

    function     its function and line: "forward (model.py:12)"
    kind         "inference", "forward" or "backward"
    lifted       whether coppice runs it; otherwise PyTorch does
    program      its name in the session, as in session.buckets(), if it is lifted
    kernels      launches of Triton kernels in one call
    gemms        matrix products of the library in one call
    calls        names of the operators that PyTorch runs in it
    reasons      why it is not lifted, or why there are calls
    symbols      {name: (min, max or None)} of its sizes that vary, in elements: {"x:0": (2, None)}
    limits       {name: max} of sizes that got a maximum, or a smaller one, so that values computed
                 from them fit into 64 bits; PyTorch runs calls with larger sizes
    sizes        names of all axes that policies and claims may name, fixed ones included
    ignored      names of policies and claims that none of its symbols has
    padded       {name: why} of sizes that are padded: "named" in the options, "marked" by
                 torch._dynamo.mark_dynamic, or "proved" independent by the graph
    unpadded     {name: why not} of sizes that have a claim and are not padded
    guards       conditions on its sizes; a call that breaks one is compiled again, or refused
    recompiled   why the function was compiled again; empty the first time
    graph_break  why Python runs code of the function before or after this graph; empty: it does not
    runs         calls so far
    refused      calls among these that the program refused, and that PyTorch ran
    refusals     {reason: number of calls} of the refused calls
    learned      outcomes of learning its buckets again: {"swapped": 2, "kept": 7}
    in_place     names of inputs that it writes, such as KV caches, which became static because they
                 stayed at their address: calls read and write them there. Only on CUDA"""

    function: str
    kind: str
    lifted: bool = False
    program: str = ""
    kernels: int = 0
    gemms: int = 0
    calls: list = dataclasses.field(default_factory=list)
    reasons: list = dataclasses.field(default_factory=list)
    symbols: dict = dataclasses.field(default_factory=dict)
    limits: dict = dataclasses.field(default_factory=dict)
    sizes: tuple = ()
    ignored: list = dataclasses.field(default_factory=list)
    padded: dict = dataclasses.field(default_factory=dict)
    unpadded: dict = dataclasses.field(default_factory=dict)
    guards: list = dataclasses.field(default_factory=list)
    recompiled: str = ""
    graph_break: str = ""
    runs: int = 0
    refused: int = 0
    refusals: dict = dataclasses.field(default_factory=dict)
    learned: dict = dataclasses.field(default_factory=dict)
    in_place: list = dataclasses.field(default_factory=list)

    @property
    def fully_lifted(self):
        return self.lifted and not self.calls and not self.runs == self.refused > 0

    def refuse(self, reason):
        """Counts a call that PyTorch ran. There may be many reasons, because they name sizes. The
        first ones are counted separately."""
        self.refused += 1
        if reason not in self.refusals and len(self.refusals) >= REFUSALS_MAX:
            reason = "other reasons"
        self.refusals[reason] = self.refusals.get(reason, 0) + 1


def add(report, owner):
    with lock:
        graphs[:] = [entry for entry in graphs if entry[0]() is not None]
        graphs.append((weakref.ref(report), owner and weakref.ref(owner)))


def tell(report, reason, strict, otherwise="runs it in PyTorch"):
    """Logs why something falls back to PyTorch, each reason once. Errors: NotLifted if `strict`; it
    says what would happen otherwise."""
    text = f"{report.function}, {report.kind}: {reason}"
    if strict:
        raise NotLifted(f"coppice: {text}; strict=False {otherwise}")
    if text not in told:
        told.add(text)
        log.warning("%s", text)


class NotLifted(RuntimeError):
    """Raised if strict forbids something: a graph, an operator or a call that only PyTorch can run,
    code that is left to Python, or an option for a size that does not exist."""


def owner_of(compiled):
    """The backend that torch.compile wrapped for a function. Errors: TypeError."""
    from torch._dynamo.eval_frame import innermost_backend

    found = getattr(compiled, "get_compiler_config", None)
    context = found and inspect.getclosurevars(found).nonlocals.get("self")
    if context is None:
        raise TypeError(f"coppice: {compiled!r} does not come from torch.compile")
    return innermost_backend(context.callback)


def report(compiled=None):
    """The GraphReports of a compiled function, or of all functions, in the order in which they were
    compiled."""
    return reports_of(None if compiled is None else owner_of(compiled))


def reports_of(owner):
    with lock:
        known = [(reference(), whose) for reference, whose in graphs]
    return [one for one, whose in known
            if one is not None and (owner is None or (whose and whose() is owner))]


def stats(compiled=None):
    """Sums over report(compiled): graphs, lifted, fully_lifted, fallbacks (graphs that PyTorch
    runs), calls (operators that PyTorch runs), kernels, recompiles, graph_breaks (graphs before or
    after which Python runs code), ignored (names in options that no graph's sizes have), runs,
    refused, refusals (the refused calls by reason)."""
    known = report(compiled)
    refusals = collections.Counter()
    for one in known:
        refusals.update(one.refusals)
    ignored = [set(one.ignored) for one in known if one.lifted and one.kind != "backward"]
    return {
        "graphs": len(known),
        "lifted": sum(one.lifted for one in known),
        "fully_lifted": sum(one.fully_lifted for one in known),
        "fallbacks": sum(not one.lifted for one in known),
        "calls": sum(len(one.calls) for one in known),
        "kernels": sum(one.kernels for one in known),
        "recompiles": sum(bool(one.recompiled) for one in known if one.kind != "backward"),
        "graph_breaks": sum(bool(one.graph_break) for one in known if one.kind != "backward"),
        "ignored": len(set.intersection(*ignored)) if ignored else 0,
        "runs": sum(one.runs for one in known),
        "refused": sum(one.refused for one in known),
        "refusals": dict(refusals),
    }
