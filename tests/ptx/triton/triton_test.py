#!/usr/bin/env python3
"""Goal: kernels that Triton compiled compute what numpy does when their PTX is executed, and
nothing is found to be wrong with them.
Method: fixtures of make_fixtures.py on drawn inputs, by `coppice ptx run`; the order of blocks and
warps is drawn as well.

    triton_test.py COPPICE [--seeds N] [unittest's options]

With --seeds every fixture runs on N draws.
"""

import hashlib
import os
import pathlib
import random
import re
import sys
import tempfile
import unittest

import launches

SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
COPPICE = ""
SEEDS = 1


class TritonTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def run_drawn(self, launch, seed):
        drawn = launches.draw(launch, seed)
        return drawn, launches.run(COPPICE, launch, drawn, self.folder,
                                   options=["--seed", str(seed % (1 << 31))])

    def test_each_kernel_computes_what_numpy_does_and_nothing_is_found(self):
        for launch in launches.read().values():
            for seed in range(SEED, SEED + SEEDS):
                with self.subTest(kernel=launch["name"], seed=seed):
                    drawn, done = self.run_drawn(launch, seed)
                    self.assertIn(done.code, (0, 3), done.errors)
                    self.assertEqual([], done.findings())
                    self.assertEqual([], launches.differences(launch, drawn, done))

    def test_what_a_kernel_prints_is_printed_once_per_thread(self):
        launch = launches.read()["print_values"]
        drawn, done = self.run_drawn(launch, SEED)
        printed = [int(value) for value in re.findall(r"value: +(-?\d+)$", done.errors, re.M)]
        self.assertEqual(sorted(drawn["x"].tolist()), sorted(printed), done.errors)

    def test_an_assert_that_fails_is_found_where_the_source_says_it(self):
        launch = launches.read()["print_values"]
        drawn = launches.draw(launch, SEED)
        drawn["x"][7] = -2000000
        done = launches.run(COPPICE, launch, drawn, self.folder)
        self.assertEqual(3, done.code)
        self.assertEqual(["assertion"], [finding["kind"] for finding in done.findings()])
        self.assertEqual([7, 0, 0], done.findings()[0]["thread"])
        self.assertIn("kernels.py", done.findings()[0]["source"])

    def test_a_lock_is_met_that_another_block_has_taken_and_waits_are_short(self):
        known = launches.read()
        # The same seeds in every run: of any 12, one time in a hundred none meets one.
        executed = {name: [self.run_drawn(known[name], seed)[1].report["instructions"]
                           for seed in range(12)] for name in ("locked_sum", "chained_scan")}
        # Who meets a lock that is taken executes more: it asks again.
        self.assertLess(min(executed["locked_sum"]), max(executed["locked_sum"]))
        self.assertLess(max(executed["chained_scan"]), 20000)

    def test_fixtures_are_what_their_sources_say(self):
        for name, digest in launches.read_all()["sources"].items():
            text = (launches.HERE / name).read_bytes()
            self.assertEqual(digest, hashlib.sha256(text).hexdigest(),
                             f"{name} has changed: run tests/ptx/triton/make_fixtures.py")
        files = {path.name for path in launches.FIXTURES.glob("*.ptx")}
        self.assertEqual(files, {launch["file"] for launch in launches.read().values()})


if __name__ == "__main__":
    COPPICE = sys.argv.pop(1)
    if sys.argv[1:2] == ["--seeds"]:
        SEEDS = int(sys.argv[2])
        del sys.argv[1:3]
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main()
