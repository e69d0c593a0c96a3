"""What a session did, for dashboards and profilers.

    coppice.prof.metrics()              a page for Prometheus, of the shared session
    with coppice.prof.trace("t.trace"): what is made in it is traced, for `coppice prof`
    coppice.prof.mark("request 17")     names a moment of the trace
    coppice.prof.request(17, ...)       how long a request took
"""

import contextlib

from coppice import _core
from coppice.devices import device as shared_device
from coppice.devices import exchange_session
from coppice.devices import session as shared_session


def metrics(format="prometheus", session=None):
    """The figures of a session (None: the shared one) as a page of text, in the format "prometheus"
    or "openmetrics". What it names, and how labels are bounded, is in coppice/graphs/metrics.h.

    Makes no call of CUDA, so that any thread may scrape at any time."""
    return (session or shared_session()).metrics_text(format)


def content_type(format="prometheus"):
    """What the Content-Type of an answer with such a page says."""
    return _core.metrics_content_type(format)


def mark(name, session=None):
    """Puts a mark of this name into the trace of a session (None: the shared one), at this time.
    Does nothing without a trace."""
    (session or shared_session()).mark(name)


def request(
    id, *, first_token_ns, last_token_ns, input_tokens, output_tokens, session=None
):
    """Puts the times of one request to a server, from its arrival to its first token and to its
    last, into the trace of a session (None: the shared one), for `coppice prof html` and `watch`.
    Does nothing without a trace."""
    (session or shared_session()).note_request(
        id,
        first_token_ns=first_token_ns,
        last_token_ns=last_token_ns,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def flush(session=None):
    """Waits until the trace of a session (None: the shared one) is in its file."""
    (session or shared_session()).flush_trace()


@contextlib.contextmanager
def trace(path, on=None, **options):
    """Within, the shared session of the device (None: device()) is a new one, which writes what it
    does to the file `path`; `options` are others of coppice.Session. At the end it is closed, so
    that the file is whole: what was loaded, wrapped or compiled inside runs no more. What was made
    before keeps its session, and is not traced. Other threads of the process see the same."""
    on = on or shared_device()
    with _core.Session(on, trace_path=str(path), **options) as traced:
        before = exchange_session(on, traced)
        try:
            yield traced
        finally:
            # One that another thread's trace ended meanwhile is nobody's session any more.
            exchange_session(on, None if before is None or before.closed else before)
