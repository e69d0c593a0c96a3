#!/usr/bin/env python3
"""Runs the operators that PyTorch's own tests know (torch.testing's OpInfo: each with samples of
its arguments) by torch.compile(backend="coppice"), and compares with eager: values, dtypes, shapes,
strides, what is written, gradients.

    opinfo.py [NAME ...] [--from 0] [--to N] [--samples 3] [--seed 1] [--dtype float32]
              [--out results.tsv]

NAME may have "*". An operator runs with a few of its samples, drawn by its name and the seed; of
every second one the gradients are compared, too. Each sample is called three times with new
tensors, so that the last call replays. Operators run one after another in processes of their own,
as the programs of fuzz.py. Exits with 1 if a sample differs silently or raises, unless PyTorch's
own compilers (aot_eager, or Inductor for the CPU) do the same.

Results are compared in shape, dtype and strides alone where eager's own differ from run to run:
those of random operators, and of memory that nobody wrote.
"""

import argparse
import csv
import fnmatch
import pathlib
import random
import sys
import warnings

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
warnings.filterwarnings("ignore")

from torch.testing._internal.common_methods_invocations import op_db

import coppice.torch
import fuzz
import fuzz_run
from fuzz_compare import Done, compare
from fuzz_operators import BITS
from fuzz_run import Outcome

CALLS = 3
DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
LEVELS = {torch.float16: 4, torch.bfloat16: 5}  # Of fuzz_compare; other floats have FLOATS.
FLOATS = 3
COLUMNS = ("operator", "dtype", "left out", "samples", "right", "silent", "error", "peers",
           "graphs", "lifted", "refused", "failed")
COUNTS = COLUMNS[2:-1]


def name_of(operator):
    return operator.name + (f".{operator.variant_test_name}" if operator.variant_test_name else "")


def dtype_of(operator, dtypes=DTYPES):
    """The first that it takes; None: it takes none."""
    return next((dtype for dtype in dtypes if dtype in operator.dtypes), None)


def fresh(value):
    """A copy of a tensor, with its strides; of anything else, itself."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone(memory_format=torch.preserve_format).requires_grad_(
        value.requires_grad)


class Trial:
    """A sample of an operator, which each call gets anew."""

    def __init__(self, operator, sample, differentiates):
        self.operator, self.differentiates = operator.op, differentiates
        self.writes = "empty" not in operator.name  # All of its results.
        self.right, self.is_steady = None, False
        self.sample = (sample.input, tuple(sample.args), dict(sample.kwargs))

    def tensors(self, arguments):
        leaves = torch.utils._pytree.tree_leaves(arguments)
        return {f"argument {index}": value for index, value in enumerate(leaves)
                if isinstance(value, torch.Tensor)}

    def call(self, function, seed):
        """The Done of a call of `function`, which is the operator or its compiled form."""
        first, others, named = torch.utils._pytree.tree_map(fresh, self.sample)
        given = self.tensors((first, others, named))
        torch.manual_seed(seed)
        with torch.set_grad_enabled(self.differentiates):
            results = function(first, *others, **named)
        results = dict(enumerate(torch.utils._pytree.tree_leaves(results)))
        done = Done(given, {f"result {index}": value for index, value in results.items()}, {})
        if self.differentiates:
            self.backward(done)
        return done

    def run_eagerly(self):
        """What is right, and whether values are the same in another run."""
        self.right = self.call(self.operator, 1)
        self.is_steady = self.writes and steady(self.right, self.call(self.operator, 2))

    def backward(self, done):
        wanted = [value for value in done.results.values()
                  if isinstance(value, torch.Tensor) and value.requires_grad]
        leaves = {place: value for place, value in done.given.items() if value.requires_grad}
        found = torch.autograd.grad(wanted, list(leaves.values()), list(map(
            fuzz_run.weights, wanted)), allow_unused=True) if wanted else [None] * len(leaves)
        done.gradients = {f"gradient of {place}": value for place, value in zip(leaves, found)}

    def compiled(self, backend):
        torch._dynamo.reset()
        operator = self.operator

        def program(first, *others, **named):
            return operator(first, *others, **named)

        return torch.compile(program, backend=coppice.torch.backend if backend == "coppice" else
                             backend, dynamic=True)


def levels(done):
    def level(value):
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
            return LEVELS.get(value.dtype, FLOATS)
        return BITS

    values = {**done.given, **done.results, **done.gradients}
    return {place: level(value) for place, value in values.items()}


def steady(one, other):
    """Whether two of eager's own runs have the same values."""
    return not compare(one, other, levels(one))


