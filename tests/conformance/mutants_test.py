#!/usr/bin/env python3
"""Runs the conformance suite on every wrong driver, where it has to fail, and on the right one.

    mutants_test.py conformance_suite [--seed N] [--only NAME ... | --share N [--draw N]]

Each mutant has to be found by a case of the instance Emulator, and without the help of a strict
emulator, which would report lost order by itself. A crash and a time-out count as found, and are
named. A share of N draws one mutant in N, as COPPICE_TEST_SHARE=N does; --draw repeats a draw.
Prints how many were found, and which took longest. Exit codes: 0 all were found, 1 some were not, 2
wrong arguments.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import os
import random
import signal
import subprocess
import sys
import time

SECONDS_MAX = 60  # Far above what a run takes, on a busy machine too.
AT_ONCE = 2
LINES_MAX = 40
ARGUMENTS = ["--driver=emulator", "--strict=off", "--gtest_fail_fast", "--gtest_brief=1"]
INSTANCE = "--gtest_filter=*/Emulator"


@dataclasses.dataclass
class Run:
    """What the suite said about one driver."""

    name: str
    outcome: str  # "green", "red", "usage", "crash" or "time-out".
    seconds: float
    output: str


def run(suite, name, arguments):
    """Runs the suite once, and ends what it leaves; `name` is for the report."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [suite, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS_MAX)
        outcomes = {0: "green", 1: "red", 2: "usage"}
        outcome = outcomes.get(process.returncode, "crash")
    except subprocess.TimeoutExpired:
        outcome = "time-out"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if outcome == "time-out":
        output, _ = process.communicate()
    return Run(name, outcome, time.monotonic() - begin, output)


def list_mutants(suite):
    """The names of the mutants, in the suite's order; ValueError if it tells none."""
    listed = run(suite, "the list", ["--list-mutants"])
    if listed.outcome != "green" or not listed.output:
        raise ValueError(f"--list-mutants is {listed.outcome} and prints {listed.output!r}")
    return [line.split("\t")[0] for line in listed.output.splitlines()]


def seed(text):
    """A seed as the suite takes it."""
    if not (text.isascii() and text.isdecimal() and int(text) < 1 << 64):
        raise argparse.ArgumentTypeError(f"{text!r} is no decimal number below 2^64")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", help="the program conformance_suite")
    parser.add_argument("--seed", type=seed, default="24301", help="of the emulator's order")
    parser.add_argument("--only", nargs="+", help="the mutants to run")
    parser.add_argument("--share", type=int, default=os.environ.get("COPPICE_TEST_SHARE", "1"),
                        help="run one mutant in so many")
    parser.add_argument("--draw", type=int, default=random.randrange(1 << 32),
                        help="which of them, as printed")
    options = parser.parse_args()
    if options.share < 1:
        parser.error("a share is at least 1")
    os.environ["COPPICE_TEST_SEED"] = options.seed

    suite = os.path.abspath(options.suite)
    try:
        names = list_mutants(suite)
    except (OSError, ValueError) as error:
        parser.error(f"{suite} is no conformance suite: {error}")
    unknown = sorted(set(options.only or []) - set(names))
    if unknown:
        parser.error(f"no mutant has the name {', '.join(unknown)}")
    twice = [name for name, count in collections.Counter(names).items() if count > 1]
    problems = [f"two mutants have the name {name}" for name in twice]

    right = run(suite, "the right driver", ARGUMENTS)
    if right.outcome != "green":
        print(f"FAILED: the suite is {right.outcome} without a mutant, so that no mutant can tell:")
        lines = [line for line in right.output.splitlines() if line and "Skipped" not in line]
        print("\n".join(lines[:LINES_MAX]))
        return 1

    chosen = [name for name in names if not options.only or name in options.only]
    if options.share > 1 and not options.only:
        chosen = random.Random(options.draw).sample(chosen, -(-len(chosen) // options.share))
        print(f"--draw {options.draw}")
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        runs = list(
            pool.map(
                lambda name: run(
                    suite, name, [*ARGUMENTS, INSTANCE, f"--mutant={name}"]
                ),
                chosen,
            )
        )
    missed = [mutant for mutant in runs if mutant.outcome in ("green", "usage")]
    problems += [f"{each.name}: the suite does not notice ({each.outcome})" for each in missed]
    for mutant in runs:
        if mutant.outcome in ("crash", "time-out"):
            print(f"{mutant.name}: noticed by a {mutant.outcome}")
    slowest = sorted(runs, key=lambda mutant: -mutant.seconds)[:3]
    print(f"{len(runs)} mutants, {len(runs) - len(missed)} found")
    print("slowest:", ", ".join(f"{mutant.name} {mutant.seconds:.1f} s" for mutant in slowest))
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
