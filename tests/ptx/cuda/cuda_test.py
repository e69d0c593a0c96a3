#!/usr/bin/env python3
"""Goal: kernels that nvcc compiled compute what numpy does when their PTX is executed, and nothing
is found to be wrong with them but an assert that fails.
Method: fixtures of make_fixtures.py on drawn inputs, by `coppice ptx run`; the order of blocks and
warps is drawn as well. fixture_tests.py says how it is called, and has what all fixtures are asked.
"""

import unittest

import launches
from fixture_tests import SEED, FixtureTests, main


class CudaTest(FixtureTests, unittest.TestCase):
    launches = launches

    def test_what_a_kernel_prints_is_printed_once_per_thread(self):
        launch = launches.read()["prints"]
        drawn, done = self.run_drawn(launch, SEED)
        texts = [f"thread {i}: {x:5d}, {y:.2f}, {'below' if x < 0 else 'above'}"
                 for i, (x, y) in enumerate(zip(drawn["x"].tolist(), drawn["y"].tolist()))]
        self.assertEqual(sorted(texts), sorted(done.errors.splitlines()))

    def test_an_assert_that_fails_ends_the_launch(self):
        finding = self.find_assert(launches.read()["asserts"], "x", 37, -1)
        self.assertIn("x[i] >= 0", finding["message"])

    def test_blocks_wait_for_others_without_executing_for_long(self):
        for name in ("look_back", "grid_sync", "block_barrier"):
            with self.subTest(kernel=name):
                _, done = self.run_drawn(launches.read()[name], SEED)
                self.assertLess(done.report["instructions"], 100000)


if __name__ == "__main__":
    main()