def difference(got, right, values):
    if list(got.results) != list(right.results):
        return [fuzz_run.Difference("count", "results", f"{len(got.results)}, not "
                                    f"{len(right.results)}")]
    found = compare(got, right, levels(right))
    return [one for one in found if values or one.kind not in ("value", "written")]


def run(trial, backend="coppice"):
    """The Outcome of a sample. Requires: eager has run."""
    outcome, function = Outcome("right"), trial.compiled(backend)
    for number in range(CALLS):
        try:
            got = trial.call(function, 1)
        except Exception as error:  # Whatever it is, it is counted and shown.
            outcome.kind, outcome.call = "error", number
            outcome.error = fuzz_run.first_line(error)
            break
        outcome.differences = difference(got, trial.right, trial.is_steady)
        if outcome.differences:
            outcome.kind, outcome.call = "silent", number
            break
    if backend == "coppice":
        fuzz_run.note_reports(outcome, function)
        if outcome.kind == "error":
            coppice.reset_device()
    return outcome


def trials(operator, options):
    """(number of a sample, its Trial), as they were drawn."""
    source = random.Random(f"{name_of(operator)} {options.seed}")
    dtype = dtype_of(operator, options.dtypes)
    differentiates = operator.supports_autograd and dtype.is_floating_point and (
        source.random() < 0.5)
    torch.manual_seed(options.seed)
    samples = list(operator.sample_inputs("cpu", dtype, requires_grad=differentiates))
    numbers = sorted(source.sample(range(len(samples)), min(options.samples, len(samples))))
    return [(number, Trial(operator, samples[number], differentiates)) for number in numbers]


def test(operator, options):
    """The line of an operator: its counts, and what failed."""
    counts, failed = dict.fromkeys(COUNTS, 0), []
    for number, trial in trials(operator, options):
        try:
            trial.run_eagerly()
        except Exception as error:
            counts["left out"] += 1
            print(f"{name_of(operator)} {number}: eager raises {fuzz_run.first_line(error)}",
                  flush=True)
            continue
        outcome = run(trial)
        counts["samples"] += 1
        for name in ("graphs", "lifted", "refused"):
            counts[name] += getattr(outcome, name)
        if outcome.kind == "right":
            counts["right"] += 1
            continue
        outcome.whose = fuzz_run.whose(trial, outcome, run)
        counts["peers" if outcome.whose else outcome.kind] += 1
        by = f"={outcome.whose}" if outcome.whose else ""
        failed.append(f"{number}:{'+'.join(sorted(outcome.classes()))}{by}")
        print(f"{name_of(operator)} {number}: {outcome}" + (
            f" (as {outcome.whose})" if outcome.whose else ""), flush=True)
    return counts, failed


def line(operator, found, dtypes):
    """`found` is what test() gave, or the Outcome of a process that ended."""
    if isinstance(found, Outcome):
        found = {**dict.fromkeys(COUNTS, 0), "samples": 1, "error": 1}, [found.error]
    counts, failed = found
    return [name_of(operator), str(dtype_of(operator, dtypes)).removeprefix("torch."),
            *(counts[name] for name in COUNTS), " ".join(failed) or "-"]


def chosen(options):
    operators = [operator for operator in op_db if dtype_of(operator, options.dtypes)]
    if options.names:
        return [operator for operator in operators if any(
            fnmatch.fnmatchcase(name_of(operator), name) for name in options.names)]
    return operators[options.begin:options.end]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="of operators; default all")
    parser.add_argument("--from", dest="begin", type=int, default=0, help="the first, by number")
    parser.add_argument("--to", dest="end", type=int, help="the last is before this one")
    parser.add_argument("--samples", type=int, default=3, help="of each operator")
    parser.add_argument("--seed", type=int, default=1, help="of samples")
    parser.add_argument("--out", type=pathlib.Path, help="table that lines are added to")
    parser.add_argument("--dtype", dest="dtypes", type=lambda name: (getattr(torch, name),),
                        default=DTYPES, help="of the samples; default: the first of float32, "
                        "int64, bool and complex64 that the operator takes")
    options = parser.parse_args()
    operators, workers = chosen(options), fuzz.Workers(
        lambda number: test(operators[number], options))
    lines = []
    for number, operator in enumerate(operators):
        lines.append(line(operator, workers.outcome(number), options.dtypes))
        if options.out is not None:
            new = not options.out.exists()
            with options.out.open("a", newline="") as file:
                table = csv.writer(file, delimiter="\t", lineterminator="\n")
                table.writerows(([COLUMNS] if new else []) + lines[-1:])
    workers.close()
    totals = {name: sum(each[COLUMNS.index(name)] for each in lines) for name in COUNTS}
    print(f"{len(lines)} operators: " + ", ".join(f"{value} {name}"
                                                  for name, value in totals.items()))
    return 1 if totals["silent"] or totals["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
