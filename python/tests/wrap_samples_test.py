#!/usr/bin/env python3
"""Goal: samples/python/wrap_triton.py and ranks.py run on the emulator and print what they say.
Method: each runs as a user runs it, in a process of its own.

    wrap_samples_test.py [unittest's options]

Without PyTorch, Triton, NumPy or the extension all is skipped.
"""

import importlib.util
import pathlib
import re
import subprocess
import sys
import unittest

SAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "samples" / "python"
MISSING = [name for name in ("torch", "triton", "numpy", "coppice")
           if importlib.util.find_spec(name) is None]


@unittest.skipIf(MISSING, f"needs {', '.join(MISSING)}")
class SamplesTest(unittest.TestCase):
    def run_sample(self, name, *options):
        return subprocess.run([sys.executable, SAMPLES / name, *options], capture_output=True,
                              text=True, check=False, timeout=600)

    def test_wrap_triton_replays_what_it_recorded(self):
        done = self.run_sample("wrap_triton.py", "--device", "emulator", "--rows", "5", "6", "7",
                               "17", "8")
        self.assertEqual(done.returncode, 0, done.stderr)
        kinds = re.findall(r"rows: (\w+)", done.stdout)
        self.assertEqual(kinds, ["warm_up", "record", "replay", "warm_up", "replay"])
        self.assertIn("nothing found wrong", done.stdout)

    def test_ranks_agree(self):
        done = self.run_sample("ranks.py", "--calls", "50")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.partition(": ")[2] for line in done.stdout.splitlines()]
        self.assertEqual(len(lines), 4)
        self.assertEqual(len(set(lines)), 1, done.stdout)

    def test_ranks_say_that_one_is_gone(self):
        done = self.run_sample("ranks.py", "--calls", "20", "--kill", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall("another rank is gone", done.stdout)), 3, done.stdout)


if __name__ == "__main__":
    unittest.main()
