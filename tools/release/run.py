"""Commands whose output goes into a log, and which say where it failed."""

import os
import pathlib
import subprocess

from tree import ReleaseError

TAIL_LINES = 12


def run(command, log, **options):
    """Runs a command; ReleaseError with the end of its output if it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [str(word) for word in command]
    with open(log, "w", encoding="utf-8") as output:
        try:
            code = subprocess.run(words, stdout=output, stderr=subprocess.STDOUT, check=False,
                                  **options).returncode
        except OSError as error:
            raise ReleaseError(f"{words[0]}: {error.strerror}; install it") from error
    if code != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        raise ReleaseError("\n".join([f"{' '.join(words)}\n  ends with {code}; {log} ends with:",
                                      *lines[-TAIL_LINES:]]))


def ask(command, **options):
    """The output of a command that has to succeed."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    except OSError as error:
        raise ReleaseError(f"{words[0]}: {error.strerror}; install it") from error
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(words)}\n  ends with {done.returncode}: "
                           f"{done.stderr.strip()[-2000:]}")
    return done.stdout


def with_programs_of(environment):
    """The variables of this process, with the programs of a virtual environment before others."""
    programs = pathlib.Path(environment, "bin")
    return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
