#!/usr/bin/env python3
"""Goal: `coppice prof whatif` repeats exactly what torch.compile and loaded packages did, and what
it says of another policy is what they do with that policy.
Method: the same drawn calls run in a traced session with one policy, and in another with another;
the figures of the repetition are compared with those of the second trace.

    whatif_test.py COPPICE [unittest's options]

Without torch, or without the extension, all is skipped.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import torch
    from torch import nn

    import coppice.torch
except ImportError as error:
    raise unittest.SkipTest(f"needs NumPy, torch and the extension: {error}") from error

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "samples" / "triton_kernels.zip"
SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
CALLS = 40
ROWS_MAX = 48
POLICIES = ("4,16,48", "pow2", "linear:12", "geometric:1.5:4", "48")
# What clocks say differs from run to run.
TIMES = ("host_ns_estimate", "record_ns_estimate")


def rows_of_calls(source):
    """Most sizes come again, as they do in traffic."""
    known = [source.randint(1, ROWS_MAX) for _ in range(6)]
    return [source.choice(known) for _ in range(CALLS)]


def model(policy):
    torch._dynamo.reset()
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
    function = torch.compile(layers, backend="coppice", dynamic=True, options={
        "policy": (policy, ROWS_MAX), "claim": "row_independent"})
    return lambda rows: function(torch.randn(rows, 8))


def compiled(policy):
    return torch.no_grad()(model(policy))


def trained(policy):
    function = model(policy)
    return lambda rows: function(rows).square().sum().backward()


def loaded(policy):
    model = coppice.load(PACKAGE, device="emulator", policies={"rows": (policy, ROWS_MAX)})
    weights = np.ones((64, 40), np.float32)
    return lambda rows: model(np.ones((rows, 64), np.float32), weights)


class WhatIfTest(unittest.TestCase):
    command = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.source = random.Random(SEED)

    def trace(self, make, policy, calls):
        path = self.folder / f"{policy}.trace".replace(":", "_")
        with coppice.prof.trace(path, coppice.device("emulator")):
            call = make(policy)
            for rows in calls:
                call(rows)
        return path

    def repeat(self, trace, *changes):
        done = subprocess.run([self.command, "prof", "whatif", trace, *changes, "--json"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(0, done.returncode, done.stdout)
        return json.loads(done.stdout)

    def check(self, make):
        calls = rows_of_calls(self.source)
        before, after = self.source.sample(POLICIES, 2)
        where = f"{before} -> {after}, COPPICE_TEST_SEED={SEED}"
        trace = self.trace(make, before, calls)
        same = self.repeat(trace)
        self.assertEqual([[], [], []], [same[name] for name in ("gaps", "differences",
                                                                "estimates")], where)
        self.assertTrue(same["exact"], where)
        truth = self.repeat(self.trace(make, after, calls))["trace"]
        found = self.repeat(trace, "--policy", after)
        self.assertEqual([], found["gaps"], where)
        differing = {name: (figure, truth[name]) for name, figure in found["after"].items()
                     if figure != truth[name] and name not in TIMES}
        if not found["estimates"]:
            self.assertEqual({}, differing, where)
        else:  # Of buckets whose memory does not follow from those recorded; their calls are exact.
            self.assertEqual(set(), differing.keys() & {"calls", "paths", "graphs_recorded",
                                                        "real_elements", "padded_elements"}, where)

    def test_of_what_torch_compiled(self):
        self.check(compiled)

    def test_of_training(self):
        self.check(trained)

    def test_of_a_package(self):
        self.check(loaded)


if __name__ == "__main__":
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    WhatIfTest.command = sys.argv.pop(1)
    unittest.main()
