#!/usr/bin/env python3
"""Goal: what README.md shows of Python runs, and prints what it says.
Method: each block of Python runs in a process of its own; the block of text behind it, if there is
one, is what it prints.

    readme_test.py [unittest's options]
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

README = pathlib.Path(__file__).resolve().parent.parent.parent / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?", re.M | re.S)
SECONDS_MAX = 300


class ReadmeTest(unittest.TestCase):
    def test_blocks_of_python_print_what_is_shown(self):
        blocks = BLOCK.findall(README.read_text())
        self.assertGreaterEqual(len(blocks), 1)
        for code, shown in blocks:
            with self.subTest(code=code), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([sys.executable, "-c", code], cwd=folder, text=True,
                                      capture_output=True, timeout=SECONDS_MAX, check=False)
                self.assertEqual(0, done.returncode, done.stderr[-2000:])
                if shown:
                    self.assertEqual(shown, done.stdout)


if __name__ == "__main__":
    unittest.main()
