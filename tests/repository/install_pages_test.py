#!/usr/bin/env python3
"""Goal: what docs/start/install.md shows of CMake and pkg-config works with an installed coppice.

  install_pages_test.py PREFIX [unittest's options]

Method: each block of `cmake` becomes a project with sources of samples/, which CMake configures;
the block of `sh` with pkg-config runs with a home folder whose `coppice` is PREFIX.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import pages  # noqa: E402

PREFIX = pathlib.Path(sys.argv.pop(1)).resolve()
PAGE = ROOT / "docs" / "start" / "install.md"
HEAD = "cmake_minimum_required(VERSION 3.25)\nproject(server LANGUAGES C CXX)\n"


class InstallPagesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("scale.cu", "scale.h", "load_package.c", "triton_kernels.zip"):
            shutil.copy(ROOT / "samples" / name, self.folder)
        shutil.copy(ROOT / "samples" / "feedback_loop.cc", self.folder / "server.cc")

    def run_in_folder(self, *command, **environment):
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False,
                              env={**os.environ, **environment})
        self.assertEqual(0, done.returncode, done.stdout)
        return done.stdout

    def test_blocks_of_cmake_configure(self):
        blocks = pages.blocks(PAGE, "cmake")
        self.assertEqual(2, len(blocks))
        for number, block in enumerate(blocks):
            with self.subTest(block.place):
                target = "" if "add_executable" in block.code else \
                    "add_executable(server load_package.c)\n"
                (self.folder / "CMakeLists.txt").write_text(HEAD + target + block.code)
                self.run_in_folder("cmake", "-S", ".", "-B", f"build{number}",
                                   f"-DCMAKE_PREFIX_PATH={PREFIX}")
                wrong = re.sub(r"coppice::(\w+)\)", r"coppice::no_\1)", block.code)
                (self.folder / "CMakeLists.txt").write_text(HEAD + target + wrong)
                with self.assertRaises(AssertionError):  # That a wrong name is found.
                    self.run_in_folder("cmake", "-S", ".", "-B", f"wrong{number}",
                                       f"-DCMAKE_PREFIX_PATH={PREFIX}")

    def test_a_program_of_c_is_built_by_pkg_config(self):
        block, = [block for block in pages.blocks(PAGE, "sh") if "pkg-config" in block.code]
        (self.folder / "coppice").symlink_to(PREFIX)
        printed = self.run_in_folder("bash", "-euo", "pipefail", "-c", block.code,
                                     HOME=str(self.folder))
        self.assertIn("2 graphs for 5 calls", printed)


if __name__ == "__main__":
    unittest.main()
