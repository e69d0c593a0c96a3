"""Flight recorders: what calls were given, kept as a case, and run again with every check."""

import contextlib
import json
import logging
import pathlib
import tempfile

from coppice import errors
from coppice.devices import device_in_use, replaced_session
from coppice.prof import command

WRONG = 3  # The command's exit code if something is.

log = logging.getLogger("coppice")


class Recording:
    """What `record` gives: `session` is the session that records, and `save` writes a case."""

    def __init__(self, session, path, values):
        self.session = session
        self.path = str(path)
        self._values = values

    def save(self, why="", path=None, *, lane=0):
        """Writes the calls that a lane has kept as a case, and returns its path: `path`, or the one
        that `record` was given. Call it when results look wrong. Works after a fault, too."""
        path = self.path if path is None else str(path)
        self.session.save_case(path, why, lane=lane, values=self._values)
        return path

    def _save_for(self, error):
        try:
            error.case = self.save(str(error))
        except errors.Error as unsaved:
            log.warning("coppice: no case was written for an error: %s", unsaved)
        else:
            error.args = (f"{error}; `coppice replay {error.case}` runs the calls that led to it",)


@contextlib.contextmanager
def record(path, on=None, *, values="keep", ring_bytes=256 << 20, outputs=False,
           static_bytes_max=0, copy_ns_max=0, **options):
    """Inside the scope, the device (None: that of session()) has a new shared session with a flight
    recorder, which keeps what the last calls of each lane were given. If an error of coppice leaves
    the scope, these calls are written to the file `path`, which `error.case` names.

        with coppice.record("fault.coppice-case") as recording:
            serve()
            recording.save("outputs look odd", "odd.coppice-case")
        coppice.replay("fault.coppice-case")    on any machine: which kernel and line is wrong

    values            "keep"; "noise" replaces the values of inputs; "special" does that, but keeps
                      zeros, infinities and NaNs
    ring_bytes        host memory of each lane; when it is full, the oldest calls go
    outputs           whether to keep outputs too, so that a replay can compare them
    static_bytes_max  static inputs of at most so many bytes are kept with each call
    copy_ns_max       mean nanoseconds per call that copies may take; calls that would exceed it are
                      not kept; 0: no limit
    options           other options of coppice.Session

    What was loaded, wrapped or compiled on the shared session runs on the new one, as inside
    coppice.prof.trace. Only programs of packages, so also those of torch.compile, can be run
    again."""
    with replaced_session(on or device_in_use(), recorder_ring_bytes=ring_bytes,
                          recorder_outputs=outputs, recorder_static_bytes_max=static_bytes_max,
                          recorder_copy_ns_max=copy_ns_max, **options) as session:
        recording = Recording(session, path, values)
        try:
            yield recording
        except errors.Error as error:
            recording._save_for(error)
            raise


def replay(path, *, package=None, constants=None, seeds=3, calls=32, shrink=False, write=None,
           buffers=False, taint=False, depends=False):
    """Runs the calls of a case again on an emulator, and says what is wrong: what `coppice replay
    --json` prints, as a dict.

        found = coppice.replay("fault.coppice-case", shrink=True)
        found["kind"], found["kernel"], found["ptx_line"], found["verdict"]

    package, constants  files, if the case does not have them
    seeds, calls        orders of blocks that padded calls run in; last calls that are run
    shrink, write       looks for the smallest case that shows the same, and writes it there
    buffers             whether found["buffers"] has {call: {name: array}}: every buffer of each
                        call, as the call leaves it at its own sizes. bfloat16 comes as uint16.
                        Needs NumPy
    taint               whether found["padding"] says for each padded call how far padding gets:
                        `text`, `reaches_output`, and `first`, the first element and the line
    depends             whether found["depends"] says which copied inputs each output
                        depends on

    Raises InvalidArgument for a file that is no case, or without the command."""
    with tempfile.TemporaryDirectory() as folder:
        options = [("--package", package), ("--constants", constants), ("--output", write),
                   ("--buffers", folder if buffers else None)]
        given = [text for name, value in options if value is not None for text in (name, value)]
        flags = {"--shrink": shrink or write is not None, "--taint": taint, "--depends": depends}
        given += [flag for flag, is_given in flags.items() if is_given]
        try:
            found = json.loads("".join(command.lines(
                "replay", path, "--json", "--seeds", seeds, "--calls", calls, *given,
                verdicts=(WRONG,))))
        except command.Refused as error:
            raise errors.InvalidArgument(f"coppice.replay: {error}") from None
        if buffers:
            found["buffers"] = _arrays_in(pathlib.Path(folder))
    return found


def _arrays_in(folder):
    import numpy as np

    return {int(call.name): {file.stem: np.load(file) for file in sorted(call.glob("*.npy"))}
            for call in folder.iterdir()}
