#!/usr/bin/env python3
"""Goal: kernels that Triton compiled compute what numpy does when their PTX is executed, and
nothing is found to be wrong with them.
Method: fixtures of make_fixtures.py on drawn inputs, by `coppice ptx run`; the order of blocks and
warps is drawn as well. fixture_tests.py says how it is called, and has what all fixtures are asked.
"""

import re
import unittest

import launches
from fixture_tests import SEED, FixtureTests, main


class TritonTest(FixtureTests, unittest.TestCase):
    launches = launches

    def test_what_a_kernel_prints_is_printed_once_per_thread(self):
        launch = launches.read()["print_values"]
        drawn, done = self.run_drawn(launch, SEED)
        printed = [int(value) for value in re.findall(r"value: +(-?\d+)$", done.errors, re.M)]
        self.assertEqual(sorted(drawn["x"].tolist()), sorted(printed), done.errors)

    def test_an_assert_that_fails_is_found_where_the_source_says_it(self):
        finding = self.find_assert(launches.read()["print_values"], "x", 7, -2000000)
        self.assertIn("kernels.py", finding["source"])

    def test_a_lock_is_met_that_another_block_has_taken_and_waits_are_short(self):
        known = launches.read()
        # The same seeds in every run: of any 12, one time in a hundred none meets one.
        executed = {name: [self.run_drawn(known[name], seed)[1].report["instructions"]
                           for seed in range(12)] for name in ("locked_sum", "chained_scan")}
        # Who meets a lock that is taken executes more: it asks again.
        self.assertLess(min(executed["locked_sum"]), max(executed["locked_sum"]))
        self.assertLess(max(executed["chained_scan"]), 20000)


if __name__ == "__main__":
    main()
