"""As much of PyTorch as torch_side.py uses, without a GPU and without PyTorch.

A tensor is a number, a kernel is a line in the graph that is being captured, and a pool has a
mebibyte for each graph that is alive in it.
"""

import collections
import contextlib
import sys
import types
import weakref

MIB = 1 << 20
TOTAL = 1 << 40
MODULES = {}


class Cuda:
    """The state of the device."""

    def __init__(self):
        self.pools = 0
        self.graphs = weakref.WeakSet()
        self.capturing = None

    def free_bytes(self):
        return TOTAL - MIB * len(self.graphs)


cuda = Cuda()


class Tensor:
    def __init__(self, value=0):
        self.value = value

    def __add__(self, other):
        launch()
        return Tensor(self.value + other)

    def add_(self, other):
        self.value += other

    def __getitem__(self, rows):
        return Tensor(rows.stop)

    def __mod__(self, _):
        return self

    def clone(self):
        return Tensor(self.value)


def launch(kernels=1):
    if cuda.capturing is not None:
        cuda.capturing.node_count += kernels


class Graph:
    """torch.cuda.CUDAGraph."""

    def __init__(self, keep_graph=False):
        self.keep_graph, self.pool, self.node_count, self.replays = keep_graph, None, 0, 0

    def instantiate(self):
        pass

    def replay(self):
        self.replays += 1

    def raw_cuda_graph(self):
        if not self.keep_graph:
            raise RuntimeError("keep_graph is false")
        return self


@contextlib.contextmanager
def capture(graph, pool=None, stream=None, capture_error_mode="global"):
    if pool is None:
        pool = pool_handle()
    graph.pool, cuda.capturing = pool, graph
    cuda.graphs.add(graph)
    try:
        yield
    finally:
        cuda.capturing = None


def pool_handle():
    cuda.pools += 1
    return (0, cuda.pools)


class Stream:
    def wait_stream(self, _):
        pass

    def synchronize(self):
        pass


class Event:
    def __init__(self, enable_timing):
        pass

    def record(self):
        pass

    def elapsed_time(self, _):
        return 0.5


class Decoder:
    def __init__(self, config):
        pass

    def __call__(self, tokens, *_):
        launch(7)
        return Tensor(tokens.value), Tensor()


def make_compile(torch):
    def compile(function, **_):
        """Runs, then records, then replays; or gives the graph up."""
        calls, graph = [], []

        def compiled(*arguments):
            calls.append(arguments)
            if torch.gives_up:
                raise RuntimeError("skipping cudagraphs due to mutated inputs\n in line 3")
            if len(calls) == 2:
                graph.append(torch.cuda.CUDAGraph())
                with capture(graph[0]):
                    torch.result = function(*arguments)
                torch._dynamo.utils.counters["inductor"][
                    "cudagraph_recorded_non_static_inputs"] += 1
            if not graph:
                return function(*arguments)
            graph[0].replay()
            return torch.result

        return compiled

    return compile


def module(name, **names):
    """The same module every time, since those that have imported it keep it."""
    made = MODULES.setdefault(name, types.ModuleType(name))
    made.__dict__.update(names)
    sys.modules[name] = made
    return made


def assert_close(actual, expected, **_):
    if actual.value != expected.value:
        raise AssertionError(f"{actual.value} is not {expected.value}")


def custom_op(_, mutates_args):
    def decorate(function):
        function.register_fake = lambda fake: fake
        return function

    return decorate


def zeros(*_, **__):
    return Tensor(0)


def install(has_cuda=True):
    """Puts the fakes where `import torch` and `import torch_decoder` find them; returns torch."""
    cuda.__init__()
    dynamo = module("torch._dynamo", reset=lambda: None, mark_static_address=lambda _: None,
                    utils=types.SimpleNamespace(
                        counters=collections.defaultdict(collections.Counter)))
    functorch = module("torch._functorch",
                       config=module("torch._functorch.config", enable_autograd_cache=True))
    inductor = module("torch._inductor", config=module(
        "torch._inductor.config", triton=types.SimpleNamespace(cudagraph_or_error=False)))
    torch = module(
        "torch", __version__="fake", Tensor=Tensor, gives_up=False, _dynamo=dynamo,
        _functorch=functorch, zeros=zeros, zeros_like=zeros, arange=zeros, full=zeros,
        library=types.SimpleNamespace(custom_op=custom_op), empty_like=zeros,
        testing=types.SimpleNamespace(assert_close=assert_close),
        _foreach_copy_=lambda *_: None, set_grad_enabled=lambda _: None,
        get_float32_matmul_precision=lambda: "highest",
        device=contextlib.nullcontext, _inductor=inductor)
    torch.compile = make_compile(torch)
    torch.cuda = types.SimpleNamespace(
        is_available=lambda: has_cuda, get_device_name=lambda: "fake GPU", CUDAGraph=Graph,
        Stream=Stream, Event=Event, graph=capture, graph_pool_handle=pool_handle,
        current_stream=Stream, set_stream=lambda _: None, stream=contextlib.nullcontext,
        synchronize=lambda: None,
        empty_cache=lambda: None, mem_get_info=lambda: (cuda.free_bytes(), TOTAL),
        memory_snapshot=lambda: [{"segment_pool_id": graph.pool, "total_size": MIB}
                                 for graph in cuda.graphs])
    module("torch_decoder", Decoder=Decoder)
    return torch


class Driver:
    """torch_device.Driver."""

    def version(self):
        return "13.0"

    def nodes(self, graph):
        return graph.node_count
