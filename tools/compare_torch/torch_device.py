"""What the benchmark of PyTorch asks of a device: times, graphs, and bytes.

`Cuda` measures. `Cpu` is the dry run: the same calls, host times alone, and `Skip` for whatever
needs a graph. All times are in microseconds.
"""

import ctypes
import gc
import sys
import time

import torch
import torch._dynamo
import torch._functorch.config
import torch._inductor.config

from notes import Skip, one_line

WARM_UP_CALLS = 3
COMPILED_CALLS = 4  # Compiles, warms up, records, replays.


def expect(actual, expected):
    """Skip if a way computes something else than another way does."""
    try:
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)
    except AssertionError as error:
        raise Skip(f"its results differ: {one_line(error)}") from error


class Driver:
    """The few calls of libcuda that PyTorch has no name for."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.driver.cuGraphGetNodes.argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
        self.driver.cuDriverGetVersion.argtypes = [ctypes.POINTER(ctypes.c_int)]

    def version(self):
        version = ctypes.c_int()
        self.check(self.driver.cuDriverGetVersion(ctypes.byref(version)), "cuDriverGetVersion")
        return f"{version.value // 1000}.{version.value % 1000 // 10}"

    def nodes(self, graph):
        """Of a CUgraph, given as an integer."""
        count = ctypes.c_size_t()
        self.check(self.driver.cuGraphGetNodes(graph, None, ctypes.byref(count)),
                   "cuGraphGetNodes")
        return count.value

    @staticmethod
    def check(status, call):
        if status != 0:
            raise OSError(f"{call} returns {status}")


class KeptGraph(torch.cuda.CUDAGraph):
    """Keeps what it recorded beside what it launches, so that its nodes can be counted."""

    def __init__(self, keep_graph=True):
        super().__init__(keep_graph=True)


class Device:
    """What both devices share. `notes` are the lines that the report is to carry."""

    def __init__(self, kind):
        self.kind = kind
        self.notes = []

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)
            print(f"note: {text}", file=sys.stderr)

    def sample(self, call, calls):
        """Host and GPU time per call of `calls` of them, back to back on an idle device."""
        self.synchronize()
        begin = self.event()
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        host_ns = time.perf_counter_ns() - start
        end = self.event()
        self.synchronize()
        return host_ns / 1000 / calls, self.elapsed_us(begin, end) / calls

    def run_compiled(self, compiled, *arguments):
        """Calls until everything is compiled and recorded; returns the last results."""
        for _ in range(COMPILED_CALLS):
            results = None  # What is alive of an earlier call would be part of a recording.
            results = compiled(*arguments)
        self.synchronize()
        return results

    @staticmethod
    def forget_compiled():
        """Also of earlier processes, whose code may treat static inputs as copied ones."""
        torch._dynamo.reset()
        torch._functorch.config.enable_autograd_cache = False


class Cpu(Device):
    """A dry run."""

    def __init__(self):
        super().__init__("cpu")
        self.name, self.driver_version = "cpu", None

    def synchronize(self):
        pass

    def event(self):
        return None

    def elapsed_us(self, begin, end):
        return float("nan")

    def refuse(self, *_):
        raise Skip("needs a CUDA device")

    compile = capture = warm_up = pool = ticker = refuse


class Cuda(Device):
    """The first CUDA device. Graphs are recorded on one side stream, which is also warmed up."""

    def __init__(self):
        if not torch.cuda.is_available():
            raise Skip(f"torch {torch.__version__} sees no CUDA device")
        super().__init__("cuda")
        self.name = torch.cuda.get_device_name()
        self.side = torch.cuda.Stream()
        try:
            self.driver = Driver()
            self.driver_version = self.driver.version()
        except (OSError, AttributeError) as error:
            self.driver, self.driver_version = None, None
            self.note(f"nodes are not counted: {one_line(error)}")
        # torch.compile makes its graphs itself, by this name.
        torch.cuda.CUDAGraph = KeptGraph
        # A graph that torch.compile gives up is an error that says why, not an eager run.
        triton = torch._inductor.config.triton
        if hasattr(triton, "cudagraph_or_error"):
            triton.cudagraph_or_error = True

    def synchronize(self):
        torch.cuda.synchronize()

    def event(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed_us(self, begin, end):
        return 1000 * begin.elapsed_time(end)

    def compile(self, function, *arguments):
        """The compiled function, its results, and of the graphs that one call replays the nodes and
        the inputs that are copied for them."""
        counters = torch._dynamo.utils.counters["inductor"]
        counters.clear()
        compiled = torch.compile(function, mode="reduce-overhead", dynamic=False, fullgraph=True)
        self.run_compiled(compiled, *arguments)
        graphs = []

        def replay(graph):
            graphs.append(graph)
            super(KeptGraph, graph).replay()

        KeptGraph.replay = replay
        try:
            results = compiled(*arguments)
        finally:
            del KeptGraph.replay
        if not graphs:
            raise Skip(f"torch.compile replays no graph; it gave up {counters['cudagraph_skips']}")
        copied = counters["cudagraph_recorded_non_static_inputs"]
        return compiled, results, self.nodes(*graphs), copied

    def warm_up(self, work):
        """What a first run allocates, loads and chooses must not be part of a recording."""
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            for _ in range(WARM_UP_CALLS):
                work()
        torch.cuda.current_stream().wait_stream(self.side)

    def capture(self, work, pool=None):
        """Records and instantiates; returns the graph and the results that it will write."""
        graph = KeptGraph()
        # Another thread may wait for its own stream meanwhile.
        current = torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph, pool=pool, stream=self.side,
                                  capture_error_mode="thread_local"):
                results = work()
        finally:
            torch.cuda.set_stream(current)  # A capture that fails leaves its own in place.
        graph.instantiate()
        return graph, results

    def nodes(self, *graphs):
        """How many nodes the graphs have, or None with a note."""
        if self.driver is None:
            return None
        try:
            return sum(self.driver.nodes(graph.raw_cuda_graph()) for graph in graphs)
        except (OSError, RuntimeError, ctypes.ArgumentError) as error:
            self.note(f"nodes are not counted: {one_line(error)}")
            return None

    def pool(self):
        return torch.cuda.graph_pool_handle()

    def pool_bytes(self, pool):
        """What the allocator took from the driver for a pool."""
        return sum(segment["total_size"] for segment in torch.cuda.memory_snapshot()
                   if tuple(segment["segment_pool_id"]) == tuple(pool))

    def free_bytes(self):
        self.synchronize()
        return torch.cuda.mem_get_info()[0]

    def release(self):
        """Gives everything back to the driver that nothing holds."""
        gc.collect()
        self.empty_cache()

    def empty_cache(self):
        self.synchronize()
        torch.cuda.empty_cache()
        self.synchronize()

    def ticker(self):
        """A call that runs a tiny kernel on a stream of its own and waits for it."""
        stream, x = torch.cuda.Stream(), torch.zeros(1, device="cuda")
        self.synchronize()

        def tick():
            with torch.cuda.stream(stream):
                x.add_(1)
            stream.synchronize()

        tick()
        return tick
