#!/usr/bin/env python3
"""Goal: what tools/demo.sh builds stays small, and says what it cannot do. Method: ninja's commands
for the target are counted; the program is asked for kernels that are PTX. Called as
`demo_test.py BUILD_DIRECTORY PROGRAM PACKAGE`; the count is left out where another generator made
the directory.
"""

import pathlib
import subprocess
import sys
import unittest

BUILD, PROGRAM, PACKAGE = (pathlib.Path(each).resolve() for each in sys.argv[1:4])
COMPILED_MAX = 35  # Sources, several of them united, and precompiled headers.


class DemoTest(unittest.TestCase):
    @unittest.skipUnless((BUILD / "build.ninja").exists(), "ninja did not make the build")
    def test_the_demo_compiles_little_and_no_executor_of_ptx(self):
        commands = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", PROGRAM.name],
                                  capture_output=True, text=True, check=True).stdout.splitlines()
        compiled = [command for command in commands if " -c " in command]
        self.assertTrue(any("coppice_graphs.dir/" in command for command in compiled))
        self.assertLessEqual(len(compiled), COMPILED_MAX)
        self.assertFalse([command for command in compiled if "coppice_ptx" in command])

    def test_kernels_of_ptx_are_refused_with_what_to_link(self):
        run = subprocess.run([PROGRAM, "run", "--device=host", f"--package={PACKAGE}"],
                             capture_output=True, text=True)
        self.assertEqual(2, run.returncode, run.stderr)
        self.assertIn("this program has no PTX executor; also link coppice::ptx", run.stderr)
        self.assertEqual("", run.stdout)

    def test_run_is_its_one_subcommand(self):
        run = subprocess.run([PROGRAM, "tune"], capture_output=True, text=True)
        self.assertEqual(2, run.returncode, run.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
