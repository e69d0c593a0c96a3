#!/usr/bin/env python3
"""Goal: what README.md and docs/ show of Python runs, and prints what they say.
Method: each block of `python` runs in a process of its own, and the block of `text` behind it, if
there is one, is what it prints. Commands that begin with `python` run, too; tests/support/pages.py
says what a block is.

    pages_test.py [COPPICE] [unittest's options]

Without COPPICE, the command, blocks that also use it are left out.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import pages

SECONDS_MAX = 300
TOOLS = {"python": sys.executable}
if len(sys.argv) > 1 and pathlib.Path(sys.argv[1]).is_file():
    TOOLS["coppice"] = str(pathlib.Path(sys.argv.pop(1)).resolve())


class PagesTest(unittest.TestCase):
    def test_blocks_of_python_print_what_is_shown(self):
        blocks = [block for path in pages.paths() for block in pages.blocks(path, "python")]
        self.assertGreaterEqual(len(blocks), 8)
        for block in blocks:
            with self.subTest(block.place), tempfile.TemporaryDirectory() as folder:
                # A file, because Triton reads the source of its kernels.
                program = pathlib.Path(folder) / "snippet.py"
                program.write_text(block.code)
                done = subprocess.run([sys.executable, "-B", program], cwd=folder, text=True,
                                      capture_output=True, timeout=SECONDS_MAX, check=False)
                self.assertEqual(0, done.returncode, done.stderr[-2000:])
                if block.shown:
                    self.assertEqual(block.shown, done.stdout)

    def test_commands_in_python_exit_and_print_as_is_shown(self):
        count = pages.run_commands(self, TOOLS, lambda block: "python" in block.needs())
        self.assertGreaterEqual(count, 3)


if __name__ == "__main__":
    unittest.main()
