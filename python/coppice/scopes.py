"""Scopes: what calls inside of `with` may do, which calls they build on, and which findings are
errors."""

import contextlib

from coppice.devices import device_in_use
from coppice.devices import session as shared_session
from coppice.errors import raise_findings


@contextlib.contextmanager
def stance(name, session=None):
    """Sets what the session (None: the shared one) may do inside the scope. "record": warm up,
    record and replay. "replay_only": replay what is recorded, and run the rest without a graph.
    "eager": use no graphs. "strict": replay, or raise FailedPrecondition that says why not. The
    stance applies to all threads of the session; scopes nest."""
    of = session or shared_session()
    before = of.stance
    of.stance = name
    try:
        yield of
    finally:
        of.stance = before


def chain(session=None, lane=0):
    """Inside the scope, calls on a lane of the session (None: the shared one) build on each other:
    a call does not write over the leased outputs of earlier ones. Raises FailedPrecondition if the
    lane has an open chain."""
    return (session or shared_session()).chain(lane)


@contextlib.contextmanager
def checked(device=None):
    """Inside the scope, every finding of the emulator is an error. The end of the scope waits for
    all work and raises coppice.Error with the findings: races, and all others that
    Device.findings() lists. A finding from before the scope is raised as well if it comes again. A
    thread that stores the value that the memory already holds does not race; storing a value that
    differs in its last bit is a race. Faults raise errors even without this scope. On a GPU, the
    scope finds nothing.

    device  a coppice.Device; None: that of session()"""
    on = device or device_in_use()
    before = on.finding_count()
    yield on
    on.synchronize()
    raise_findings(on, before)
