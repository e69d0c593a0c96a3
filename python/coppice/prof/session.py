"""Metrics, marks and traces of sessions of this process."""

import contextlib

from coppice import _core
from coppice.devices import device_in_use, replaced_session
from coppice.devices import session as shared_session


def metrics(format="prometheus", session=None):
    """The figures of a session (None: the shared one) as a page of text, in the format "prometheus"
    or "openmetrics". coppice/graphs/metrics.h has the names of the figures, and says how many
    values a label may have.

    It makes no CUDA call, so any thread may scrape at any time."""
    return (session or shared_session()).metrics_text(format)


def content_type(format="prometheus"):
    """The Content-Type of an HTTP answer with such a page."""
    return _core.metrics_content_type(format)


def mark(name, session=None):
    """Adds a mark with this name to the trace of a session (None: the shared one), at the present
    time. Does nothing without a trace."""
    (session or shared_session()).mark(name)


def request(
    id, *, first_token_ns, last_token_ns, input_tokens, output_tokens, session=None
):
    """Adds the times of one server request to the trace of a session (None: the shared one), for
    `coppice prof html` and `watch`: from its arrival to its first token and to its last token.
    Does nothing without a trace."""
    (session or shared_session()).note_request(
        id,
        first_token_ns=first_token_ns,
        last_token_ns=last_token_ns,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def flush(session=None):
    """Waits until the trace of a session (None: the shared one) is written to its file."""
    (session or shared_session()).flush_trace()


@contextlib.contextmanager
def trace(path, on=None, **options):
    """Inside the scope, the device (None: that of session()) has a new shared session, which writes
    what it does to the file `path`. `options` are other options of coppice.Session.

    Everything that was loaded, wrapped or compiled on the shared session runs on the new one, which
    records its buckets again. After the scope, all of this runs on the old session again, with its
    old graphs. Anything with its own session stays on that session, and is not traced. The end of
    the scope closes the new session, so that the file is complete; anything that was made inside
    the scope cannot run any more. Other threads of the process see the same session."""
    with replaced_session(on or device_in_use(), trace_path=str(path), **options) as traced:
        yield traced
