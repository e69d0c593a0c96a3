"""As much of PyTorch as torch_side.py uses, without a GPU and without PyTorch.

A tensor is a number and a block of an allocator that never splits a block, so that what a pool
reserves depends on the order of its recordings; a kernel is a line in the graph that is being
captured. The driver takes memory for every executable graph and keeps it once the graph is gone.
"""

import collections
import contextlib
import sys
import types
import weakref

MIB = 1 << 20
TOTAL = 1 << 40
EXECUTABLE_BYTES = 64 << 10
TOKENS_BYTES = MIB  # Of a row of the decoder's results.


class Cuda:
    """The state of the device and of its allocator."""

    def __init__(self):
        self.blocks = []  # [pool, bytes, is free], each a segment.
        self.pools = 0
        self.graphs = weakref.WeakSet()  # That hold their pool.
        self.capturing = None
        self.executables, self.executables_max = 0, 0

    def free_bytes(self):
        return (TOTAL - sum(block[1] for block in self.blocks)
                - self.executables_max * EXECUTABLE_BYTES)

    def allocate(self, size):
        pool = self.capturing.pool if self.capturing else (0, 0)
        fitting = [block for block in self.blocks
                   if block[0] == pool and block[2] and block[1] >= size]
        block = min(fitting, key=lambda block: block[1]) if fitting else None
        if block is None:
            block = [pool, size, True]
            self.blocks.append(block)
        block[2] = False
        return block

    def empty_cache(self):
        held = {graph.pool for graph in self.graphs}
        self.blocks = [block for block in self.blocks if not block[2] or block[0] in held]

    def instantiate(self, count):
        self.executables += count
        self.executables_max = max(self.executables_max, self.executables)


cuda = Cuda()


def free(block):
    block[2] = True


class Tensor:
    def __init__(self, value=0, size=0):
        self.value = value
        if size:
            weakref.finalize(self, free, cuda.allocate(size))

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
        self.instantiated = False

    def instantiate(self):
        if not self.instantiated:
            self.instantiated = True
            cuda.instantiate(1)
            weakref.finalize(self, cuda.instantiate, -1)

    def replay(self):
        self.instantiate()
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
    if not graph.keep_graph:
        graph.instantiate()


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
    """A call takes scratch and leaves results, both as large as the batch."""

    def __init__(self, config, gather):
        pass

    def __call__(self, tokens, *_):
        launch(7)
        scratch = Tensor(size=4 * TOKENS_BYTES * tokens.value)
        del scratch
        return Tensor(tokens.value, TOKENS_BYTES * tokens.value), Tensor()


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
    made = types.ModuleType(name)
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
        empty_cache=lambda: cuda.empty_cache(), mem_get_info=lambda: (cuda.free_bytes(), TOTAL),
        memory_snapshot=lambda: [{"segment_pool_id": pool, "total_size": size}
                                 for pool, size, _ in cuda.blocks])
    module("torch_decoder", Decoder=Decoder)
    for name in ("torch_device", "torch_chain"):  # They keep what they imported.
        sys.modules.pop(name, None)
    return torch


def uninstall():
    """No torch anywhere, whether the machine has one or not."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        del sys.modules[name]
    for name in ("torch_device", "torch_chain", "torch_decoder"):
        sys.modules.pop(name, None)
    sys.modules["torch"] = None


class Driver:
    """torch_device.Driver."""

    def version(self):
        return "13.0"

    def nodes(self, graph):
        return graph.node_count
