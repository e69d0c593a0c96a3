#!/usr/bin/env python3
"""Goal: tools/release.sh makes what it says, as far as that can be known without making it.
Method: its lists of files beside git's and CMake's; its judgements of ELF on programs that are
compiled here; wrong arguments, and trees and wheels that are not as they should be.

    release_test.py [unittest's options]
"""

import contextlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "release.sh"
sys.path.insert(0, str(ROOT / "tools" / "release"))

import archives  # noqa: E402
import binaries  # noqa: E402
import checks  # noqa: E402
import pythons  # noqa: E402
import tree  # noqa: E402
import trial  # noqa: E402
import wheels  # noqa: E402

IN_CLONE = (ROOT / ".git").exists()
WHEEL = "coppice-1.0-cp312-abi3-manylinux_2_34_x86_64.whl"


def release(*arguments):
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True,
                          check=False)


class FolderTest(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)


class ArgumentsTest(FolderTest):
    def test_help_names_every_option(self):
        told = release("--help")
        self.assertEqual((0, ""), (told.returncode, told.stderr))
        for option in ("OUT", "--check WHEEL", "--python", "--build-dir", "--architectures",
                       "--dirty", "--torch", "--debian SUITE", "--root DIR"):
            self.assertIn(option, told.stdout)

    def test_wrong_arguments_are_named_and_nothing_is_made(self):
        full, out = self.folder / "full", self.folder / "out"
        full.mkdir()
        (full / "mine").write_text("")
        for arguments, told in (
                ([], "give either OUT or --check WHEEL"),
                ([out, "--check", WHEEL], "give either OUT or --check WHEEL"),
                ([full], "is not an empty folder"),
                ([out, "--root", full], "go with --check WHEEL"),
                (["--check", full / WHEEL], "give a wheel of coppice"),
                (["--check", full / "mine"], "give a wheel of coppice")):
            with self.subTest(arguments):
                run = release(*arguments)
                self.assertEqual(2, run.returncode)
                self.assertIn(told, run.stderr)
        self.assertFalse(out.exists())

    def test_python_that_is_none_ends_a_build_before_it_begins(self):
        out, build = self.folder / "out", self.folder / "build"
        run = release(out, "--dirty", "--build-dir", build, "--python", "/bin/true")
        self.assertEqual(1, run.returncode)
        self.assertIn("--python /bin/true: give a CPython", run.stderr)
        self.assertFalse(out.exists())


class TreeTest(FolderTest):
    def clone(self, *paths):
        """A repository of the folder with these files, which are committed."""
        for path, text in paths:
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text)
        git = ["git", "-C", self.folder, "-c", "user.name=a", "-c", "user.email=a@localhost"]
        for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "all"]):
            subprocess.run([*git, *command], check=True)

    def test_version_is_that_of_cmake_alone(self):
        self.assertRegex(tree.version(), r"^\d+\.\d+\.\d+$")
        self.clone(("CMakeLists.txt", "project(other VERSION 1.2.3)\n"))
        with self.assertRaisesRegex(tree.ReleaseError, "no line project"):
            tree.version(self.folder)

    @unittest.skipUnless(IN_CLONE, "no clone")
    def test_sdist_has_what_a_build_reads_and_no_test(self):
        files = tree.in_sdist()
        included = tree.listed_in_pyproject("sdist.include")
        for name in included:
            self.assertTrue(name.startswith("/"), f"{name} is also one in other folders")
            self.assertTrue((ROOT / name[1:]).exists(), name)
        self.assertEqual([], [path for path in files if path.startswith(("tests/", "docs/"))])
        lists = (ROOT / "CMakeLists.txt").read_text()
        folders = {folder for folder in re.findall(r"add_subdirectory\((\S+)\)", lists)
                   if not folder.startswith("tests")}
        wanted = {f"{folder}/CMakeLists.txt" for folder in folders} | {
            "README.md", *tree.listed_in_pyproject("license-files")}
        self.assertEqual(set(), wanted - files)

    @unittest.skipUnless(IN_CLONE, "no clone")
    def test_wheel_has_the_package_as_git_has_it(self):
        files = tree.in_wheel()
        self.assertIn("coppice/__init__.py", files)
        self.assertEqual(set(), {path for path in files if not path.startswith("coppice/")})

    def test_ignored_files_are_in_no_list_and_change_nothing(self):
        self.clone(("pyproject.toml", 'sdist.include = ["/a", "/b.txt"]\n'),
                   (".gitignore", "*.so\n"), ("a/x.py", ""), ("a/x.so", ""), ("b.txt", ""),
                   ("b.txt.more", ""), ("python/coppice/y.py", ""), ("python/coppice/y.so", ""))
        self.assertEqual({"a/x.py", "b.txt"}, tree.in_sdist(self.folder))
        self.assertEqual({"coppice/y.py"}, tree.in_wheel(self.folder))
        self.assertEqual([], tree.changed(self.folder))
        tree.copy(self.folder / "copy", self.folder)
        self.assertEqual({"y.py"}, {path.name for path in (
            self.folder / "copy" / "python" / "coppice").iterdir()})
        shutil.rmtree(self.folder / "copy")
        (self.folder / "a" / "new.py").write_text("")
        self.assertEqual(["?? a/new.py"], tree.changed(self.folder))

    def test_folder_that_is_no_clone_is_told(self):
        with self.assertRaisesRegex(tree.ReleaseError, "make releases in a clone"):
            tree.tracked(self.folder)


