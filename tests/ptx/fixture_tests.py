"""What is asked of the fixtures of every compiler, and how a test of them is started.

    NAME_test.py COPPICE [--seeds N] [unittest's options]

With --seeds every fixture runs on N draws. COPPICE_TEST_DRAWS says how many other contents of
padding are tried.
"""

import hashlib
import os
import pathlib
import random
import sys
import tempfile
import unittest
import zlib

import numpy as np

FLOATS = ("f16", "bf16", "f32", "f64")
# What cannot be followed: matrices of a warp in memory, products of warpgroups, bulk copies, and
# stores whose place or existence depends on padding.
GAPS = ("wmma.", "wgmma.", "cp.async.bulk", "cp.reduce", "tensormap", "mbarrier.", "stores ")
DRAWS = int(os.environ.get("COPPICE_TEST_DRAWS") or 4)
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

    def test_outputs_that_padding_changes_are_those_that_it_reaches(self):
        reached, unchanged, skipped = 0, {}, []
        for launch in self.launches.read().values():
            padded = Padded(self, launch)
            if not padded.inputs:
                continue
            with self.subTest(kernel=launch["name"], seed=SEED):
                where = padded.follow()
                if padded.gaps:
                    skipped.append(launch["name"])
                    continue
                changed = {name: np.zeros_like(mask) for name, mask in where.items()}
                for draw in range(DRAWS):
                    for name, differs in padded.differences(draw).items():
                        self.assertFalse((differs & ~where[name]).any(),
                                         f"{name}: padding changes what it does not reach")
                        changed[name] |= differs
                count = sum(int(mask.sum()) for mask in where.values())
                still = sum(int((mask & ~changed[name]).sum()) for name, mask in where.items())
                reached += count
                if still:
                    unchanged[launch["name"]] = f"{still} of {count}"
        print(f"padding reaches {reached} elements; {DRAWS} draws did not change of", unchanged,
              "; not followed:", skipped, file=sys.stderr)
        self.assertGreater(reached, 0)

    def test_fixtures_are_what_their_sources_say(self):
        here = self.launches.HERE
        for name, digest in self.launches.read_all()["sources"].items():
            self.assertEqual(digest, hashlib.sha256((here / name).read_bytes()).hexdigest(),
                             f"{name} has changed: run tests/ptx/{here.name}/make_fixtures.py")
        files = {path.name for path in self.launches.FIXTURES.glob("*.ptx")}
        self.assertEqual(files, {launch["file"] for launch in self.launches.read().values()})


class Padded:
    """A launch of which some elements of an input of floats are padding."""

    def __init__(self, test, launch):
        self.test, self.launch = test, launch
        self.random = np.random.default_rng([SEED, zlib.crc32(launch["name"].encode())])
        self.drawn = test.launches.draw(launch, SEED)
        self.inputs = [(index, parameter["name"]) for index, parameter
                       in enumerate(launch["parameters"])
                       if parameter["kind"] in ("in", "inout")
                       and parameter["type"] in FLOATS and np.size(self.drawn[parameter["name"]])]
        if self.inputs:
            index, self.name = self.inputs[self.random.integers(len(self.inputs))]
            self.mask = self.draw_mask(self.drawn[self.name].shape)
            self.options = ["--padding", f"{index}={test.folder / 'mask.npy'}"]

    def draw_mask(self, shape):
        """The end of an axis, or elements here and there."""
        mask = np.zeros(shape, bool)
        if mask.ndim and self.random.integers(2):
            axis = self.random.integers(mask.ndim)
            np.moveaxis(mask, axis, 0)[self.random.integers(shape[axis]):] = True
        else:
            mask.reshape(-1)[self.random.integers(mask.size, size=3)] = True
        return mask

    def run(self, drawn, options=()):
        return self.test.launches.run(self.test.coppice, self.launch, drawn, self.test.folder,
                                      options=["--seed", str(SEED % (1 << 31)), *options])

    def follow(self):
        """Which elements of each output padding reaches, by its name."""
        np.save(self.test.folder / "mask.npy", self.mask)
        done = self.run(self.drawn, [*self.options, "--reached", str(self.test.folder)])
        self.test.assertIn(done.code, (0, 3), done.errors)
        self.gaps = done.report["padding"]["gaps"]
        self.test.assertEqual([], [gap for gap in self.gaps if not gap.startswith(GAPS)])
        self.before = done.arrays
        return {parameter["name"]: np.load(self.test.folder / f"{index}.npy")
                for index, parameter in enumerate(self.launch["parameters"])
                if parameter["name"] in done.arrays}

    def differences(self, draw):
        """Which elements of each output differ with other padding."""
        values = self.drawn[self.name].copy()
        others = np.random.default_rng([SEED, draw]).permutation(values.reshape(-1))
        if draw % 2:  # Other bits: NaNs and large numbers among them.
            bits = np.random.default_rng([SEED, draw]).bytes(values.nbytes)
            others = np.frombuffer(bits, values.dtype)
        values[self.mask] = others[:int(self.mask.sum())]
        done = self.run({**self.drawn, self.name: values})
        if not done.report["completed"]:
            return {}
        return {name: np.atleast_1d(bits_of(array) != bits_of(self.before[name])).reshape(
            np.shape(array)) for name, array in done.arrays.items()}


def bits_of(array):
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def main():
    FixtureTests.coppice = sys.argv.pop(1)
    if sys.argv[1:2] == ["--seeds"]:
        FixtureTests.seeds = int(sys.argv[2])
        del sys.argv[1:3]
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main(module="__main__")
