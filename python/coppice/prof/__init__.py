"""Reports what a session did, for dashboards and profilers.

    coppice.prof.metrics()              a page for Prometheus, of the shared session
    with coppice.prof.trace("t.trace"): traces what runs inside, for `coppice prof`
    coppice.prof.mark("request 17")     names a moment of the trace
    coppice.prof.request(17, ...)       how long a request took

    python -m coppice.prof export       writes a trace for PyTorch's viewer, Perfetto or RMM
    python -m coppice.prof import       plans the allocations of another allocator
    python -m coppice.prof timeline     says what the padding of each step cost on a GPU

The last three need the command `coppice`, and nothing else of this package.
"""

import importlib

__all__ = ["content_type", "flush", "mark", "metrics", "request", "trace"]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module 'coppice.prof' has no attribute {name!r}")
    return getattr(importlib.import_module("coppice.prof.session"), name)


def __dir__():
    return sorted([*globals(), *__all__])
