"""The Pythons of this machine, and virtual environments of the release's own."""

import os
import pathlib
import shutil
import subprocess

from run import run
from tree import ReleaseError

OLDEST = (3, 10)  # requires-python of pyproject.toml.
STABLE = (3, 12)  # The oldest whose stable ABI nanobind can use.
NEWEST_LOOKED_FOR = 19  # Minor version.
REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")


def release_of(python):
    """(major, minor) of an interpreter of CPython that has venv and headers; None of another."""
    asked = ("import sys, sysconfig, pathlib, venv, ensurepip; "
             "print(sys.implementation.name, *sys.version_info[:2], "
             "pathlib.Path(sysconfig.get_path('include'), 'Python.h').is_file())")
    try:
        told = subprocess.run([str(python), "-c", asked], capture_output=True, text=True,
                              check=False).stdout.split()
    except OSError:
        return None  # It is for another machine, or no program.
    if len(told) != 4 or told[0] != "cpython" or told[3] != "True":
        return None
    return int(told[1]), int(told[2])


def candidates():
    """Paths that may be interpreters: on the PATH, and those that pyenv has."""
    for minor in range(OLDEST[1], NEWEST_LOOKED_FOR + 1):
        found = shutil.which(f"python3.{minor}")
        if found:
            yield pathlib.Path(found)
    root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    yield from sorted(root.glob("versions/*/bin/python3"))


def find(paths=None):
    """{(major, minor): path} of the given interpreters, or of those that are found."""
    found = {}
    for path in paths or candidates():
        release = release_of(path)
        if release is None and paths:
            raise ReleaseError(f"--python {path}: give a CPython that has venv and its headers")
        if release is not None and release >= OLDEST:
            found.setdefault(release, path)
    return found


def that_build(found):
    """Those that build a wheel: each below 3.12, and one for the stable ABI from there on."""
    stable = [release for release in sorted(found) if release >= STABLE]
    return [release for release in sorted(found) if release < STABLE] + stable[:1]


def tag(release):
    return f"cp{release[0]}{release[1]}"


def make_environment(python, folder, log):
    """A virtual environment with what requirements.txt pins; made anew where the pins changed."""
    mark = folder / "requirements.txt"
    wanted = REQUIREMENTS.read_text()
    if not mark.is_file() or mark.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        run([python, "-m", "venv", folder], log)
        run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS], log)
        mark.write_text(wanted)
    return folder