class PythonsTest(unittest.TestCase):
    def test_one_wheel_per_old_python_and_one_for_all_from_3_12_on(self):
        found = {(3, minor): f"python3.{minor}" for minor in (13, 10, 12, 11)}
        self.assertEqual([(3, 10), (3, 11), (3, 12)], pythons.that_build(found))
        self.assertEqual([(3, 13)], pythons.that_build({(3, 13): ""}))

    def test_pins_are_exact(self):
        pins = [line for line in pythons.REQUIREMENTS.read_text().splitlines()
                if not line.startswith("#")]
        self.assertTrue(any(pin.startswith("auditwheel==") for pin in pins))
        for pin in pins:
            self.assertRegex(pin, r"^[a-z-]+==[\d.]+$")

    def test_wheels_fit_the_pythons_of_their_tags(self):
        stable = trial.fits(pathlib.Path(WHEEL))
        self.assertEqual([False, True, True], [stable((3, minor)) for minor in (11, 12, 14)])
        one = trial.fits(pathlib.Path(WHEEL.replace("cp312-abi3", "cp310-cp310")))
        self.assertEqual([True, False], [one((3, minor)) for minor in (10, 11)])
        with self.assertRaisesRegex(tree.ReleaseError, "should be a wheel"):
            trial.fits(pathlib.Path("coppice-1.0-py3-none-any.whl"))


@unittest.skipUnless(shutil.which("cc"), "no compiler")
class BinariesTest(FolderTest):
    def compiled(self, source, *flags):
        (self.folder / "x.c").write_text(source)
        library = self.folder / "x.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, self.folder / "x.c", *flags],
                       check=True)
        return library

    def test_what_glibc_alone_serves_passes(self):
        library = self.compiled("#include <stdio.h>\nvoid f(void) { puts(\"\"); }\n")
        found = binaries.check(library)
        self.assertEqual(("libc.so.6",), found.libraries)
        self.assertGreaterEqual(found.glibc, (2, 2))

    def test_newer_symbols_are_named(self):
        library = self.compiled("#include <stdio.h>\nvoid f(void) { puts(\"\"); }\n")
        with mock.patch.object(binaries, "GLIBC_MAX", (2, 0)), \
                self.assertRaisesRegex(tree.ReleaseError, r"puts@GLIBC_2\.\d.*2\.0|puts@GLIBC"):
            binaries.check(library)

    def test_other_libraries_are_named_unless_they_lie_beside(self):
        library = self.compiled("int zero;\n", "-Wl,--no-as-needed", "-l:libstdc++.so.6")
        with self.assertRaisesRegex(tree.ReleaseError, r"x\.so needs libstdc\+\+\.so\.6"):
            binaries.check(library)
        self.assertIn("libstdc++.so.6", binaries.check(library, {"libstdc++.so.6"}).libraries)


