"""Metrics, marks and traces of sessions of this process."""

import contextlib

from coppice import _core
from coppice.devices import device as shared_device
from coppice.devices import exchange_session, followers
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
    does to the file `path`; `options` are others of coppice.Session. What was loaded, wrapped or
    compiled before on the shared session runs on the new one, which records its buckets anew, and
    goes back to its own graphs at the end. What has a session that was given to it stays there, and
    is not traced. At the end the new session is closed, so that the file is whole: what was made
    inside runs no more. Other threads of the process see the same."""
    on = on or shared_device()
    with _core.Session(on, trace_path=str(path), **options) as traced:
        before = exchange_session(on, traced)
        try:
            with contextlib.ExitStack() as moved:
                for user in followers(before):
                    moved.callback(user.move_to(traced))
                yield traced
        finally:
            # One that another thread's trace ended meanwhile is nobody's session any more.
            exchange_session(on, None if before is None or before.closed else before)
