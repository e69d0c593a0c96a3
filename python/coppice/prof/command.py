"""Runs the command `coppice` and reads its output."""

import pathlib
import shutil
import subprocess

PACKAGE = pathlib.Path(__file__).resolve().parents[1]

# Exit codes, those of the command.
USAGE, OUTPUT, MEMORY = 2, 4, 6


class Refused(Exception):
    """The reason of a failure, in one line, and its exit code."""

    def __init__(self, message, code=USAGE):
        super().__init__(message)
        self.code = code


def find():
    """The command that is installed with the package, or else the one on the PATH."""
    beside = PACKAGE / "coppice"
    found = str(beside) if beside.is_file() else shutil.which("coppice")
    if not found:
        raise Refused(f"the command coppice is neither in {PACKAGE} nor on PATH; install the "
                      "package with pip, or add the folder of the command to PATH")
    return found


def lines(*arguments, verdicts=()):
    """The lines that the command prints, as they come. Raises Refused with its error, unless the
    exit code is one of `verdicts`."""
    with subprocess.Popen([find(), *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, encoding="utf-8",
                          errors="replace") as process:
        yield from process.stdout
        error = process.stderr.read().strip()
    if process.returncode and process.returncode not in verdicts:
        _, _, message = error.partition(": ")  # Behind the command's name.
        raise Refused(message or f"coppice exited with code {process.returncode}; run it by itself",
                      max(process.returncode, USAGE))
