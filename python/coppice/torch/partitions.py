"""Piecewise graphs: each partition that Inductor makes of a graph is a wrapped callable.

    with coppice.torch.partitions():
        compiled = torch.compile(model)      # and the first calls, which compile
        compiled(x)

Inductor splits a graph where something cannot be captured, and wraps each part with a function that
can be set: vLLM sets its own. Inside the scope it is coppice's, and graphs that are compiled there
keep it. Load cached artefacts inside the scope as well.

Threads: one at a time compiles or runs a graph.
"""

import contextlib

import torch

from coppice.devices import device as shared_device
from coppice.devices import session as shared_session
from coppice.wrapping import wrap

MARK = "_coppice_output"  # Of tensors: the output that they show.


def is_parameter(tensor):
    return isinstance(tensor, torch.nn.Parameter)


@contextlib.contextmanager
def partitions(*, session=None, static=is_parameter, copies="last"):
    """Inside the scope, Inductor compiles partitions that replay graphs of a session, one per size.

    session  a coppice.Session; None: the shared session on CUDA
    static   a function that returns for each tensor of a partition's first call whether it stays at
             its address. Every call copies the others, unless an earlier partition returned them
    copies   the partitions whose results are copied into memory of their own: the "last" one, whose
             results the caller gets, or "all", if the caller also gets results of other partitions.
             Results that are not copied must be dropped before the next call of the graph

    Yields the list of partitions, which grows as they are made. Each has the methods stats, buckets
    and close."""
    import torch._inductor.config
    from torch._inductor import utils

    session = session or shared_session(shared_device("cuda"))
    made = []

    def wrapped(fn, metadata):
        last = metadata.partition_index == metadata.num_partitions - 1
        forward = made[-1].forward if metadata.partition_index else Forward(session)
        made.append(Partition(fn, metadata, forward, static, last or copies == "all"))
        return made[-1]

    known = utils._unstable_customized_partition_wrapper.wrapper
    with torch._inductor.config.patch(graph_partition=True):
        utils.set_customized_partition_wrappers(wrapped)
        try:
            yield made
        finally:
            utils.set_customized_partition_wrappers(known)


class Forward:
    """One call of a graph. The call of each partition builds on those of the partitions before
    it."""

    def __init__(self, session):
        self.session, self.chain = session, None

    def begin(self):
        self.end()  # Of a call that an exception left.
        self.chain = self.session.chain(0)
        self.chain.__enter__()

    def end(self):
        if self.chain is not None:
            self.chain.__exit__(None, None, None)
            self.chain = None


class Partition:
    """A partition. It takes the list of its arguments from Inductor's code and empties the list, so
    that only the caller keeps the tensors."""

    def __init__(self, fn, metadata, forward, static, copies):
        self.fn, self.index, self.count = fn, metadata.partition_index, metadata.num_partitions
        self.forward, self.is_static, self.copies = forward, static, copies
        self.wrapped = None

    def __call__(self, arguments):
        values = [getattr(value, MARK, value) for value in arguments]
        arguments.clear()
        if self.wrapped is None:
            self.wrapped = self.wrap(values)
        if self.index == 0:
            self.forward.begin()
        lease = self.wrapped.run(*values)
        results = lease.detach() if self.copies else [lease[index] for index in range(len(lease))]
        if self.index == self.count - 1:
            self.forward.end()
        return tuple(self.shown(result) for result in results)

    def wrap(self, values):
        static = [f"values.{index}" for index, value in enumerate(values)
                  if isinstance(value, torch.Tensor) and self.is_static(value)]
        fn = self.fn
        return wrap(lambda *values: fn(list(values)), session=self.forward.session, static=static,
                    name=f"partition_{self.index}")

    def shown(self, result):
        """A result in the form that PyTorch's code takes. If it is not copied, it remembers the
        output, so that a later partition reads it in place."""
        if self.forward.session.device.kind == "emulator":
            return result
        tensor = torch.from_dlpack(result)
        if not self.copies:
            setattr(tensor, MARK, result)
        return tensor

    def stats(self):
        """Like Wrapped.stats; empty before the first call."""
        return self.wrapped.stats() if self.wrapped is not None else {}

    def buckets(self):
        return self.wrapped.buckets() if self.wrapped is not None else []

    def close(self):
        """Ends its programs, and waits for their calls."""
        if self.wrapped is not None:
            self.wrapped.close()
