#!/usr/bin/env python3
"""Shows that the conformance suite, and the script that runs its mutants, refuse wrong usage.

    conformance_flags_test.py conformance_suite

Wrong usage ends with exit code 2 and one line that says why, before any test. The script is also
given shell scripts that stand in for a suite.
"""

import os
import pathlib
import select
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTANTS_TEST = ROOT / "tests" / "conformance" / "mutants_test.py"
sys.path.insert(0, str(MUTANTS_TEST.parent))
sys.dont_write_bytecode = True
import mutants_test  # noqa: E402

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


class MutantsTestTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def fake(self, script):
        (self.folder / "suite").write_text(f"#!/bin/sh\n{script}\n")
        (self.folder / "suite").chmod(0o755)

    def run_mutants(self, *arguments):
        return run(sys.executable, MUTANTS_TEST, *arguments, cwd=self.folder,
                   env={**os.environ, "COPPICE_TEST_SHARE": "1"})

    def test_wrong_arguments_end_with_2(self):
        self.fake("test $1 = --list-mutants || touch ran; echo one")
        (self.folder / "text").write_text("")
        for arguments in (["absent"], ["."], ["text"], ["/bin/false"], ["/bin/true"],
                          ["suite", "--only", "one", "bogus"], ["suite", "--seed", "abc"],
                          ["suite", "--seed=-1"], ["suite", "--share=0"],
                          ["suite", "--draw=x"]):
            done = self.run_mutants(*arguments)
            self.assertEqual(2, done.returncode, arguments)
            self.assertIn("mutants_test.py: error: ", done.stderr.splitlines()[-1])
        self.assertFalse((self.folder / "ran").exists())

    def test_suite_beside_the_caller_is_found_by_its_name(self):
        self.fake("""case "$*" in
--list-mutants) printf 'one\\tits rule\\ntwo\\tits rule\\n';;
*--mutant=*) exit 1;;
esac""")
        done = self.run_mutants("suite")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("2 mutants, 2 found", done.stdout)
        named = self.run_mutants("suite", "--only", "two", "two")
        self.assertIn("1 mutants, 1 found", named.stdout)
        drawn = self.run_mutants("suite", "--share=2", "--draw=5")
        self.assertEqual(0, drawn.returncode)
        self.assertIn("--draw 5\n1 mutants, 1 found", drawn.stdout)

    def test_suite_past_its_limit_is_ended_with_what_it_started(self):
        os.mkfifo(self.folder / "fifo")
        fifo = os.open(self.folder / "fifo", os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, fifo)
        self.fake(f"tail -f /dev/null >{self.folder}/fifo 2>&1 & echo begun; wait")
        with unittest.mock.patch.object(mutants_test, "SECONDS_MAX", 2):
            done = mutants_test.run(self.folder / "suite", "one", [])
        self.assertEqual(("time-out", "begun\n"), (done.outcome, done.output))
        self.assertTrue(select.select([fifo], [], [], 20)[0], "no end of file: the child lives")


if __name__ == "__main__":
    SUITE = os.path.abspath(sys.argv.pop())
    unittest.main()
