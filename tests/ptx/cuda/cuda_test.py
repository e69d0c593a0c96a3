#!/usr/bin/env python3
"""Goal: kernels that nvcc compiled compute what numpy does when their PTX is executed, and nothing
is found to be wrong with them but an assert that fails.
Method: fixtures of make_fixtures.py on drawn inputs, by `coppice ptx run`; the order of blocks and
warps is drawn as well.

    cuda_test.py COPPICE [--seeds N] [unittest's options]

With --seeds every fixture runs on N draws.
"""

import hashlib
import os
import pathlib
import random
import sys
import tempfile
import unittest

import launches

SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
COPPICE = ""
SEEDS = 1


class CudaTest(unittest.TestCase):
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
        launch = launches.read()["prints"]
        drawn, done = self.run_drawn(launch, SEED)
        texts = [f"thread {i}: {x:5d}, {y:.2f}, {'below' if x < 0 else 'above'}"
                 for i, (x, y) in enumerate(zip(drawn["x"].tolist(), drawn["y"].tolist()))]
        self.assertEqual(sorted(texts), sorted(done.errors.splitlines()))

    def test_an_assert_that_fails_ends_the_launch(self):
        launch = launches.read()["asserts"]
        drawn = launches.draw(launch, SEED)
        drawn["x"][37] = -1
        done = launches.run(COPPICE, launch, drawn, self.folder)
        self.assertEqual(3, done.code)
        self.assertEqual(["assertion"], [finding["kind"] for finding in done.findings()])
        self.assertEqual([37, 0, 0], done.findings()[0]["thread"])
        self.assertIn("x[i] >= 0", done.findings()[0]["message"])

    def test_blocks_wait_for_others_without_executing_for_long(self):
        for name in ("look_back", "grid_sync", "block_barrier"):
            with self.subTest(kernel=name):
                _, done = self.run_drawn(launches.read()[name], SEED)
                self.assertLess(done.report["instructions"], 100000)

    def test_fixtures_are_what_their_sources_say(self):
        for name, digest in launches.read_all()["sources"].items():
            text = (launches.HERE / name).read_bytes()
            self.assertEqual(digest, hashlib.sha256(text).hexdigest(),
                             f"{name} has changed: run tests/ptx/cuda/make_fixtures.py")
        files = {path.name for path in launches.FIXTURES.glob("*.ptx")}
        self.assertEqual(files, {launch["file"] for launch in launches.read().values()})


if __name__ == "__main__":
    COPPICE = sys.argv.pop(1)
    if sys.argv[1:2] == ["--seeds"]:
        SEEDS = int(sys.argv[2])
        del sys.argv[1:3]
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main()
