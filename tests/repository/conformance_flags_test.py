#!/usr/bin/env python3
"""Shows that the conformance suite refuses wrong usage.

    conformance_flags_test.py conformance_suite

Wrong usage ends with exit code 2 and one line that says why, before any test.
"""

import os
import pathlib
import subprocess
import sys
import unittest

DEATH_TESTS = "--gtest_filter=*/FaultConformanceTest.*/Emulator"
SUITE = ""


def run(*command, stdout=subprocess.PIPE, **options):
    return subprocess.run(command, check=False, stdout=stdout, stderr=subprocess.PIPE, text=True,
                          **options)


class SuiteTest(unittest.TestCase):
    def refuses(self, *arguments, says, **options):
        done = run(SUITE, *arguments, **options)
        self.assertEqual(2, done.returncode, arguments)
        self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)
        self.assertIn(says, done.stderr)
        return done

    def test_seed_that_is_no_number_is_refused_before_any_test(self):
        for seed in ("abc", "", "-1", "1.5", "0x10", str(1 << 64)):
            done = self.refuses(DEATH_TESTS, says=f"COPPICE_TEST_SEED={seed}: ",
                                env={**os.environ, "COPPICE_TEST_SEED": seed})
            self.assertEqual("", done.stdout)

    def test_output_that_cannot_be_written_is_an_error(self):
        for argument in ("--list-mutants", "--help", "--gtest_list_tests"):
            with open("/dev/full", "w") as full:
                self.refuses(argument, says="output cannot be written", stdout=full)

    def test_run_without_a_test_is_an_error(self):
        mutant = run(SUITE, "--list-mutants").stdout.split("\t")[0]
        for arguments in ([], [f"--mutant={mutant}"]):
            self.refuses("--gtest_filter=nothing", *arguments, says="--gtest_filter=nothing: ")
        self.assertEqual(
            0, run(SUITE, "--gtest_filter=nothing", "--gtest_list_tests").returncode)

    def test_unknown_argument_is_refused_beside_any_other(self):
        for arguments in (["extra"], ["--list-mutants", "extra"], ["--help", "extra"]):
            self.refuses(*arguments, says="extra: no such flag")

    def test_death_tests_run_when_the_suite_is_found_in_path(self):
        path = f"{pathlib.Path(SUITE).parent}{os.pathsep}{os.environ['PATH']}"
        done = run("sh", "-c", f"conformance_suite '{DEATH_TESTS}'", cwd="/",
                   env={**os.environ, "PATH": path})
        self.assertEqual(0, done.returncode, done.stdout)


if __name__ == "__main__":
    SUITE = os.path.abspath(sys.argv.pop())
    unittest.main()