class TrialTest(FolderTest):
    def test_each_python_that_takes_a_wheel_tries_it(self):
        here = {(3, minor): f"python3.{minor}" for minor in (10, 11, 12, 13, 14)}
        with mock.patch.object(pythons, "find", return_value=here), \
                mock.patch.object(trial, "in_environment", lambda _, release, python, __:
                                  (release, python)):
            tried = list(trial.check(self.folder / WHEEL))
            self.assertEqual([((3, minor), f"python3.{minor}") for minor in (12, 13, 14)], tried)
            older = self.folder / WHEEL.replace("cp312-abi3", "cp39-cp39")
            with self.assertRaisesRegex(tree.ReleaseError, "no Python here takes it"):
                list(trial.check(older))


class ChecksTest(FolderTest):
    def wheel(self, *names, name=WHEEL):
        path = self.folder / name
        with zipfile.ZipFile(path, "w") as archive:
            for each in names:
                archive.writestr(each, "")
        return path

    @contextlib.contextmanager
    def auditwheel(self, *tags):
        program = self.folder / "auditwheel"
        lines = "".join(f'echo \'tag: "{tag}"\'\n' for tag in tags)
        program.write_text(f"#!/bin/sh\n{lines}")
        program.chmod(0o755)
        yield program

    def test_version_size_and_platform_of_a_wheel_are_held(self):
        path = self.wheel("coppice/__init__.py")
        with self.auditwheel("manylinux_2_34_x86_64") as program:
            self.assertEqual("manylinux_2_34_x86_64", checks.check_wheel(path, "1.0", program))
            with self.assertRaisesRegex(tree.ReleaseError, "should be of coppice 2.0"):
                checks.check_wheel(path, "2.0", program)
            with mock.patch.object(checks, "WHEEL_BYTES_MAX", 10), \
                    self.assertRaisesRegex(tree.ReleaseError, "bytes are more than 10"):
                checks.check_wheel(path, "1.0", program)
        for found, told in (("manylinux_2_36_x86_64", "the newest allowed"),
                            ("manylinux_2_31_x86_64", "should be in its name"),
                            ("linux_x86_64", "no manylinux")):
            with self.auditwheel(found) as program, self.subTest(found), \
                    self.assertRaisesRegex(tree.ReleaseError, told):
                checks.check_wheel(path, "1.0", program)

    def test_files_that_are_missing_or_too_many_are_named(self):
        self.assertEqual({"coppice/_core*.so", "coppice/a.py"}, checks.in_wheel(self.wheel(
            "coppice/a.py", "coppice/_core.cpython-310-x86_64-linux-gnu.so",
            "coppice-1.0.dist-info/RECORD")))
        with self.assertRaisesRegex(tree.ReleaseError, "x: missing 1: a; too much 1: b"):
            checks.differences({"a", "c"}, {"b", "c"}, "x")

    def test_table_has_a_row_per_file(self):
        lines = [checks.Line("a.whl", 1_250_000, "manylinux_2_34_x86_64", "2.34", "libc libm"),
                 checks.Line("a.tar.gz", 40_000, "source", "-", "-")]
        self.assertEqual("file      MB    for                    glibc  needs\n"
                         "a.whl     1.25  manylinux_2_34_x86_64  2.34   libc libm\n"
                         "a.tar.gz  0.04  source                 -      -", checks.table(lines))

    def test_folder_without_one_wheel_is_told(self):
        with self.assertRaisesRegex(tree.ReleaseError, "0 wheels, and should be one"):
            wheels.only_wheel(self.folder)

    def test_download_of_another_digest_is_refused_and_removed(self):
        (self.folder / "a.tar.gz").write_text("other")
        with self.assertRaisesRegex(tree.ReleaseError, "its SHA-256 is"):
            archives.download(("https://host.invalid/a.tar.gz", "0" * 64), self.folder)
        self.assertFalse((self.folder / "a.tar.gz").exists())

    def test_output_that_differs_is_shown(self):
        trial.judge("more\nas shown\n", "as shown\n", "it")
        with self.assertRaisesRegex(tree.ReleaseError, "it prints:\nother\nand should end with"):
            trial.judge("other\n", "as shown\n", "it")


if __name__ == "__main__":
    unittest.main()
