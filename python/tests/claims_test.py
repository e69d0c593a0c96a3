#!/usr/bin/env python3
"""Goal: a word for a claim means the same in coppice.wrap, coppice.load and torch.compile, and what
is none is refused everywhere in the same words. Method: a program returns all of a padded input,
poisoned, so that what its padding holds is seen.

    claims_test.py [unittest's options]

Without NumPy or the extension all is skipped; without PyTorch what needs it.
"""

import unittest

from load_test import SCALE, doubling
from wrap_test import WrapCase, device, launch_scale, np, scaled

import coppice
from coppice.claims import WORDS, claim_of
from coppice.errors import InvalidArgument
from coppice.export.manifest import Package
from coppice.running import empty

try:
    import torch

    from coppice.torch.options import parse
except ImportError:
    torch = None

SIZE, BUCKET = 5, 8
# What padding holds that is poisoned by NaNs, by the word and the dtype.
NAN, FINITE, FILL, TOP_BIT = "nan", "finite", "fill", "top bit"
SEEN = {"any": (NAN, TOP_BIT), "masked": (NAN, TOP_BIT), "row_independent": (NAN, FILL),
        "finite": (FINITE, FILL), "fill": (FILL, FILL)}
DTYPES = {"f32": np.float32, "i32": np.int32}


def packaged(dtype):
    """A package whose program returns the first BUCKET elements of x, twice as floats."""
    package = Package()
    module = package.add_module("scale", SCALE, "ptx", "sm_80")
    target = {"module": module, "symbol": "scale", "block": [128, 1, 1], "values": {}}
    package.add_kernel("scale", {"parameters": [8, 8, 4], "targets": [target]})
    package.add_program("main", {
        "symbols": {"n": {"min": 1, "max": BUCKET}}, "inputs": ["x"], "outputs": ["y"],
        "buffers": {"x": {"role": "input", "dtype": dtype, "shape": ["n"]},
                    "y": {"role": "output", "dtype": "f32", "shape": [BUCKET]}},
        "steps": [{"op": "kernel", "kernel": "scale", "grid": [1, 1, 1],
                   "args": [{"buffer": "x", "access": "r"}, {"buffer": "y", "access": "w"},
                            {"i32": "n"}]}]})
    return package.to_bytes()


def whole(x):
    y = empty((BUCKET,), "f32")
    launch_scale(x, y, 2.0)
    return y


def seen(y):
    """What the last element, which is padding, came from."""
    last = np.from_dlpack(y)[BUCKET - 1:]
    if np.isnan(last[0]):
        return NAN
    if last.view(np.uint32)[0] == 0:
        return FILL
    return TOP_BIT if last[0] == 0 else FINITE  # Twice the least finite float is an infinity.


class ClaimsTest(WrapCase):
    def test_a_word_means_the_same_to_wrap_to_its_dims_and_to_load(self):
        for word, expected in SEEN.items():
            for (name, dtype), there in zip(DTYPES.items(), expected):
                x = np.ones(SIZE, dtype)
                size = coppice.Dim("n", min=1, max=BUCKET, policy=[BUCKET])
                outputs = {"y": ("f32", [BUCKET])}
                doors = {
                    "wrap": coppice.wrap(whole, {"x": {0: size}}, claim=word, outputs=outputs,
                                         device="emulator"),
                    "Dim": coppice.wrap(
                        whole, {"x": {0: coppice.Dim("n", min=1, max=BUCKET, policy=[BUCKET],
                                                     claim=word)}},
                        outputs=outputs, device="emulator"),
                    "load": coppice.load(packaged(name), device, policies={"n": [BUCKET]},
                                         claims={"n": word})}
                for door, model in doors.items():
                    with self.subTest(word=word, dtype=name, door=door), model:
                        options = {"poison": "nan"}
                        for _ in range(2):
                            lease = (model.run(x, **options) if door == "load"
                                     else model.run(x, options=options))
                            self.assertEqual(there, seen(lease[0]))

    def test_what_is_exact_is_never_padded(self):
        x = np.ones(SIZE, np.float32)
        size = {"x": {0: coppice.Dim("n", max=64, claim="exact")}}
        with coppice.wrap(scaled, size, claim="any",
                          device="emulator") as fn:
            fn(x)
            self.assertEqual([[SIZE]], [one["bucket"] for one in fn.buckets()])
        with self.assertRaisesRegex(InvalidArgument, "its claim is exact.* policy"):
            coppice.Dim("n", max=64, claim="exact", policy="pow2")

    def test_a_claim_of_load_takes_that_of_the_package_away(self):
        package = doubling(main={"n": {"min": 1, "max": 64, "buckets": "pow2",
                                  "claim": {"padding": "any", "equal": "bits"}}})
        for claims, bucket in (({}, 8), ({"n": "exact"}, 5), ({"n": "fill"}, 8)):
            with self.subTest(claims=claims), coppice.load(package, device,
                                                           claims=claims) as model:
                model(np.ones(SIZE, np.float32))
                self.assertEqual([[bucket]], [one["bucket"] for one in model.entry.buckets()])

    def test_tolerances_go_with_every_word_that_pads(self):
        for word in WORDS[1:]:
            padding = "any" if word == "masked" else word
            self.assertEqual((padding, 0.0, 0.0), claim_of(word, "here"))
            self.assertEqual((padding, 0.5, 0.0), claim_of((word, 0.5), "here"))
            self.assertEqual((padding, 0.0, 1.0), claim_of([word, 0, 1], "here"))
        self.assertIsNone(claim_of("exact", "here"))
        self.assertIsNone(claim_of(None, "here"))

    def test_what_is_no_claim_is_refused_with_all_words_at_every_door(self):
        wrong = ("some", "", 3, ("any", -1), ("any", float("inf")), ("any", 0, 0, 0), ("any", "x"),
                 ("exact", 0), ("any", True), ())
        doors = [lambda claim: coppice.wrap(whole, {"x": {0: "n"}}, claim=claim, device="emulator"),
                 lambda claim: coppice.Dim("n", max=8, claim=claim),
                 lambda claim: coppice.load(packaged("f32"), device, claims={"n": claim})]
        if torch:
            doors += [lambda claim: parse({"claim": claim}),
                      lambda claim: parse({"claim": {"x:0": claim}})]
        for claim in wrong:
            for number, door in enumerate(doors):
                with self.subTest(claim=claim, door=number), \
                        self.assertRaisesRegex(ValueError, "is not a claim about") as caught:
                    door(claim)
                for word in WORDS:
                    self.assertIn(f'"{word}"', str(caught.exception))

    @unittest.skipUnless(torch, "torch is not installed")
    def test_torch_compile_takes_every_word(self):
        for word in WORDS[1:]:
            with self.subTest(word=word):
                self.assertEqual({"*": claim_of(word, "")}, parse({"claim": word}).claim)
        with self.assertRaisesRegex(ValueError, "pads nothing without a claim"):
            parse({"claim": "exact", "policy": "pow2"})
        with self.assertRaisesRegex(ValueError, "nothing is padded without a claim"):
            parse({"claim": "exact", "poison": "nan"})
        compiled = torch.compile(torch.nn.ReLU(), backend="coppice", dynamic=True,
                                 options={"claim": "row_independent", "policy": [16]})
        with torch.no_grad():
            x = torch.randn(SIZE, 4) - 1
            torch.testing.assert_close(torch.relu(x), compiled(x))
        self.assertIn([16], [one["bucket"][:1] for one in coppice.session().buckets()])


if __name__ == "__main__":
    unittest.main()
