#!/usr/bin/env python3
"""Goal: torch.compile(backend="coppice") does what eager PyTorch does for the operators that
PyTorch's own tests know, and what compares them finds what it has to. Method: operators are drawn
and run as opinfo.py does; faults are planted in what a compiled operator returns.

    opinfo_test.py [unittest's options]

COPPICE_TEST_SEED draws other operators; they are always the same without it, because PyTorch has
faults of its own. Without torch, expecttest or the extension, all is skipped.
"""

import argparse
import os
import pathlib
import random
import sys
import types
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
SEED = int(os.environ.get("COPPICE_TEST_SEED") or 1)
OPERATORS, SAMPLES = (60, 3) if os.environ.get("COPPICE_TEST_SHARE", "1") == "1" else (12, 2)

try:
    import torch

    import opinfo
except ImportError:
    torch = None


def options(*names, samples=SAMPLES, seed=1):
    return argparse.Namespace(names=names, begin=0, end=None, samples=samples, seed=seed,
                              dtypes=opinfo.DTYPES)


def trial(name, **more):
    """That with the largest first argument."""
    given = options(name, samples=100, **more)
    trials = opinfo.trials(opinfo.chosen(given)[0], given)
    return max((one for _, one in trials), key=lambda one: one.sample[0].numel() if isinstance(
        one.sample[0], torch.Tensor) else 0)


@unittest.skipUnless(torch, "there is no torch, no expecttest, or no extension")
class OpInfoTest(unittest.TestCase):
    def check(self, *names, **more):
        given = options(*names, **more)
        chosen = opinfo.chosen(given)
        compared = []
        for operator in chosen:
            with self.subTest(operator=opinfo.name_of(operator), seed=given.seed):
                counts, failed = opinfo.test(operator, given)
                self.assertEqual((0, 0), (counts["silent"], counts["error"]), failed)
                self.assertEqual(counts["samples"], counts["right"] + counts["peers"])
                compared.append(counts["samples"])
        self.assertGreater(sum(compared), len(chosen) // 2)

    def test_drawn_operators_are_as_eagers(self):
        names = sorted({opinfo.name_of(one) for one in opinfo.chosen(options())})
        drawn = random.Random(SEED).sample(names, OPERATORS)
        self.check(*drawn, seed=SEED)

    def test_a_factor_that_varies_is_no_error(self):
        self.check("addmm.decomposed", samples=4)

    def found(self, one, tamper):
        """Kinds of differences that a tampered operator has."""
        def compiled(self, backend):
            return lambda *arguments, **named: tamper(self.operator(*arguments, **named))

        one.run_eagerly()
        with mock.patch.object(opinfo.Trial, "compiled", compiled), mock.patch.object(
                opinfo.fuzz_run, "note_reports"):
            outcome = opinfo.run(one)
        return outcome.classes() if outcome.kind != "right" else set()

    def test_planted_faults_are_found(self):
        one = trial("mul")
        for tamper, kinds in (
                (lambda result: result, set()),
                (lambda result: result + 1e-2, {"value"}),
                (lambda result: result.double(), {"dtype"}),
                (lambda result: result[None], {"shape"}),
                (lambda result: (result, result), {"count"})):
            self.assertEqual(kinds, self.found(one, tamper))

        def fail(result):
            raise RuntimeError("no")

        self.assertEqual({"RuntimeError"}, self.found(one, fail))

    def test_a_wrong_gradient_is_found(self):
        one = next(one for seed in range(1, 20) for one in [trial("sin", seed=seed)]
                   if one.differentiates)
        self.assertEqual(set(), self.found(one, lambda result: result))
        self.assertEqual({"value"}, self.found(one, lambda result: result.detach() + (
            2 * result - 2 * result.detach())))

    def test_random_operators_are_held_to_their_shapes(self):
        # PyTorch's own samples of random operators set a seed.
        one = opinfo.Trial(types.SimpleNamespace(op=torch.rand_like, name="rand_like"),
                           types.SimpleNamespace(input=torch.ones(9), args=(), kwargs={}), False)
        self.assertEqual(set(), self.found(one, lambda result: 1 - result))
        self.assertEqual({"shape"}, self.found(one, lambda result: result[None]))
        self.assertEqual(set(), self.found(trial("empty"), lambda result: result + 1))


if __name__ == "__main__":
    unittest.main()
