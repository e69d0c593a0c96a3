"""What graph_behaviours_*_test.py share: PyTorch's tests of its CUDA graphs as behaviours, asked of
`torch.compile(backend=coppice.torch.backend)` on the emulator. GRAPH_BEHAVIOURS.md says which of
PyTorch's tests each of them answers.

Observed are results, arguments and gradients, which are eager's; how each graph of a call ran, from
the counts of the session; and what the session, its memory and the reports say. Behind each test
functions go, and no program of theirs may be left.

COPPICE_TEST_SHARE=ci in the environment runs the tests alone that a class names in IN_CI.
COPPICE_TEST_SEED repeats the numbers.
"""

import contextlib
import copy
import gc
import logging
import os
import pathlib
import random
import sys
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
TOLERANCE = 1e-5

try:
    import torch

    import coppice.torch
    from coppice import devices
    from coppice.torch import session as shared
except ImportError:
    torch = None

# What falls back is asked for where it matters; elsewhere the log is of no use.
for name in ("coppice", "torch._dynamo"):
    logging.getLogger(name).setLevel(logging.ERROR)
RECORD, REPLAY, EAGER = {"record": 1}, {"replay": 1}, {"eager": 1}


@unittest.skipUnless(torch, "torch or the extension is not there")
class BehaviourTest(unittest.TestCase):
    IN_CI = frozenset()

    def setUp(self):
        if os.environ.get("COPPICE_TEST_SHARE") == "ci" and self._testMethodName not in self.IN_CI:
            self.skipTest("it is not in the share that CI runs")
        torch.set_num_threads(1)
        torch._dynamo.reset()
        torch.manual_seed(SEED % (1 << 32))
        # Compiled functions that a test makes are to be the only ones.
        self.before = {bucket["program"] for bucket in self.session().buckets()}
        self.leaves_programs = False  # Dynamo keeps pieces of functions with graph breaks.

    def tearDown(self):
        torch._dynamo.reset()
        gc.collect()
        left = {bucket["program"] for bucket in self.session().buckets()} - self.before
        if not self.leaves_programs:
            self.assertEqual(set(), left, "programs outlive their functions")

    @staticmethod
    def session():
        return coppice.session(coppice.device("emulator"))

    @contextlib.contextmanager
    def own_session(self):
        """Within, what is compiled has a session of its own, of the options of the first function.
        Its functions have to be gone by the end."""
        with mock.patch.dict(devices._sessions, clear=True), \
                mock.patch.dict(shared.sessions, clear=True):
            torch._dynamo.reset()
            yield
            torch._dynamo.reset()
            gc.collect()

    @staticmethod
    def compiled(function, dynamic=True, **options):
        return torch.compile(function, backend=coppice.torch.backend, dynamic=dynamic,
                             options={"device": "emulator", **options})

    # How calls ran.

    def runs(self):
        known = shared.sessions.get(coppice.device("emulator"))  # None: nothing was compiled yet.
        return dict(known.session.stats()["runs"]) if known else {}

    def ran(self, function, *arguments):
        """What a call returns, and how its graphs ran: {"record": 1, "replay": 2}."""
        before = self.runs()
        result = function(*arguments)
        return result, {kind: count - before.get(kind, 0) for kind, count in self.runs().items()
                        if count != before.get(kind, 0)}

    def reasons(self):
        return dict(self.session().stats()["reasons"])

    def buckets(self, compiled):
        """[extents] of what the graphs of a function recorded."""
        programs = {one.program for one in coppice.torch.report(compiled)}
        return [bucket["bucket"] for bucket in self.session().buckets()
                if bucket["program"] in programs and bucket["recorded"]]

    def height(self):
        return self.session().memory()["height"]

    # What calls compute.

    def near(self, got, right):
        """The same tensors, integers, None, in tuples, lists and dicts."""
        if isinstance(right, torch.Tensor):
            self.assertEqual((right.shape, right.dtype), (got.shape, got.dtype))
            torch.testing.assert_close(got, right, atol=TOLERANCE, rtol=TOLERANCE, equal_nan=True)
        elif isinstance(right, (tuple, list)):
            self.assertEqual(len(right), len(got))
            for one, other in zip(got, right):
                self.near(one, other)
        else:
            self.assertEqual(right, got)

    def each(self, compiled, right, *calls):
        """Calls both with copies of each tuple of arguments, without gradients, and compares
        results and what the arguments hold then. Returns how each call ran."""
        kinds = []
        for arguments in calls:
            given, known = copy.deepcopy(arguments), copy.deepcopy(arguments)
            with torch.no_grad():
                got, kind = self.ran(compiled, *given)
                self.near(got, right(*known))
            self.near(given, known)
            kinds.append(kind)
        return kinds

    def train(self, compiled, right, *calls):
        """The same with gradients of all arguments that have elements of fractions, from the sum of
        all results. Returns how each forward and backward ran."""
        kinds = []
        for arguments in calls:
            given, known = leaves(arguments), leaves(arguments)
            got, forward = self.ran(compiled, *given)
            _, backward = self.ran(total(got).backward)
            expected = right(*known)
            total(expected).backward()
            self.near(got, expected)
            self.near(gradients(given), gradients(known))
            kinds.append((forward, backward))
        return kinds

    def kinds(self, compiled):
        return [one.kind for one in coppice.torch.report(compiled)]


def leaves(arguments):
    """Copies that require gradients, of tensors that can."""
    return [one.detach().clone().requires_grad_() if isinstance(one, torch.Tensor)
            and one.is_floating_point() else one for one in arguments]


def gradients(arguments):
    return [one.grad for one in arguments if isinstance(one, torch.Tensor)]


def total(results):
    if isinstance(results, torch.Tensor):
        return results.sum()
    return sum(one.sum() for one in results
               if isinstance(one, torch.Tensor) and one.requires_grad)


def storage(tensor):
    """Whose bytes a tensor is of."""
    return tensor.untyped_storage().data_ptr()


def main():
    print(f"COPPICE_TEST_SEED={SEED}", file=sys.stderr)
    unittest.main()
