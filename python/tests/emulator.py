"""Runs programs of kernel packages by `coppice package run`: as they run in a session, padded to
buckets and replayed, beside a run of each call's own size and runs with poison in the padding.
"""

import json
import pathlib
import subprocess
import tempfile

import numpy as np

SECONDS_MAX = 600


class RunFailure(AssertionError):
    """The command found something, or failed; the text is what it said."""


def run(coppice, package, sets, statics=None, constants=None, seed=1, more=("--poison",)):
    """Of each set of arguments {name: array or integer} the outputs by name, the static inputs as
    they are in the end, and the command's report. Errors: RunFailure."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        command = [coppice, "package", "run", package, "--json", "--device", "host", "--seed",
                   str(seed), "--output-dir", folder / "out", *more]
        command += arguments_of(folder, sets, statics or {})
        command += ["--constants", constants] if constants else []
        done = subprocess.run(command, check=False, text=True, capture_output=True,
                              timeout=SECONDS_MAX)
        if done.returncode != 0:
            raise RunFailure(f"exit code {done.returncode}: {done.stdout[-2000:]}"
                             f"{done.stderr[-2000:]}")
        report = json.loads(done.stdout)
        if report["mismatches"] or report["findings"]:
            raise RunFailure(f"{report['mismatches'][:5]} {report['findings'][:5]}")
        folders = [folder / "out" / str(index + 1) if len(sets) > 1 else folder / "out"
                   for index in range(len(sets))]
        results = [arrays_in(one) for one in folders]
        last = {name: np.load(folder / "out" / f"{name}.npy") for name in statics or {}
                if (folder / "out" / f"{name}.npy").exists()}
        return results, last, report


def arguments_of(folder, sets, statics):
    """Options of the arguments, whose arrays go into files."""
    options = []
    for index, given in enumerate(sets):
        own = folder / f"set_{index}"
        own.mkdir()
        for name, value in given.items():
            if isinstance(value, np.ndarray):
                np.save(own / f"{name}.npy", value)
        options += ["--inputs", own]
    for name, value in sets[0].items():
        if not isinstance(value, np.ndarray):
            options += ["--input", f"{name}={','.join(str(given[name]) for given in sets)}"]
    for name, value in statics.items():
        np.save(folder / f"{name}.npy", value)
        options += ["--static", f"{name}=@{folder / name}.npy"]
    return options


def arrays_in(folder):
    return {path.stem: np.load(path) for path in sorted(folder.glob("*.npy"))}
