#!/usr/bin/env python3
"""Draws programs of PyTorch's operators and compares torch.compile(backend="coppice") with eager:
values, dtypes, shapes, strides, which tensors share storage, what is written, gradients.

    fuzz.py [--from 1] [--programs 100 | --to 5000] [--sizes 4] [--train all|none|some]
            [--time SECONDS] [--out results.tsv] [--no-shrink]
    fuzz.py --seed 17            one program: its source, what became of it, made smaller
    fuzz.py --sum results.tsv    the shares of a run as one, which fuzz.tsv has

A program has the number of its seed, so that a run can be done in shares: --out has a line for each
SHARE programs, and a run continues behind the last line of its file. A program that fails is shrunk
and printed as a script. Exits with 1 if one differs silently or raises, unless PyTorch's own
compilers (aot_eager, or Inductor for the CPU) do the same.

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
import itertools
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


class Tally:
    """Counts of programs, and what failed."""

    def __init__(self):
        self.counts, self.failed, self.reasons = collections.Counter(), [], collections.Counter()

    def add(self, program, outcome):
        self.counts["programs"] += 1
        self.counts["right"] += outcome.kind == "right"
        self.counts["peers"] += bool(outcome.whose)
        if outcome.kind != "right" and not outcome.whose:
            self.counts[outcome.kind] += 1
        for name in ("graphs", "lifted", "refused"):
            self.counts[name] += getattr(outcome, name)
        if outcome.kind != "right":
            by = f"={outcome.whose}" if outcome.whose else ""
            self.failed.append(f"{program.seed}:{'+'.join(sorted(outcome.classes()))}{by}")
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
    begin = following(options)
    end = options.end if options.end is not None else begin + options.programs - 1
    for first in range(begin, end + 1, SHARE):
        share, last = Tally(), min(first + SHARE - 1, end)
        for seed in range(first, last + 1):
            if options.time and time.monotonic() - start > options.time:
                last = seed - 1
                break
            share.add(*test(seed, options, options.shrink))
        total.add_all(share)
        if share.counts["programs"] and options.out is not None:
            write(options.out, options, first, last, share)
        print(f"seeds {begin}..{last}: " + ", ".join(
            f"{total.counts[name]} {name}" for name in COUNTS)
            + f"; {time.monotonic() - start:.0f} s", flush=True)
        if last < first + SHARE - 1:
            break
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
