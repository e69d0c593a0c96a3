"""PyTorch programs on coppice: `torch.compile(f, backend="coppice", options={...})`.

    compiled = torch.compile(model, backend="coppice", dynamic=True)
    y = compiled(x)                       # recorded per size, replayed from then on
    coppice.torch.report(compiled)        # what was lifted, and what was not, and why

On a GPU, Inductor's kernels run on it, as CUDA graphs of one pool. On a machine without a GPU, the
emulator runs the same kernels on CPU tensors, with the same graphs and the same pool. Races and
accesses out of bounds are errors. PyTorch runs what cannot be lifted. Each such case is counted,
and logged by logging.getLogger("coppice"); with options={"strict": True} it is an error.
coppice.torch.options lists all options, and GraphReport describes a graph.
"""

from coppice.torch.allocator import allocator
from coppice.torch.compiler import backend
from coppice.torch.graphs import from_graph
from coppice.torch.partitions import partitions
from coppice.torch.ranks import vote
from coppice.torch.reports import GraphReport, NotLifted, report, stats

__all__ = ["GraphReport", "NotLifted", "allocator", "backend", "from_graph", "partitions",
           "report", "stats", "vote"]
