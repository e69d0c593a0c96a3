#!/usr/bin/env python3
"""Runs the tests of Python, each file in a process of its own, two at a time.

    run_tests.py COPPICE [FILE...]

COPPICE is the command, as build/release/tools/coppice; without FILEs all of this folder run. What a
file printed is shown if it failed. Exits with 1 if one did, or skipped all that it has.

PyTorch is imported once, which takes as long as many files: those that name it run in forks of this
process.
"""

import argparse
import contextlib
import faulthandler
import os
import pathlib
import re
import runpy
import signal
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
AT_ONCE = 2
SECONDS_MAX = 1500  # Of one file.
# Their first argument.
WITH_COMMAND = ("cases_test.py", "core_devices_test.py", "fit_test.py", "torch_export_test.py",
                "triton_export_test.py", "prof_export_test.py", "prof_import_test.py",
                "prof_timeline_test.py", "pages_test.py", "whatif_test.py")
# Those that take longest begin first.
FIRST = ("backend_test.py", "torch_export_test.py", "dashboard_test.py")


def import_pytorch():
    """What the tests import of it, where it is installed. Compilers start no processes."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    with contextlib.suppress(ImportError):
        import torch
        import torch._dynamo
        import torch._inductor.compile_fx


def start(path, coppice):
    """Starts the process of a file: its number, and what it will have printed."""
    printed = tempfile.TemporaryFile("w+")
    arguments = [str(path), *([coppice] if path.name in WITH_COMMAND else [])]
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child, printed
    os.setpgid(0, 0)
    os.dup2(printed.fileno(), 1)
    os.dup2(printed.fileno(), 2)
    signal.alarm(SECONDS_MAX)
    if not re.search(r"^ *(import|from) .*\btorch\b", path.read_text(), re.M):
        os.execv(sys.executable, [sys.executable, "-B", *arguments])
    faulthandler.register(signal.SIGALRM, chain=True)
    sys.argv = arguments
    sys.path[0] = str(path.parent)
    runpy.run_path(str(path), run_name="__main__")
    sys.exit(0)


def end(*children):
    """Kills processes of files, and what they have started."""
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


def judge(status, printed):
    """Whether a file passed, how many tests it ran, and what it printed."""
    printed.seek(0)
    text = printed.read()
    counts = [int(count) for count in re.findall(r"^Ran (\d+) tests? in|skipped=(\d+)", text, re.M)
              for count in count if count]
    ran, skipped = (*counts, 0, 0)[:2]
    return status == 0 and ran > skipped, ran - skipped, text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("coppice", metavar="COPPICE", help="the command")
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    waiting = [path.resolve() for path in options.files] or sorted(
        HERE.glob("*_test.py"), key=lambda path: (path.name not in FIRST, path.name))
    sys.dont_write_bytecode = True
    import_pytorch()
    count, failed, running = 0, [], {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            path = waiting.pop(0)
            child, printed = start(path, options.coppice)
            running[child] = path, printed, time.monotonic()
        try:
            child, status = os.wait()
        except KeyboardInterrupt:
            end(*running)
            raise
        end(child)  # What it has left.
        path, printed, begin = running.pop(child)
        passed, ran, text = judge(status, printed)
        ended = "passed" if passed else f"FAILED with {os.waitstatus_to_exitcode(status)}"
        print(f"{path.name}: {ran} tests, {ended}, {time.monotonic() - begin:.0f} s", flush=True)
        if passed:
            count += ran
        else:
            failed.append(path.name)
            print(text, flush=True)
    print(f"{count} passed, {len(failed)} failed")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
