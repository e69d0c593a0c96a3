"""What is asked of the fixtures of every compiler, and how a test of them is started.

    NAME_test.py COPPICE [--seeds N] [unittest's options]

With --seeds every fixture runs on N draws.
"""

import hashlib
import os
import pathlib
import random
import sys
import tempfile
import unittest

SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))


class FixtureTests:
    """Tests of `launches`, the module of a compiler's folder, which the class derived from this and
    from unittest.TestCase sets. Those that main() reads from the command line are set in here."""

    launches = None
    coppice = ""
    seeds = 1

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def run_drawn(self, launch, seed):
        drawn = self.launches.draw(launch, seed)
        return drawn, self.launches.run(self.coppice, launch, drawn, self.folder,
                                        options=["--seed", str(seed % (1 << 31))])

    def find_assert(self, launch, name, index, value):
        """The one finding of a launch whose input has a value that its kernel asserts not to be."""
        drawn = self.launches.draw(launch, SEED)
        drawn[name][index] = value
        done = self.launches.run(self.coppice, launch, drawn, self.folder)
        self.assertEqual(3, done.code)
        self.assertEqual(["assertion"], [finding["kind"] for finding in done.findings()])
        self.assertEqual([index, 0, 0], done.findings()[0]["thread"])
        return done.findings()[0]

    def test_each_kernel_computes_what_numpy_does_and_nothing_is_found(self):
        for launch in self.launches.read().values():
            for seed in range(SEED, SEED + self.seeds):
                with self.subTest(kernel=launch["name"], seed=seed):
                    drawn, done = self.run_drawn(launch, seed)
                    self.assertIn(done.code, (0, 3), done.errors)
                    self.assertEqual([], done.findings())
                    self.assertEqual([], self.launches.differences(launch, drawn, done))

    def test_fixtures_are_what_their_sources_say(self):
        here = self.launches.HERE
        for name, digest in self.launches.read_all()["sources"].items():
            self.assertEqual(digest, hashlib.sha256((here / name).read_bytes()).hexdigest(),
                             f"{name} has changed: run tests/ptx/{here.name}/make_fixtures.py")
        files = {path.name for path in self.launches.FIXTURES.glob("*.ptx")}
        self.assertEqual(files, {launch["file"] for launch in self.launches.read().values()})


def main():
    FixtureTests.coppice = sys.argv.pop(1)
    if sys.argv[1:2] == ["--seeds"]:
        FixtureTests.seeds = int(sys.argv[2])
        del sys.argv[1:3]
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main(module="__main__")
