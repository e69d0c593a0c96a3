"""Scopes: what calls inside of `with` may do, which calls they build on, and which findings are
errors."""

import contextlib
import tempfile

from coppice.cases import record, replay
from coppice.devices import device_in_use
from coppice.devices import session as shared_session
from coppice.errors import Error, raise_findings

FOLLOWED_STATIC_BYTES = 1 << 20  # Larger static inputs, such as weights, are drawn.


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
def checked(device=None, *, taint=False):
    """Inside the scope, every finding of the emulator is an error. The end of the scope waits for
    all work and raises coppice.Error with the findings: races, and all others that
    Device.findings() lists. A finding from before the scope is raised as well if it comes again. A
    thread that stores the value that the memory already holds does not race; storing a value that
    differs in its last bit is a race. Faults raise errors even without this scope. On a GPU, the
    scope finds nothing.

    device  a coppice.Device; None: that of session()
    taint   whether the padding of the last 32 calls is followed, as `coppice replay
            --taint` does it: if programs claim that padding may hold anything, but it reaches an
            output, the end of the scope raises coppice.Error with the kernel and line, even if no
            value differs. The scope has a session of its own, as `coppice.record`"""
    on = device or device_in_use()
    before = on.finding_count()
    if taint:
        with followed_padding(on):
            yield on
    else:
        yield on
    on.synchronize()
    raise_findings(on, before)


@contextlib.contextmanager
def followed_padding(device):
    """Inside the scope, calls are recorded; its end raises Error where padding reaches outputs that
    it must not reach, or where it could not be followed."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/calls.coppice-case"
        with record(path, device, static_bytes_max=FOLLOWED_STATIC_BYTES) as recording:
            yield
            device.synchronize()
            recording.save("checked(taint=True)")
            lines = padding_lines(replay(path, seeds=1, taint=True))
        if lines:
            raise Error("\n".join(lines))


def padding_lines(found):
    """A line for each program whose padding reaches an output, though it may hold anything."""
    lines = {}
    for each in found["padding"]:
        if not each["may_be_anything"]:
            continue
        if "why_not_followed" in each:
            lines[each["program"]] = "padding cannot be followed: " + each["why_not_followed"]
        elif each["reaches_output"] or each["gaps"]:
            lines[each["program"]] = each["text"]
    return [f"program {program}: {text}" for program, text in lines.items()]
