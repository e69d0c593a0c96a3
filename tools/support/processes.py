"""Processes with a time limit, of which nothing is left behind.

The limit is kept whatever the process does, and with all that it has started.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

GRACE_S = 5  # From the request to end until the order; a shorter limit has a quarter of it.
POLL_S = 0.05
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Budget:
    """The time that is left. Inside `with`, a signal ends it and raises nothing."""

    def __init__(self, limit_s):
        self.interrupted = ""  # Why it ended early, else empty.
        self.restart(limit_s)

    def restart(self, limit_s):
        """Gives it so much time from here on; a signal that has ended it is not forgotten."""
        self.start = time.monotonic()
        self.deadline = self.start + limit_s

    def __enter__(self):
        # What is ignored stays so: nohup asks for it.
        self.before = {number: signal.signal(number, self.interrupt) for number in SIGNALS
                       if signal.getsignal(number) != signal.SIG_IGN}
        return self

    def __exit__(self, *_):
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def interrupt(self, number, _):
        self.interrupted = f"interrupted by {signal.Signals(number).name}"

    def left_s(self):
        return 0 if self.interrupted else self.deadline - time.monotonic()

    def spent_s(self):
        return round(time.monotonic() - self.start, 1)


def members(session):
    """The living processes of a session; ninja gives each of its own a process group."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # It has ended since.
            state, _, _, its_session = path.read_bytes().rsplit(b")", 1)[1].split()[:4]
            if int(its_session) == session and state != b"Z":
                found.append(int(path.parent.name))
    return found


def finish(process, grace_s):
    """Ends the process, the leader of a session, and what it started there."""
    for what, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, GRACE_S)):
        deadline = time.monotonic() + wait_s
        for pid in members(process.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):  # Ended, or setuid.
                os.kill(pid, what)
        while members(process.pid) and time.monotonic() < deadline:
            time.sleep(POLL_S)
    with contextlib.suppress(subprocess.TimeoutExpired):  # What hangs inside a driver stays.
        process.wait(GRACE_S)


def run_process(command, limit_s, budget, **options):
    """Runs a process and ends what it leaves; returns its exit code, or None and why it was ended.

    The limit includes the time that it is given to end.
    """
    grace_s = min(GRACE_S, limit_s / 4)
    deadline = time.monotonic() + limit_s - grace_s
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
    try:
        while process.poll() is None and time.monotonic() < deadline and not budget.interrupted:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL_S)
        code = process.poll()
    finally:
        finish(process, grace_s)
    ended = budget.interrupted or f"ended after its limit of {limit_s:.0f} s"
    return (code, "") if code is not None else (None, ended)
