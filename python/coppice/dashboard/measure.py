"""Measures one model in this process: its results compared with eager's, its graphs, and its
costs."""

import copy

import torch
from torch.utils._pytree import tree_leaves, tree_map

import coppice
import coppice.torch
from coppice.dashboard.costs import Compiling, Device, alternate
from coppice.dashboard.distances import Comparison, scale_of
from coppice.dashboard.model import sizes_of

CALLS_PER_SIZE = 3  # One may record, one may find that what it wrote is to be written elsewhere.
STEP = 0.01  # Of the weights, against their gradients, after each size.
REASON_MAX = 240
REASONS_MAX = 8


class Subject:
    """A module that is compiled, its twin that is not, and the arguments of their calls."""

    def __init__(self, model, mode, dtype, seed, full, place):
        torch.manual_seed(seed)
        self.model, self.mode, self.full, self.place = model, mode, full, place
        self.dtype = getattr(torch, dtype)
        self.module = model.make(full).to(place, self.dtype)
        self.module.train(mode == "training" or model.drops)
        if mode == "inference":
            self.module.requires_grad_(False)
        elif not model.drops:
            drop_nothing(self.module)
        self.twin = copy.deepcopy(self.module)
        torch._dynamo.reset()
        self.compiled = torch.compile(
            self.module, backend=coppice.torch.backend, dynamic=model.dynamic,
            options={"device": "cuda" if place == "cuda" else "emulator",
                     "fallback_random": mode == "training", **model.options})
        self.kept = {}  # By position: the compiled module's, and the twin's.

    def draw(self, size):
        given = self.model.draw(size, self.full)
        given = tree_map(self.placed, given if isinstance(given, dict) else list(given))
        for position in self.model.kept:
            self.kept.setdefault(position, (given[position].clone(), given[position].clone()))
        return given

    def placed(self, value):
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(self.place, self.dtype if value.is_floating_point() else value.dtype)

    def arguments(self, given, whose):
        """A copy of the drawn arguments. Those in `kept` are not copied. `whose` is 0 for the
        compiled module, whose dynamic sizes are marked, and 1 for its twin."""
        result = tree_map(lambda value: value.clone() if isinstance(value, torch.Tensor) else value,
                          given)
        for position, both in self.kept.items():
            result[position] = both[whose]
        if whose == 0 and isinstance(result, list):
            for position, axes in self.model.axes.items():
                for axis, (low, high) in axes.items():
                    torch._dynamo.mark_dynamic(result[position], axis, min=low, max=high)
        return result

    def exact(self, given):
        """What the twin computes from the same arguments in float64; None if it cannot."""
        twin = copy.deepcopy(self.twin).double()
        wide = tree_map(lambda value: value.double() if isinstance(value, torch.Tensor)
                        and value.is_floating_point() else value, self.arguments(given, 1))
        try:
            return self.run(twin, wide, twin)
        except (RuntimeError, TypeError):  # Of those that compute in float32 whatever they are.
            return None

    def run(self, function, arguments, module):
        """Outputs, and gradients in training mode."""
        call = (lambda: function(**arguments)) if isinstance(arguments, dict) else (
            lambda: function(*arguments))
        if self.mode == "inference":
            with torch.no_grad():
                return tensors_of(call()), []
        module.zero_grad()
        outputs = tensors_of(call())
        loss_of(outputs).backward()
        known = [one.grad for one in module.parameters() if one.grad is not None]
        return [one.detach() for one in outputs], known

    def step(self):
        """Makes a step of the optimizer on the twin's weights, in place, and copies them to the
        module."""
        with torch.no_grad():
            for ours, one in zip(self.module.parameters(), self.twin.parameters(), strict=True):
                if one.grad is not None:
                    one -= STEP * one.grad / (one.grad.norm() + 1e-6)
                    ours.copy_(one)


def drop_nothing(module):
    for layer in module.modules():
        if isinstance(layer, torch.nn.modules.dropout._DropoutNd):
            layer.p = 0.0


def tensors_of(result):
    return [value for value in tree_leaves(result) if isinstance(value, torch.Tensor)]


def loss_of(outputs):
    return sum(one.float().square().mean() for one in outputs if one.is_floating_point()
               and one.requires_grad)


