"""The device of the process and the session on it, which everything shares that names no other: all
graphs are in one pool.
"""

import atexit
import threading
import weakref

from coppice import _core
from coppice.errors import FailedPrecondition, InvalidArgument

_lock = threading.Lock()
_devices = {}  # By "cuda" or "emulator"; "auto" is one of them.
_sessions = {}  # By the device's kind.
_followers = weakref.WeakSet()  # What runs on the shared session, whichever that is.
_traced = weakref.WeakSet()  # What holds sessions of C whose traces have no end yet.


def device(kind="auto", **options):
    """The process's device: "cuda", "emulator", or "auto", CUDA if it has a device, else the
    emulator. Opened when it is asked for first, with `options` as coppice.Device takes them.

    Raises Unavailable without such a device, FailedPrecondition if it is open and options are
    given. Threads: any."""
    with _lock:
        found = _devices.get(kind)
        if found is None:
            known = _devices.get("emulator") if kind == "auto" else None
            found = known or _core.Device(kind, **options)
            _devices[kind] = _devices[found.kind] = found
        elif options:
            raise FailedPrecondition(f"device: {kind} is open already; give options before its "
                                     "first use")
        return found


def session(on=None, **options):
    """The session that callables share on a device (None: device()). Made when it is asked for
    first, with `options` as coppice.Session takes them.

    Raises FailedPrecondition if there is one and options are given. Threads: any."""
    on = on or device()
    if not isinstance(on, _core.Device):
        raise InvalidArgument(f"session: {on!r} is no coppice.Device; give device({on!r})")
    with _lock:
        found = _sessions.get(on.kind)
        if found is None:
            found = _sessions[on.kind] = _core.Session(on, **options)
        elif options:
            raise FailedPrecondition("session: there is one already; give options before its first "
                                     "use, or make a coppice.Session of your own")
        return found


def reset_device(on=None):
    """Makes an emulator (None: the shared device) as new: after a fault, with which all that runs
    on it ends. Closes the session that is shared on it; what was loaded, wrapped, compiled or
    uploaded before is of no use any more.

    Raises FailedPrecondition while sessions are open that others made, or calls are under way:
    close them, and call it again; Unimplemented for CUDA, where the process has to end. Requires:
    no other thread uses the device."""
    on = on or device()
    with _lock:
        shared = _sessions.pop(on.kind, None) if on is _devices.get(on.kind) else None
    if shared is not None:
        shared.close()
    on._reset()


def find_session(kind):
    """The shared session of a device of this kind, or None if nobody asked for it yet."""
    with _lock:
        return _sessions.get(kind)


def exchange_session(on, session):
    """Makes `session`, None: none, the shared one of a device. Returns the one before, or None."""
    with _lock:
        before = _sessions.pop(on.kind, None)
        if session is not None:
            _sessions[on.kind] = session
        return before


def follow(user):
    """Has what was made on the shared session run on another one while that is the shared one.
    `user.move_to(session)` begins that, and returns a function that ends it."""
    with _lock:
        _followers.add(user)


def followers(session):
    """What runs on a session because it is the shared one."""
    with _lock:
        return [user for user in _followers if user.session is session]


def close_at_exit(hold):
    """Has a session with a trace closed when the process ends, so that its trace has an end."""
    _traced.add(hold)


@atexit.register
def close_traced():
    for hold in list(_traced):
        hold.close()


def sessions():
    """The shared sessions that there are."""
    with _lock:
        return list(_sessions.values())
