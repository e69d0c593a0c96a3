#!/usr/bin/env python3
"""Goal: commands that pages show exit as they say, and print what stands below them.

  pages_test.py [--coppice COPPICE] [--samples FOLDER]

Method: pages.py says what a block is. Blocks run whose tools are there: the command, programs of
samples/ that are built in FOLDER, and the Python that runs this test, if it has NumPy.
python/tests/pages_test.py runs what needs PyTorch.
"""

import argparse
import importlib.util
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import pages


def read_tools():
    parser = argparse.ArgumentParser()
    parser.add_argument("--coppice")
    parser.add_argument("--samples")
    given, sys.argv[1:] = parser.parse_known_args()
    tools = {name: str(pathlib.Path(path).resolve()) for name, path in vars(given).items() if path}
    return {**tools, "python3": sys.executable} if importlib.util.find_spec("numpy") else tools


TOOLS = read_tools()


class PagesTest(unittest.TestCase):
    def test_commands_print_what_pages_say(self):
        wanted = TOOLS.keys() - {"python3"}
        count = pages.run_commands(self, TOOLS, lambda block: block.needs() & wanted)
        self.assertLess(2, count)

    def test_a_line_that_is_not_printed_is_found(self):
        shown = "a  1\nb at 0x7f00\n"
        self.assertIsNone(pages.first_missing(shown, "a 1\nother\nb at 0x1234\n"))
        self.assertEqual("b at 0x7f00", pages.first_missing(shown, "b at 0x7f00\na 1\n"))

    def test_a_block_is_held_to_its_exit_code_and_output(self):
        def block(code, shown=""):
            return pages.Block("page.md", 1, "bash", code, shown)

        with tempfile.TemporaryDirectory() as name:
            folder = pages.Folder(name, {})
            self.assertIsNone(folder.run(block("echo 1\n", "1\n")))
            self.assertIsNone(folder.run(block("echo 1 >&2\nsh -c 'exit 3'  # exits with 3\n")))
            self.assertIn("exits with 1", folder.run(block("false\ntrue\n")))
            self.assertIn("does not print '2'", folder.run(block("echo 1\n", "2\n")))


if __name__ == "__main__":
    unittest.main()
