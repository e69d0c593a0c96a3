#!/usr/bin/env python3
"""Goal: coppice.fit passes what it is given to the command, and returns what that found.
Method: the shipped decoder, by a table of a server's steps and by lists of sizes.

    fit_test.py COPPICE [unittest's options]
"""

import os
import pathlib
import sys
import tempfile
import unittest

import coppice

DECODER = pathlib.Path(__file__).resolve().parents[2] / "samples" / "torch_decoder.zip"
COMMAND = pathlib.Path(sys.argv.pop(1)).resolve()
os.environ["PATH"] = os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]])


class FitTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_a_table_and_lists_of_the_same_sizes_find_the_same(self):
        rows, tokens = [1 + i % 7 for i in range(100)], [2 + i * i % 90 for i in range(60)]
        table = self.folder / "steps.csv"
        cells = zip(rows, tokens + [""] * (len(rows) - len(tokens)))
        table.write_text("decode_rows,mixed_tokens\n"
                         + "".join(f"{row},{token}\n" for row, token in cells))
        asked = dict(memory="1GiB", kv_bytes_per_token=4096, compare=["pow2"], lanes=2)
        by_table = coppice.fit(DECODER, table, **asked)
        by_lists = coppice.fit(DECODER, {"decode.batch": rows, "prefill.length": tokens}, **asked)
        self.assertEqual(by_table, by_lists)
        self.assertTrue(by_table["fits"])
        self.assertEqual([1 << 30, 2], [by_table["memory_bytes"], by_table["lanes"]])
        self.assertEqual(by_table["left_bytes"] // 4096, by_table["kv_tokens"])
        self.assertEqual("pow2", by_table["frontier"][-1]["name"])

    def test_options_reach_the_command(self):
        found = coppice.fit(DECODER, {"prefill.length": [9, 33, 40]}, goal="padding",
                            limit={"prefill.length": 40}, at={"prefill.batch": 2}, buckets=2,
                            exact="always", write=self.folder / "chosen",
                            plot=self.folder / "fit.svg")
        self.assertEqual(40, found["buckets"]["prefill.length"][-1])
        self.assertLessEqual(len(found["buckets"]["prefill.length"]), 2)
        self.assertEqual(0, found["padding_pct"])
        self.assertEqual({"prefill.length.json", "profile.json"},
                         {path.name for path in (self.folder / "chosen").iterdir()})
        self.assertIn("<svg", (self.folder / "fit.svg").read_text())

    def test_a_session_records_the_profile_that_was_written(self):
        path = DECODER.with_name("triton_kernels.zip")
        found = coppice.fit(path, {"main.rows": [5, 64, 100, 300]}, write=self.folder)
        buckets = found["buckets"]["main.rows"]
        with coppice.load(path, policies={"rows": buckets}):
            loaded = coppice.session().load_profile(str(self.folder / "profile.json"))
        self.assertEqual([len(buckets), 0], [loaded["recorded"], loaded["skipped"]])

    def test_what_does_not_fit_is_no_error(self):
        found = coppice.fit(DECODER, {"decode.batch": [3]}, memory=1 << 20, compare="pow2")
        self.assertFalse(found["fits"])
        self.assertIn("the best choice lacks", found["why"])
        self.assertNotIn("kv_tokens", found)
        self.assertLess(found["frontier"][0]["left_bytes"], 0)

    def test_wrong_options_are_the_commands_errors(self):
        for wrong, message in ((dict(goal="speed"), "speed"), (dict(memory="much"), "much"),
                               (dict(at={"decode.rows": 1}), "decode.batch")):
            with self.subTest(wrong), self.assertRaisesRegex(coppice.InvalidArgument, message):
                coppice.fit(DECODER, {"decode.batch": [3]}, **wrong)
        with self.assertRaisesRegex(coppice.InvalidArgument, "coppice.fit: "):
            coppice.fit(self.folder / "none.zip", {"decode.batch": [3]})
        for traffic in (5, None, {"decode.batch": [1.5]}, {"decode.batch": "123"}):
            with self.subTest(traffic), self.assertRaises(coppice.InvalidArgument):
                coppice.fit(DECODER, traffic)


if __name__ == "__main__":
    unittest.main()
