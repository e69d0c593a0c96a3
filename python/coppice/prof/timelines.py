"""Kernels on a GPU's timeline, whichever profiler wrote it."""

FORMATS = "give a trace of PyTorch's profiler, or what `nsys export --type sqlite` writes"
TIME_MAX = 1 << 63  # Nanoseconds of 292 years.
EXTENT_MAX = 1 << 32


class Kernel:
    """A kernel that ran. Times are in nanoseconds.

    `launch` is what all kernels of one launch share, or None. `graph` and `node` are ids of a graph
    and of its node; 0: it ran in no graph; None: the timeline does not say."""

    __slots__ = ("block", "correlation", "device", "event", "grid", "graph", "known", "lasts",
                 "launch", "name", "node", "process", "start", "stream", "symbol")

    def __init__(self, name, start, lasts):
        self.name, self.start, self.lasts = name, start, lasts
        self.symbol = None  # The mangled name, if the timeline has it.
        self.grid = self.block = None  # Tuples of three extents.
        # The stream is there only for a timeline that is drawn anew.
        self.process = self.device = self.stream = self.correlation = None
        self.graph = self.node = None
        self.event = None  # What the file has of it, for a file that is written again.
        self.known = None  # What coppice knows of it (launches.Known).
        self.launch = None

    def place(self, process, device, stream, correlation):
        self.process, self.device, self.stream = process, device, stream
        self.correlation = correlation
        if correlation is not None:
            self.launch = process, device, correlation

    def in_graph(self):
        """None: the timeline does not say."""
        if self.graph is None and self.node is None:
            return None
        return bool(self.graph or self.node)


class Timeline:
    """The kernels of a file. `left_out` counts those without a valid time."""

    def __init__(self, path, format):
        self.path, self.format = path, format
        self.kernels, self.left_out = [], 0
        self.document = None  # Of a file that is written again.
        self.whole_graphs = False  # It has graphs, but not the kernels in them.


def graph_option():
    return "record again with nsys profile --cuda-graph-trace=node"


def time(value):
    """Whether this is a time or a duration that a profiler may write."""
    return type(value) in (int, float) and 0 <= value < TIME_MAX


def number(value):
    """The value if it is an id, or None."""
    return value if type(value) is int and 0 <= value < 1 << 64 else None


def extents(values):
    """The extents of a grid or block, or None."""
    if not isinstance(values, (list, tuple)) or len(values) != 3:
        return None
    if not all(type(value) is int and 0 < value < EXTENT_MAX for value in values):
        return None
    return tuple(values)
