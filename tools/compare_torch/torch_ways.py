"""The sections that time several ways of the same work against each other: steps and decode."""

import contextlib
import dataclasses
import gc
import random
from typing import Any, Callable

import torch
import torch_decoder
from notes import one_line, progress, rounded
from torch_device import expect

CALLS = 10  # Of a sample, back to back; fewer of eager work that launches many kernels.
POSITION = 64  # Of every row of a batch, or the last of a smaller context.
WARM_UP_CALLS = 20
KERNELS_PER_SAMPLE = 1000  # A stream takes about so many launches before the next one waits.
EAGER = "eager"
KERNELS_PER_LAYER = 30  # Of the decoder, at most; eager.


@dataclasses.dataclass
class Way:
    """One way to do the work of a case. Of its graphs, None without or not counted: the nodes, and
    the inputs that a call copies for them."""

    name: str
    call: Callable[[], Any]
    nodes: Any = None
    copied: Any = None
    calls: int = 1  # Of a sample.
    host_us: list = dataclasses.field(default_factory=list)
    gpu_us: list = dataclasses.field(default_factory=list)
    skipped: str = ""

    def json(self, has_gpu):
        if self.skipped:
            return {"name": self.name, "skipped": self.skipped}
        return {"name": self.name, "calls": self.calls, "host_us": rounded(self.host_us),
                "gpu_us": rounded(self.gpu_us) if has_gpu else None}


@contextlib.contextmanager
def no_garbage_collection():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def build_ways(builders):
    """Ways of (name, builder), where a builder returns the fields of Way that follow the name."""
    ways = []
    for name, build in builders:
        try:
            ways.append(Way(name, *build()))
        except Exception as error:  # One way that fails must not cost the others.
            ways.append(Way(name, None, skipped=one_line(error)))
            progress(f"  {name}: {ways[-1].skipped}")
    return ways


def sample_ways(device, ways, samples):
    """One sample of each way per round, in an order drawn anew: one that always follows the same
    other would pay for what that leaves behind."""

    def attempt(way, work):
        try:
            return work()
        except Exception as error:
            way.skipped = one_line(error)
            progress(f"  {way.name}: {way.skipped}")

    def warm_up(way):
        for _ in range(WARM_UP_CALLS):
            way.call()

    def take(way):
        host_us, gpu_us = device.sample(way.call, way.calls)
        way.host_us.append(host_us)
        way.gpu_us.append(gpu_us)

    for way in ways:
        if not way.skipped:
            attempt(way, lambda: warm_up(way))
    with no_garbage_collection():
        draw = random.Random(1)
        for _ in range(samples):
            for way in draw.sample(ways, len(ways)):
                if not way.skipped:
                    attempt(way, lambda: take(way))


def measure_case(device, case, builders, options, kernels):
    """Completes a case with its ways and the nodes of their graphs. `kernels` is how many an eager
    call launches: of a graph, which is one launch, a sample always has all calls."""
    ways = build_ways(builders)
    for way in ways:
        fit = KERNELS_PER_SAMPLE // kernels if way.name == EAGER else CALLS
        way.calls = max(1, min(CALLS, fit))
    sample_ways(device, ways, options.repetitions)
    recorded = [way for way in ways if way.name != EAGER and not way.skipped]
    case["nodes"] = {way.name: way.nodes for way in recorded}
    case["copied_inputs"] = {way.name: way.copied for way in recorded}
    case["ways"] = [way.json(device.kind == "cuda") for way in ways]
    return case


ELEMENTS = 4096


@torch.library.custom_op("coppice_bench::add_one", mutates_args=())
def add_one(x: torch.Tensor) -> torch.Tensor:
    """One kernel that the compiler cannot look into."""
    return x + 1


@add_one.register_fake
def _(x):
    return torch.empty_like(x)


def plain_chain(x, kernels):
    """`kernels` times x + 1, as anyone writes it."""
    for _ in range(kernels):
        x = x + 1
    return x


# Two functions of the same lines: compiled code belongs to a function, and whether it copies its
# input must not be what the other one was compiled for.
def copied_chain(x, kernels):
    """The same of opaque kernels, for an input that may lie elsewhere in every call."""
    for _ in range(kernels):
        x = add_one(x)
    return x


def static_chain(x, kernels):
    """The same for an input that is marked with mark_static_address."""
    for _ in range(kernels):
        x = add_one(x)
    return x


def steps(device, options, report):
    """The chain has one input; the graph of cuda_graph and the static way read it in place."""
    report["cases"] = []
    for kernels in options.sizes:
        progress(f"steps: {kernels} kernels")
        device.forget_compiled()
        x = torch.zeros(ELEMENTS, device=device.kind)
        static = torch.zeros_like(x)
        torch._dynamo.mark_static_address(static)
        expected = x + kernels

        def recorded():
            device.warm_up(lambda: plain_chain(x, kernels))
            graph, result = device.capture(lambda: plain_chain(x, kernels))
            graph.replay()
            expect(result, expected)
            return graph.replay, device.nodes(graph), 0

        def compiled(function, argument):
            call, result, *counts = device.compile(function, argument, kernels)
            expect(result, expected)
            return lambda: call(argument, kernels), *counts

        report["cases"].append(measure_case(device, {"kernels": kernels}, [
            ("cuda_graph", recorded),
            ("reduce_overhead", lambda: compiled(copied_chain, x)),
            ("reduce_overhead_static", lambda: compiled(static_chain, static)),
            (EAGER, lambda: [lambda: plain_chain(x, kernels)]),
        ], options, kernels))


class Workload:
    """The decoder and its inputs, which graphs read where they lie."""

    def __init__(self, device, options, report):
        self.device = device
        rows, position = max(options.sizes), min(POSITION, options.model["max_context"] - 1)
        with torch.device(device.kind):
            self.model = torch_decoder.Decoder(options.model)
            self.inputs = (torch.arange(rows) % options.model["vocab"],
                           torch.full((rows,), position), torch.arange(rows))
        report.update({"model": options.model, "position": position,
                       "precision": torch.get_float32_matmul_precision()})

    def arguments(self, batch):
        return tuple(tensor[:batch] for tensor in self.inputs)

    def step(self, batch):
        """One decode step, for a graph to be recorded of."""
        arguments = self.arguments(batch)
        return lambda: self.model(*arguments)


def decode(device, options, report):
    """Tokens, positions and slots are copied in every call of a graph."""
    workload = Workload(device, options, report)
    report["cases"] = []
    for batch in options.sizes:
        progress(f"decode: batch {batch}")
        device.forget_compiled()
        arguments = workload.arguments(batch)
        expected = workload.model(*arguments)[0].clone()

        def recorded():
            own = [tensor.clone() for tensor in arguments]
            device.warm_up(lambda: workload.model(*own))
            graph, results = device.capture(lambda: workload.model(*own))
            graph.replay()
            expect(results[0], expected)

            def call():
                torch._foreach_copy_(own, arguments)
                graph.replay()

            return call, device.nodes(graph), len(own)

        def compiled():
            call, results, *counts = device.compile(workload.model, *arguments)
            expect(results[0], expected)
            return lambda: call(*arguments), *counts

        report["cases"].append(measure_case(device, {"batch": batch}, [
            (EAGER, lambda: [lambda: workload.model(*arguments)]),
            ("reduce_overhead", compiled),
            ("cuda_graph", recorded),
        ], options, KERNELS_PER_LAYER * options.model["layers"]))
