"""Scopes: what calls inside of `with` may do, what they build on, and what may be found in them."""

import contextlib

from coppice.devices import device as shared_device
from coppice.devices import session as shared_session
from coppice.errors import raise_findings


@contextlib.contextmanager
def stance(name, session=None):
    """Within, the session (None: the shared one) may "record"; "replay_only": run what is not
    recorded without a graph; "eager": use no graphs; "strict": replay, or raise
    FailedPrecondition that says why not. All threads of the session see it; scopes nest."""
    of = session or shared_session()
    before = of.stance
    of.stance = name
    try:
        yield of
    finally:
        of.stance = before


def chain(session=None, lane=0):
    """Within, calls on a lane of the session (None: the shared one) build on each other: each
    leaves the leased outputs of those before it alone. Raises FailedPrecondition if the lane has
    an open chain."""
    return (session or shared_session()).chain(lane)


@contextlib.contextmanager
def checked(device=None):
    """Within, what the emulator finds in kernels is an error at the end, which waits for all work:
    races, and whatever else is a line of Device.findings(). Threads that store what is there
    already race with nobody; results that differ in their last bit do. Faults raise without it.
    `device`: a coppice.Device; None: the shared one. A GPU finds nothing. Raises coppice.Error
    with the lines, of a finding that was there before, too, if it comes again."""
    on = device or shared_device()
    before = on.finding_count()
    yield on
    on.synchronize()
    raise_findings(on, before)
