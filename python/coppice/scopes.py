"""Scopes: what calls inside of `with` may do, which calls they build on, and which findings are
errors."""

import contextlib
import tempfile
import warnings

from coppice.cases import replay
from coppice.devices import device_in_use, replaced_session
from coppice.devices import session as shared_session
from coppice.errors import Error, raise_findings

FOLLOWED_RING_BYTES = 256 << 20
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
    differs in its last bit is a race. Faults raise errors even without this scope. A GPU has no
    findings.

    device  a coppice.Device; None: that of session()
    taint   whether the padding of the last 32 calls is followed on the emulator, as `coppice replay
            --taint` does it. The scope has a session of its own, as in `coppice.record`. If a
            program claims that its padding may hold anything, but it reaches an output, the end of
            the scope raises coppice.Error with the kernel and line, even if no value differs. What
            cannot be followed is a RuntimeWarning; so are programs that are not from packages"""
    on = device or device_in_use()
    before = on.finding_count()
    wrong = []
    with followed_padding(on, wrong) if taint else contextlib.nullcontext():
        yield on
        on.synchronize()
    try:
        raise_findings(on, before)
    except Error as error:
        wrong.insert(0, str(error))
    if wrong:
        raise Error("\n".join(wrong))


@contextlib.contextmanager
def followed_padding(device, wrong):
    """Inside the scope, calls are recorded. Its end adds a line to `wrong` for each program whose
    padding reaches outputs that it must not reach, and warns of what it could not follow."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/calls.coppice-case"
        with replaced_session(device, recorder_ring_bytes=FOLLOWED_RING_BYTES,
                              recorder_static_bytes_max=FOLLOWED_STATIC_BYTES) as session:
            yield
            called = session.stats().calls > 0
            session.save_case(path, "checked(taint=True)")
        if not called:
            return
        found = replay(path, seeds=1, taint=True)
        if found["kind"] == "cannot_replay":
            warn_unfollowed(found["verdict"])
        for program, told in by_program(found["padding"]).items():
            reaching = [each["text"] for each in told
                        if each["may_be_anything"] and each.get("reaches_output")]
            unknown = [each.get("why_not_followed") or each["text"] for each in told
                       if "why_not_followed" in each or each["gaps"]]
            if reaching:
                wrong.append(f"program {program}: {reaching[-1]}")
            elif unknown:
                warn_unfollowed(f"program {program}: {unknown[-1]}")


def by_program(padding):
    """Of what a replay tells of padding, that of each program."""
    told = {}
    for each in padding:
        told.setdefault(each["program"], []).append(each)
    return told


def warn_unfollowed(why):
    warnings.warn(f"coppice.checked: padding cannot be followed: {why}", RuntimeWarning,
                  stacklevel=2)
