#!/usr/bin/env python3
"""Goal: `coppice run --device cuda` through the emulated libcuda.so.1 finds no mismatch, and says
what the linked emulator says. Method: the command, which is the first argument, once with the
folder of the library, the second, as LD_LIBRARY_PATH, and once with `--device host` on the same
kernels; every figure but those of time has to be the same. The package, the third, runs by its
PTX alone."""

import json
import os
import subprocess
import sys
import unittest

COMMAND, FOLDER, PACKAGE = sys.argv[1:4]
del sys.argv[1:4]
ARGUMENTS = ["--requests", "12", "--shrink", "64", "--verify=all", "--poison", "--json", "--quiet"]
# How long something took, and what the command says of its device and its kernels.
APART = {"record_ms_p50", "replay_host_ns_p50", "replay_driver_ns_p50", "bound", "device",
         "kernels", "wall_seconds"}


def run(*arguments, library=None):
    environment = dict(os.environ)
    environment.pop("LD_LIBRARY_PATH", None)
    if library:
        environment["LD_LIBRARY_PATH"] = library
    return subprocess.run([COMMAND, *arguments], env=environment, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def figures(report, path=""):
    """The report as pairs of a path and a figure."""
    if isinstance(report, dict):
        return [pair for name, inner in report.items() if name not in APART
                for pair in figures(inner, f"{path}/{name}")]
    return [(path, report)]


class RunTest(unittest.TestCase):
    maxDiff = None

    def test_says_what_the_linked_emulator_says(self):
        library = run("run", "--device", "cuda", *ARGUMENTS, library=FOLDER)
        linked = run("run", "--device", "host", "--kernels", "ptx", *ARGUMENTS)
        self.assertEqual((library.returncode, library.stderr), (0, ""))
        self.assertEqual((linked.returncode, linked.stderr), (0, ""))
        library, linked = json.loads(library.stdout), json.loads(linked.stdout)
        self.assertEqual(library["device"], "cuda")
        self.assertEqual(library["mismatches"], 0)
        self.assertGreater(library["comparisons"], 0)
        self.assertGreater(library["replays"], 0)
        self.assertEqual(figures(library), figures(linked))

    def test_a_package_with_cubins_runs_by_its_ptx(self):
        done = run("run", "--package", PACKAGE, "--requests", "2", "--shrink", "64", "--verify=all",
                   "--json", "--quiet", "--device", "cuda", library=FOLDER)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        report = json.loads(done.stdout)
        self.assertEqual(report["mismatches"], 0)
        self.assertGreater(report["comparisons"], 0)
        self.assertGreater(report["replays"], 0)

    def test_is_told_of_two_devices(self):
        os.environ["COPPICE_EMULATED_DEVICES"] = "2"
        self.addCleanup(os.environ.pop, "COPPICE_EMULATED_DEVICES")
        done = run("info", "--device", "cuda", "--json", library=FOLDER)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(json.loads(done.stdout)["driver"], "cuda")

    def test_a_setting_that_cannot_be_is_named(self):
        for name, value in (("DEVICES", "0"), ("DEVICES", "x"), ("MEMORY", "3"), ("STRICT", "yes")):
            variable = f"COPPICE_EMULATED_{name}"
            os.environ[variable] = value
            self.addCleanup(os.environ.pop, variable, None)
            done = run("info", "--device", "cuda", library=FOLDER)
            del os.environ[variable]
            self.assertNotEqual(done.returncode, 0, variable)
            self.assertRegex(done.stderr, "emulated libcuda.so.1: ")
            self.assertRegex(done.stderr, "cuInit: CUDA_ERROR_INVALID_VALUE")


if __name__ == "__main__":
    unittest.main()