def measure(model, mode, dtype, seed=1, full=False, place="cpu"):
    """The fields of a line, except for its key. Errors: those that the model raises; Misshapen."""
    device = Device(place)
    subject = Subject(model, mode, dtype, seed, full, place)
    comparison, first_s, replayed = Comparison(dtype), None, 0
    sizes = sizes_of(seed)
    with Compiling() as compiling:
        for number, size in enumerate(sizes):
            torch.manual_seed(seed + number)
            given = subject.draw(size)
            for call in range(CALLS_PER_SIZE):
                before = device.runs()
                mine, other = subject.arguments(given, 0), subject.arguments(given, 1)
                torch.manual_seed(seed)
                found, spent = device.timed(
                    lambda mine=mine: subject.run(subject.compiled, mine, subject.module))
                torch.manual_seed(seed)
                right = subject.run(subject.twin, other, subject.twin)
                if model.expected:
                    right = tensors_of(model.expected(subject.twin, other, found[0])), right[1]
                compare(comparison, f"size {number + 1}, call {call + 1}", subject, given,
                        (found, tensors_of(mine)), (right, tensors_of(other)))
                first_s = spent if first_s is None else first_s
            replayed += device.only_replayed(before)
            if mode == "training":
                subject.step()
    ours, eager = (
        lambda: subject.run(subject.compiled, subject.arguments(given, 0), subject.module),
        lambda: subject.run(subject.twin, subject.arguments(given, 1), subject.twin))
    result = {
        "status": "wrong" if comparison.wrong else "right", "why": comparison.wrong,
        "error": rounded(comparison.error), **described(subject.compiled),
        "compile_s": rounded(compiling.all), "inductor_s": rounded(compiling.all - compiling.ours),
        "first_s": rounded(first_s), "sizes": len(sizes), "replayed": replayed,
        **device.memory(), "call_ms": rounded(1e3 * device.mean(ours)),
        "eager_ms": rounded(1e3 * device.mean(eager))}
    return {**result, **alternate(device, ours, eager)} if place == "cuda" else result


def compare(comparison, what, subject, given, ours, right):
    """Compares results, gradients, and the arguments and buffers that the model wrote."""
    known = []

    def exact(index):
        if not known:
            known.append(subject.exact(given))
        return known[0] and known[0][index]

    (found, mine), (expected, other) = ours, right
    exactly = subject.model.expected is None
    comparison.add(f"{what}, results", found[0], expected[0],
                   (lambda: exact(0)) if exactly else None)
    comparison.add(f"{what}, gradients", found[1], expected[1], lambda: exact(1),
                   scale_of(expected[1]))
    comparison.add(f"{what}, arguments", mine, other, None)
    comparison.add(f"{what}, buffers", list(subject.module.buffers()),
                   list(subject.twin.buffers()), None)


def described(compiled):
    """The fields of a line that are about graphs."""
    graphs = coppice.torch.report(compiled)
    stats = coppice.torch.stats(compiled)
    calls = {}
    for name in (name for graph in graphs for name in graph.calls):
        short = name.removeprefix("aten.").removesuffix(".default")
        calls[short] = calls.get(short, 0) + 1
    reasons = [reason for graph in graphs
               for reason in (*graph.reasons, *graph.refusals, graph.graph_break)]
    return {"lifted": lifted(graphs, calls), "reasons": told(reasons), "graphs": len(graphs),
            "breaks": stats["graph_breaks"], "recompiles": stats["recompiles"],
            "kernels": stats["kernels"], "gemms": sum(graph.gemms for graph in graphs),
            "calls": calls}


def lifted(graphs, calls):
    whole = [graph.lifted and not graph.runs == graph.refused > 0 for graph in graphs]
    if not all(whole):
        return "part" if any(whole) else "none"
    return "none" if not graphs else "calls" if calls else "full"


def told(reasons):
    """The first reasons, without repetition, each on one line."""
    short = (" ".join(reason.split())[:REASON_MAX] for reason in reasons if reason)
    return list(dict.fromkeys(short))[:REASONS_MAX]


def rounded(value, digits=3):
    return float(f"{value:.{digits}g}")
