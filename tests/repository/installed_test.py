#!/usr/bin/env python3
"""Goal: once coppice_installed is built, `cmake --install` finds all that it installs; before, as
after tools/demo.sh, it says what to build. Method: the files of the build that install scripts name
are among what the target builds, by ninja's own graph; the script is run without the library.
Called as `installed_test.py BUILD_DIRECTORY`; skipped where another generator made that.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path()
TARGET = "coppice_installed"


def installed_files():
    """Files of the build that install scripts copy, links by what they lead to."""
    for script in BUILD.rglob("cmake_install.cmake"):
        if "tests" in script.parent.parts:
            continue
        for listed in re.findall(r"file\(INSTALL [^)]*?FILES([^)]*)\)", script.read_text()):
            for path in re.findall(r'"([^"]+)"', listed):
                configured = path.endswith((".cmake", ".pc"))  # What no target makes.
                if BUILD in pathlib.Path(path).parents and not configured:
                    yield path


class InstalledTest(unittest.TestCase):
    def test_what_is_installed_is_built_by_its_target(self):
        commands = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", TARGET],
                                  capture_output=True, text=True, check=True).stdout.split()
        made = {str(BUILD / word) for word in commands}
        # A stub is written in its own folder.
        wanted = {path for path in installed_files() if pathlib.Path(path).name not in commands}
        self.assertTrue(any("libcoppice.so" in path for path in wanted), wanted)
        self.assertEqual(set(), {path for path in wanted if path not in made})

    def test_what_is_not_built_is_said(self):
        script = (BUILD / "cmake_install.cmake").read_text().replace("libcoppice.so", "missing.so")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "install.cmake")
            path.write_text(script)
            run = subprocess.run(["cmake", f"-DCMAKE_INSTALL_PREFIX={folder}", "-P", path],
                                 capture_output=True, text=True)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(f"cmake --build {BUILD} --target {TARGET}", run.stderr)
            self.assertEqual([path], list(pathlib.Path(folder).iterdir()))


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    if not (BUILD / "build.ninja").exists():
        print("skipped, because ninja did not make it")
        sys.exit(77)
    unittest.main()
