"""PyTorch programs on coppice: `torch.compile(f, backend="coppice", options={...})`.

    compiled = torch.compile(model, backend="coppice", dynamic=True)
    y = compiled(x)                       # recorded per size, replayed from then on
    coppice.torch.report(compiled)        # what was lifted, and what was not, and why

On a GPU the kernels that Inductor makes run on it, as CUDA graphs of one pool. On a machine without
one, tensors of the CPU are computed by the same kernels on the emulator, with the same graphs and
the same pool, and races and accesses out of bounds are errors. What cannot be lifted runs by
PyTorch, is counted and logged by logging.getLogger("coppice"), or is an error with
options={"strict": True}; coppice.torch.options says what else there is, and GraphReport what is
known of each graph.
"""

from coppice.torch.allocator import allocator
from coppice.torch.compiler import backend
from coppice.torch.graphs import from_graph
from coppice.torch.partitions import partitions
from coppice.torch.ranks import vote
from coppice.torch.reports import GraphReport, NotLifted, report, stats

__all__ = ["GraphReport", "NotLifted", "allocator", "backend", "from_graph", "partitions",
           "report", "stats", "vote"]
