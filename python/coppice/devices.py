"""The devices of the process and the session on each. Everything that names no other device or
session shares these, so all graphs of a device are in one pool.
"""

import atexit
import contextlib
import logging
import threading
import weakref

from coppice import _core
from coppice.errors import FailedPrecondition, InvalidArgument, Unavailable

LEGACY_STREAM = 1  # CU_STREAM_LEGACY, by which coppice knows what libraries call stream 0.

log = logging.getLogger("coppice")
_lock = threading.Lock()
_devices = {}  # By kind and ordinal: ("cuda", 1).
_implied = set()  # Kinds and ordinals that tensors alone asked for.
_sessions = {}  # By device.
_followers = weakref.WeakSet()  # What runs on the shared session, whichever that is.
_traced = weakref.WeakSet()  # What holds sessions of C whose traces have no end yet.
_told = set()  # Lines that the log has.


def device(kind="auto", ordinal=0, **options):
    """The device of this process with a kind and an ordinal. The kind is "cuda", "emulator"
    (ordinal 0 only) or "auto". "auto" takes an open device, CUDA before the emulator. If none is
    open, it takes CUDA if there is a GPU, otherwise the emulator. The first call opens the device,
    with `options` as in coppice.Device.

    Raises Unavailable if there is no such device, FailedPrecondition if options are given and the
    device is open. Threads: any."""
    with _lock:
        found = _find(kind, ordinal)
        if found is None:
            found = _open(kind, ordinal, options)
            _devices[found.kind, ordinal] = found
        elif options:
            raise FailedPrecondition(f"device: {kind} is open already; give options before its "
                                     "first use")
        _implied.discard((found.kind, ordinal))
        return found


def device_of_tensors(kind, ordinal=0):
    """The device "cuda" for tensors on a GPU, or "emulator" for tensors on the CPU. It does not
    change what "auto" means elsewhere: "auto" is still a GPU, even if functions on CPU tensors run
    on an emulator."""
    with _lock:
        found = _devices.get((kind, ordinal))
        if found is None:
            found = _devices[kind, ordinal] = _core.Device(kind, ordinal)
            _implied.add((kind, ordinal))
        return found


def _find(kind, ordinal):
    """The open device of a kind, or None."""
    if kind != "auto":
        return _devices.get((kind, ordinal))
    known = _devices.get(("emulator", ordinal)) if ("emulator", ordinal) not in _implied else None
    return _devices.get(("cuda", ordinal), known)


def _open(kind, ordinal, options):
    """Opens a device. For "auto" without a GPU it may return the emulator that is open already,
    because there is at most one."""
    known = _devices.get(("emulator", ordinal)) if kind == "auto" else None
    if known is None:
        return _core.Device(kind, ordinal, **options)
    try:
        return _core.Device("cuda", ordinal, **options)
    except Unavailable:
        if options:
            raise FailedPrecondition("device: emulator is open already; give options before its "
                                     "first use") from None
        return known


def device_in_use():
    """The device of scopes and figures that name none: the one that has a shared session, because
    functions ran there. It may be the emulator, even if there is a GPU. If no device has a shared
    session, it is device(). If several have one, it is device() if that is among them, else the one
    whose session is the oldest; the log says so once. Threads: any."""
    with _lock:
        used = list(_sessions)
    if len(used) == 1:
        return used[0]
    found = device()
    if not used:
        return found
    found = found if found in used else used[0]
    line = (f"several devices have a session: {', '.join(map(_named, used))}; coppice.session() "
            f"and the functions that show its figures use {_named(found)}, unless you give a "
            'device: coppice.session(coppice.device("emulator"))')
    if line not in _told:
        _told.add(line)
        log.warning("coppice: %s", line)
    return found


def _named(on):
    return f"{on.kind} {on.ordinal}" if on.kind == "cuda" else on.kind


def session(on=None, **options):
    """The session that callables share on a device. The first call makes it, with `options` as in
    coppice.Session.

    on  a coppice.Device; None: the device that has a session, which may be the emulator even if
        there is a GPU. If several have one: device() if it is among them, else the first; the log
        says so. If none has one, or if there are options: device()

    Raises FailedPrecondition if options are given and the session exists. Threads: any."""
    if on is None:
        on = device() if options else device_in_use()
    if not isinstance(on, _core.Device):
        raise InvalidArgument(f"session: {on!r} is not a coppice.Device; give device({on!r})")
    with _lock:
        found = _sessions.get(on)
        if found is None:
            found = _sessions[on] = _core.Session(on, **options)
        elif options:
            raise FailedPrecondition("session: the shared session exists already; give options "
                                     "before its first use, or make a coppice.Session of your own")
        return found


def reset_device(on=None):
    """Resets an emulator (None: that of session()), after a fault has ended all that runs on it.
    Closes its shared session. Everything that was loaded, wrapped, compiled or uploaded before can
    no longer be used.

    Raises FailedPrecondition while other sessions are open or calls are running: close them, and
    call it again. Raises Unimplemented for CUDA, where the process must end. Requires: no other
    thread uses the device."""
    on = on or device_in_use()
    with _lock:
        shared = _sessions.pop(on, None)
    if shared is not None:
        shared.close()
    on._reset()


def find_device(kind, ordinal=0):
    """The shared device, None if it is not open."""
    with _lock:
        return _devices.get((kind, ordinal))


def end_device(on):
    """Resets a shared emulator, which is no longer shared afterwards. When nothing refers to it,
    another can be opened. Raises the errors of reset_device."""
    reset_device(on)
    with _lock:
        _devices.pop((on.kind, on.ordinal))
        _implied.discard((on.kind, on.ordinal))


def share_device(on):
    """Makes an open device the shared one of its kind and ordinal."""
    with _lock:
        _devices[on.kind, on.ordinal] = on


def find_session(on):
    """The shared session of a device, or None if it does not exist yet."""
    with _lock:
        return _sessions.get(on)


def exchange_session(on, session):
    """Makes `session` (None: no session) the shared session of a device. Returns the previous one,
    or None."""
    with _lock:
        before = _sessions.pop(on, None)
        if session is not None:
            _sessions[on] = session
        return before


def follow(user):
    """Registers a user of the shared session. The user moves to another session while that is the
    shared one. `user.move_to(session)` moves it, and returns a function that moves it back."""
    with _lock:
        _followers.add(user)


def followers(session):
    """Users that run on a session because it is the shared one."""
    with _lock:
        return [user for user in _followers if user.session is session]


@contextlib.contextmanager
def replaced_session(on, **options):
    """Inside the scope, the shared session of a device is a new one with these options. What runs
    on the one before moves to the new one, and back; the end of the scope closes the new one."""
    with _core.Session(on, **options) as replacement:
        before = exchange_session(on, replacement)
        try:
            with contextlib.ExitStack() as moved:
                for user in followers(before):
                    moved.callback(user.move_to(replacement))
                yield replacement
        finally:
            # One that another thread's scope ended meanwhile is nobody's session any more.
            exchange_session(on, None if before is None or before.closed else before)


def close_at_exit(hold):
    """Closes a session that has a trace when the process ends, so that the trace is complete."""
    _traced.add(hold)


@atexit.register
def close_traced():
    for hold in list(_traced):
        hold.close()


def sessions():
    """All shared sessions."""
    with _lock:
        return list(_sessions.values())
