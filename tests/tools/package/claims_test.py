#!/usr/bin/env python3
"""Goal: `coppice package claim` finds the strongest claim of programs whose claims are known, and
none that is too strong. Method: the programs of claims.zip, which PyTorch compiled
(make_claim_package.py); what is found is held to a table, then written into a copy, which `coppice
package run --poison` holds to runs of their own sizes at random pairs of sizes and buckets.

    claims_test.py COPPICE [PAIRS]      pairs of sizes per program, default 20, or 5 where
                                        COPPICE_TEST_SHARE asks for a part

claims_200.txt has what 200 pairs printed.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).with_name("claims.zip")
COPPICE = ""
PAIRS = 20 if os.environ.get("COPPICE_TEST_SHARE", "1") == "1" else 5
SEED = 17
SETS = 20  # Pairs that one process runs.
SECONDS_MAX = 3600

BITS, WITHIN = "bits", {"absolute": "1e-05", "relative": "0"}
ANY = {"padding": "any", "equal": BITS}
KNOWN = {
    "block": {"batch": ANY, "length": {"padding": "finite", "equal": BITS}},
    "mean": {"batch": ANY, "length": {"padding": "finite", "equal": WITHIN}},
    "sum": {"batch": ANY, "length": {"padding": "fill", "equal": BITS}},
    "maximum": {"batch": ANY, "length": None},
}
# At most the least length.
LENGTHS = {name: ["--input", "lengths=random:1:1:9"] for name in ("block", "mean")}
LEAST = {"batch": 2, "length": 8}


def command(*arguments):
    done = subprocess.run([COPPICE, "package", *map(str, arguments), "--json"], check=False,
                          capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode:
        raise AssertionError(f"{arguments}: {done.returncode}: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)


class ClaimsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.copy = pathlib.Path(scratch.name) / "claims.zip"
        shutil.copy(PACKAGE, self.copy)

    def claim(self, name, *more):
        found = command("claim", self.copy, "--program", name, "--pairs", PAIRS,
                        *LENGTHS.get(name, ()), *more)
        return found, {each["symbol"]: each["claim"] for each in found["symbols"]}

    def test_the_strongest_claim_of_each_symbol_is_found(self):
        for name, known in KNOWN.items():
            with self.subTest(program=name):
                self.assertEqual(known, self.claim(name)[1])

    def test_where_padding_gets_is_explained(self):
        found, _ = self.claim("maximum", "--explain", "--size-max", 24)
        batch, length = (symbol["path"] for symbol in found["symbols"])
        self.assertRegex(batch, "padding reaches no live element of an output or a temporary "
                                r"\(\d+ buckets followed\)$")
        self.assertRegex(length, r"padding of x reaches output\[0, 0\] in step 0: kernel "
                                 r"triton_red_fused_amax_0, PTX line \d+, thread \(")

    def test_what_is_claimed_holds_at_random_pairs_of_sizes(self):
        source = random.Random(SEED)
        for name in KNOWN:
            with self.subTest(program=name, seed=SEED):
                _, claims = self.claim(name, "--write")
                padded = [symbol for symbol in claims if claims[symbol]]
                pairs = compared = 0
                while pairs < PAIRS:
                    count = min(SETS, PAIRS - pairs)
                    run = self.run_sets(name, source, padded, count)
                    self.assertEqual([], run["mismatches"], f"seed {SEED}")
                    self.assertEqual([], run["findings"])
                    larger = [call for call in run["calls"] if call["bucket"] is not None
                              and call["bucket"] != call["extents"]]
                    self.assertGreater(len(larger), 0)
                    pairs += len(larger)
                    compared += run["compared"]
                print(f"{name}: {claims}: {pairs} sizes in larger buckets, {compared} comparisons, "
                      "0 differ", flush=True)

    def run_sets(self, name, source, padded, count):
        """Runs sizes in buckets, all of them drawn."""
        arguments = []
        for symbol, least in LEAST.items():
            buckets = sorted(source.sample(range(least + 1, 64), 5) + [64])
            sizes = [source.randint(least, 64) for _ in range(count)]
            arguments += ["--extent", f"{symbol}=" + ",".join(map(str, sizes))]
            if symbol in padded:
                arguments += ["--policy", f"{symbol}=" + ",".join(map(str, buckets))]
        return command("run", self.copy, "--program", name, "--calls", 1, "--poison",
                       *LENGTHS.get(name, ()), *arguments)


if __name__ == "__main__":
    COPPICE = sys.argv.pop(1)
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        PAIRS = int(sys.argv.pop(1))
    unittest.main()
