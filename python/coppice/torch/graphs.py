"""Graphs that PyTorch captured. A session replays them, with its stances, its budget and its
profile.

    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        y = model(x)                                # x and y stay where they are
    captured = coppice.from_graph(graph)
    captured()                                      # on the current stream

Threads: any; calls of one lane take turns.
"""

import torch

from coppice.devices import device as shared_device
from coppice.devices import session as shared_session
from coppice.errors import InvalidArgument, after_faults
from coppice.libraries import library_stream
from coppice.tracing import register


def from_graph(graph, *, name="graph", session=None, generators=()):
    """A callable that replays the graph of a torch.cuda.CUDAGraph(keep_graph=True). It has no
    arguments and no results: it reads and writes the memory that the graph was captured on.

    session     a coppice.Session; None: the shared session on CUDA
    generators  those that were registered with the graph, besides the default one

    The graph is replayed once here, to see whether it draws random numbers: PyTorch advances its
    generators only when PyTorch itself replays the graph. Raises InvalidArgument for a graph that
    draws random numbers, that was made without keep_graph, or that was not captured."""
    raw = raw_graph(graph)
    refuse_random_numbers(graph, generators)
    return CapturedGraph(graph, raw, name, session or shared_session(shared_device("cuda")))


def raw_graph(graph):
    try:
        return graph.raw_cuda_graph()
    except RuntimeError as error:
        raise InvalidArgument("from_graph: the graph was not captured, or was captured without "
                              "keep_graph=True; capture a "
                              "torch.cuda.CUDAGraph(keep_graph=True)") from error


def refuse_random_numbers(graph, generators):
    watched = [torch.cuda.default_generators[torch.cuda.current_device()], *generators]
    before = [generator.get_state() for generator in watched]
    graph.replay()
    torch.cuda.synchronize()
    drew = [not torch.equal(state, generator.get_state())
            for state, generator in zip(before, watched)]
    for state, generator in zip(before, watched):
        generator.set_state(state)
    if any(drew):
        raise InvalidArgument("from_graph: the graph draws random numbers, which would be the same "
                              "in every replay; wrap the callable with coppice.wrap and pass "
                              "random numbers as an input")


class CapturedGraph:
    """What from_graph returns. It ends with close(), or when nothing refers to it any more. It
    keeps the CUDAGraph, and with it PyTorch's memory."""

    def __init__(self, graph, raw, name, session):
        self.graph, self.session = graph, session
        self.program = register(session, {"name": name, "variant": ""}, Replayed(raw))

    def __call__(self, stream=None):
        """Replays it on `stream`, a number; None: the current stream. Returns the coppice.Lease,
        which says how it ran."""
        if stream is None and self.session.device.kind == "cuda":
            stream = library_stream("torch", self.session.device.ordinal)
        return self.program.run([], stream=stream or 0)

    def explain(self):
        """What a call would do, in words."""
        return self.program.explain([])

    def buckets(self):
        """For the one bucket: replays, graph_nodes and more."""
        return [bucket for bucket in self.session.buckets()
                if (bucket["program"], bucket["variant"]) == (self.program.name,
                                                              self.program.variant)]

    def close(self):
        """Ends the program, and waits for its calls."""
        if self.program is not None and not self.session.closed:
            self.program.unregister()
        self.program = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __del__(self):
        if getattr(self, "program", None) is not None:
            with after_faults():
                self.close()


class Replayed:
    """The program that the session runs."""

    def __init__(self, raw):
        self.raw = raw

    def __call__(self, context):
        context.add_graph(self.raw)
