#!/usr/bin/env python3
"""Draws programs of PyTorch's operators and compares torch.compile(backend="coppice") with eager:
values, dtypes, shapes, strides, which tensors share storage, what is written, gradients.

    fuzz.py [--from 1] [--programs 100 | --to 5000] [--sizes 4] [--train all|none|some]
            [--time SECONDS] [--out results.tsv] [--no-shrink]
    fuzz.py --seed 17            one program: its source, what became of it, made smaller
    fuzz.py --sum results.tsv    the shares of a run as one, which fuzz.tsv has

A program has the number of its seed, so that a run can be done in shares: --out has a line for each
SHARE programs, and a run continues behind the last line of its file. Programs run one after another
in a process of their own, forked once everything is imported; one that ends it, or never ends, is
an error of its seed, and a new process takes the next. A program that fails is shrunk and printed
as a script. Exits with 1 if one differs silently or raises, unless PyTorch's own compilers
(aot_eager, or Inductor for the CPU) do the same.

    from, to              seeds; `sizes` of each program, twice
    right                 all calls are as eager's
    silent, error         differ without an error; raise
    peers                 of what failed, what a compiler of PyTorch's own does in the same way
    graphs, lifted        forward and backward ones; those that coppice runs
    refused               calls that PyTorch ran in place of a lifted graph
    failed                seeds with kinds of differences, or errors
"""

import argparse
import collections
import csv
import gc
import itertools
import multiprocessing
import pathlib
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import fuzz_run
from fuzz_draw import draw
from fuzz_programs import source
from fuzz_shrink import Shrinker, script

SHARE = 25
COUNTS = ("programs", "right", "silent", "error", "peers", "graphs", "lifted", "refused")
COLUMNS = ("torch", "triton", "train", "sizes", "from", "to", *COUNTS, "failed")
KEY = ("torch", "triton", "train", "sizes")
REASONS_MAX, REASON_MAX = 12, 110
FORK = multiprocessing.get_context("fork")
PER_PROCESS = 250  # Programs; what PyTorch keeps of them goes with it.
SECONDS_MAX = 3600  # Of one program, made smaller: on a busy machine too that is a hang.


class Tally:
    """Counts of programs, and what failed."""

    def __init__(self):
        self.counts, self.failed, self.reasons = collections.Counter(), [], collections.Counter()

    def add(self, seed, outcome):
        self.counts["programs"] += 1
        self.counts["right"] += outcome.kind == "right"
        self.counts["peers"] += bool(outcome.whose)
        if outcome.kind != "right" and not outcome.whose:
            self.counts[outcome.kind] += 1
        for name in ("graphs", "lifted", "refused"):
            self.counts[name] += getattr(outcome, name)
        if outcome.kind != "right":
            by = f"={outcome.whose}" if outcome.whose else ""
            self.failed.append(f"{seed}:{'+'.join(sorted(outcome.classes()))}{by}")
        if outcome.lifted < outcome.graphs:
            self.reasons.update(reason[-REASON_MAX:] for reason in set(outcome.reasons))

    def add_all(self, other):
        self.counts += other.counts
        self.failed += other.failed
        self.reasons += other.reasons


def versions():
    import triton

    return torch.__version__.split("+")[0], triton.__version__


def test(seed, options, shrink):
    """Draws and runs the program of a seed; prints it if it fails. Returns it and its Outcome."""
    program = draw(seed, options.sizes, {"all": True, "none": False, "some": None}[options.train])
    outcome = fuzz_run.run(program)
    if outcome.kind == "right":
        return program, outcome
    outcome.whose = fuzz_run.whose(program, outcome)
    print(f"\nseed {seed}: {outcome}" + (f" (as {outcome.whose})" if outcome.whose else ""),
          flush=True)
    if shrink and not outcome.whose:
        small, its = Shrinker(program, outcome, fuzz_run.run).shrink()
        its.whose = fuzz_run.whose(small, its)
        print(f"seed {seed}, made smaller{f' (as {its.whose})' if its.whose else ''}:\n"
              f"{script(small, its)}", flush=True)
    return program, outcome


