#!/usr/bin/env python3
"""Runs the tests of Python, each file in a process of its own, two at a time.

    run_tests.py COPPICE [FILE...]

COPPICE is the command, as build/release/tools/coppice; without FILEs all of this folder run. What a
file printed is shown if it failed. Exits with 1 if one did, or skipped all that it has.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
AT_ONCE = 2
SECONDS_MAX = 1500  # Of one file.
# Their first argument.
WITH_COMMAND = ("cases_test.py", "core_devices_test.py", "fit_test.py", "torch_export_test.py",
                "triton_export_test.py", "prof_export_test.py", "prof_import_test.py",
                "pages_test.py", "whatif_test.py")
# Those that take longest begin first.
FIRST = ("backend_test.py", "torch_export_test.py", "dashboard_test.py")


def run(path, coppice):
    """Whether a file passed, how many tests it ran, what it printed, and its seconds."""
    start = time.monotonic()
    arguments = [coppice] if path.name in WITH_COMMAND else []
    done = subprocess.run([sys.executable, "-B", path, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=SECONDS_MAX,
                          env={"OMP_NUM_THREADS": "1", **os.environ})
    counts = [int(count) for count in re.findall(r"^Ran (\d+) tests? in|skipped=(\d+)",
                                                 done.stdout, re.M) for count in count if count]
    ran, skipped = (*counts, 0, 0)[:2]
    passed = done.returncode == 0 and ran > skipped
    return passed, ran - skipped, done.stdout, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("coppice", metavar="COPPICE", help="the command")
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    files = options.files or sorted(
        HERE.glob("*_test.py"), key=lambda path: (path.name not in FIRST, path.name))
    count, failed = 0, []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(run, path, options.coppice): path for path in files}
        for done in concurrent.futures.as_completed(running):
            path, (passed, ran, printed, seconds) = running[done], done.result()
            print(f"{path.name}: {ran} tests, {'passed' if passed else 'FAILED'}, "
                  f"{seconds:.0f} s", flush=True)
            if passed:
                count += ran
            else:
                failed.append(path.name)
                print(printed, flush=True)
    print(f"{count} passed, {len(failed)} failed")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
