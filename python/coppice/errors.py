"""The errors that coppice raises: one class per status of coppice.h, each with the library's
message."""

import contextlib
import sys
import warnings

# CUresults by which a kernel ends its device: accesses, assertions, deadlocks, traps.
FAULTS = (700, 702, 710, 715, 716, 719)
CAPTURE_BROKEN = (900, 901)  # By a call that a capture forbids; by an earlier one.
FORKED = 3  # Of every call of a process that was forked from one with a device.


class Error(RuntimeError):
    """Any error of coppice. `driver_result` is the CUresult that caused it, 0 if none did. After a
    kernel fault on the emulator the message names kernel, thread and line. If the error has left
    the scope of coppice.record, `case` is the file of what led to it."""

    case = None

    def __init__(self, message, driver_result=0):
        super().__init__(f"{message}{place_of(driver_result)}")
        self.driver_result = driver_result


def place_of(driver_result):
    """A text that says where the emulator found a fault, and what to do."""
    if driver_result not in FAULTS:
        return ""
    emulator = getattr(sys.modules.get("coppice.devices"), "_devices", {}).get(("emulator", 0))
    found = emulator.findings() if emulator is not None else []
    if not found:
        return "; the device is lost: end the process. On the emulator, see Device.findings()"
    return (f": {found[-1]}. The device is lost: call coppice.reset_device(), then load, wrap or "
            "compile everything on it again")


@contextlib.contextmanager
def after_faults():
    """Inside the scope, errors of a device that a fault has ended are ignored, because its objects
    are gone. So are errors in a forked child, because the objects belong to the parent."""
    try:
        yield
    except Error as error:
        if error.driver_result not in (*FAULTS, FORKED):
            raise


def split_findings(found):
    """Splits findings into errors and warnings. A warning is about copies of one value that a
    compiler has rounded differently, so that chance decides the last bit."""
    warns = [finding for finding in found if finding.startswith("replicas differ: ")]
    return [finding for finding in found if finding not in warns], warns


def raise_findings(device, since):
    """Raises Error if an emulator has findings after `since`, an earlier finding_count() of it."""
    found, warns = split_findings(device.findings(since))
    for finding in warns:
        warnings.warn(f"the emulator found {finding}", stacklevel=3)
    if found:
        more = f"; and {len(found) - 4} more" if len(found) > 4 else ""
        raise Error(f"the emulator found {'; '.join(found[:4])}{more}")


class InvalidArgument(Error, ValueError):
    """An argument that can never be right."""


class OutOfRange(Error, ValueError):
    """A size beyond a configured limit."""


class FailedPrecondition(Error):
    """A call that is not allowed at this moment: the session is closed, or the stance allows only
    replays and there is no graph."""


class StaleOutput(FailedPrecondition):
    """An output that was written over, or whose session is gone, before it was read."""


class ResourceExhausted(Error, MemoryError):
    """No memory of the device, no room in a budget, or no memory of the host."""


class NotFound(Error, LookupError):
    """Nothing has that name."""


class Unavailable(Error):
    """No driver, or no device."""


class Unimplemented(Error, NotImplementedError):
    """Something that the driver, or this version of coppice, cannot do."""


class Aborted(Error):
    """A capture was broken; the call may be tried again."""


class PermissionDenied(Error):
    """A file that may not be read or written, or a package that no trusted key signed."""


class AlreadyExists(Error):
    """A name that is taken."""


class Internal(Error):
    """A driver error that no other class covers, or a defect of coppice."""


class Unknown(Error):
    """An error that a function of the caller reported."""