class Worker:
    """A process in which programs run one after another. Where it ends is the program's doing that
    ran. `test` gives the seed of a program what became of it."""

    def __init__(self, test):
        self.ours, theirs = FORK.Pipe()
        self.process = FORK.Process(target=self.serve, args=(theirs, test), daemon=True)
        self.process.start()
        theirs.close()
        self.left = PER_PROCESS

    def serve(self, theirs, test):
        self.ours.close()
        gc.freeze()  # What is imported stays; nobody need look at it again.
        while True:
            try:
                seed = theirs.recv()
            except EOFError:
                return
            theirs.send(test(seed))

    def outcome(self, seed, seconds=SECONDS_MAX):
        self.left -= 1
        self.ours.send(seed)
        try:
            if self.ours.poll(seconds):
                return self.ours.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            return self.ended(seed, f"Crash: exit code {self.process.exitcode}")
        return self.ended(seed, f"Hang: more than {seconds} s")

    def ended(self, seed, error):
        self.process.kill()
        self.left = 0
        print(f"\nseed {seed}: {error}", flush=True)
        return fuzz_run.Outcome("error", error=error)

    def close(self):
        self.ours.close()
        self.process.join()


class Workers:
    """One Worker after another, each for so many programs, or until it ends."""

    def __init__(self, test):
        self.test, self.worker = test, None

    def outcome(self, seed, **options):
        if self.worker is None or not self.worker.left:
            self.close()
            self.worker = Worker(self.test)
        return self.worker.outcome(seed, **options)

    def close(self):
        if self.worker is not None:
            self.worker.close()
            self.worker = None


def write(path, options, first, last, tally):
    """Appends a line to a table."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        if new:
            table.writerow(COLUMNS)
        table.writerow([*versions(), options.train, options.sizes, first, last,
                        *(tally.counts[name] for name in COUNTS), " ".join(tally.failed) or "-"])


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def following(options):
    """The seed that a run begins with."""
    if options.out is None or not options.out.exists():
        return options.begin
    return max([options.begin, *(int(line["to"]) + 1 for line in read(options.out))])


def merged(lines):
    """Lines of one run as one line each."""
    for key, group in itertools.groupby(lines, lambda line: [line[name] for name in KEY]):
        group = sorted(group, key=lambda line: int(line["from"]))
        for before, line in itertools.pairwise(group):
            if int(line["from"]) != int(before["to"]) + 1:
                raise SystemExit(f"seeds between {before['to']} and {line['from']} are missing")
        failed = " ".join(line["failed"] for line in group if line["failed"] != "-")
        yield [*key, group[0]["from"], group[-1]["to"],
               *(sum(int(line[name]) for line in group) for name in COUNTS), failed or "-"]


def run_all(options):
    """Runs shares until the seeds, or the time, are used up."""
    total, start = Tally(), time.monotonic()
    workers = Workers(lambda seed: test(seed, options, options.shrink)[1])
    begin = following(options)
    end = options.end if options.end is not None else begin + options.programs - 1
    for first in range(begin, end + 1, SHARE):
        share, last = Tally(), min(first + SHARE - 1, end)
        for seed in range(first, last + 1):
            if options.time and time.monotonic() - start > options.time:
                last = seed - 1
                break
            share.add(seed, workers.outcome(seed))
        total.add_all(share)
        if share.counts["programs"] and options.out is not None:
            write(options.out, options, first, last, share)
        print(f"seeds {begin}..{last}: " + ", ".join(
            f"{total.counts[name]} {name}" for name in COUNTS)
            + f"; {time.monotonic() - start:.0f} s", flush=True)
        if last < first + SHARE - 1:
            break
    workers.close()
    for reason, count in total.reasons.most_common(REASONS_MAX):
        print(f"{count:6} of these have graphs that are not lifted: {reason}")
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="of one program, which is printed")
    parser.add_argument("--from", dest="begin", type=int, default=1, help="the first seed")
    parser.add_argument("--to", dest="end", type=int, help="the last seed")
    parser.add_argument("--programs", type=int, default=100, help="how many, if --to is not given")
    parser.add_argument("--sizes", type=int, default=4, help="of each program")
    parser.add_argument("--train", choices=("all", "none", "some"), default="some")
    parser.add_argument("--time", type=float, help="seconds after which no program begins")
    parser.add_argument("--out", type=pathlib.Path, help="table that lines are added to")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false")
    parser.add_argument("--sum", type=pathlib.Path, help="a table to print as one line")
    options = parser.parse_args()
    if options.sum:
        table = csv.writer(sys.stdout, delimiter="\t", lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(merged(read(options.sum)))
        return 0
    if options.seed is not None:
        program, outcome = test(options.seed, options, options.shrink)
        print(f"{source(program)}\ncalls {program.calls}, train {program.train}: {outcome}")
        return outcome.kind != "right" and not outcome.whose
    total = run_all(options)
    return 1 if total.counts["silent"] or total.counts["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
