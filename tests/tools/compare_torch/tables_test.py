#!/usr/bin/env python3
"""Shows that tables.py says what the results say, and hides nothing.

Goal: medians, verdicts and bars that follow from summary.json and from nothing else.
Method: an example that meets every bar, changed until each is missed, and damaged.
"""

import copy
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "compare_torch"
sys.path[:0] = [str(TOOL), str(pathlib.Path(__file__).resolve().parent)]
sys.dont_write_bytecode = True
import example_results  # noqa: E402
import tables  # noqa: E402

ON_EMULATOR = ("on a driver that returns at once", "pool for all buckets")


class TablesTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.result = example_results.example()

    def step(self, section, side="coppice"):
        return next(step for stage in self.result["stages"] if stage["name"] == section
                    for step in stage["steps"] if step["name"] == side)

    def report(self, section, side="coppice"):
        return self.step(section, side)["report"]

    def results(self):
        (self.folder / tables.SUMMARY).write_text(json.dumps(self.result))
        return tables.Results(self.folder)

    def bar(self, what):
        """The first bar that speaks of `what`."""
        return next(bar for bar in tables.bars(self.results()) if what in bar.what)

    def slow(self, section, side, name, quantity, factor):
        for case in self.report(section, side)["cases"]:
            for way in case["ways"]:
                if way["name"] == name:
                    way[quantity] = [value * factor for value in way[quantity]]

    def test_quantiles_are_interpolated_between_the_two_nearest(self):
        found = [tables.quantile([4, 1, 3, 2], share) for share in (0, 0.5, 1, 0.1)]
        for expected, value in zip([1, 2.5, 4, 1.3], found, strict=True):
            self.assertAlmostEqual(expected, value)
        self.assertTrue(math.isnan(tables.median([])))

    def test_p_value_is_that_of_welch(self):
        ours, theirs = example_results.times(1.0), example_results.times(1.0)
        self.assertEqual(1, tables.welch(ours, theirs))
        # Two standard errors apart: 0.0455 of the normal distribution.
        spread = [0.0, 2.0] * 50
        error = math.sqrt(2 * 100 / 99 / 100)
        self.assertAlmostEqual(0.0455, tables.welch(spread, [x + 2 * error for x in spread]), 4)
        for undefined in (([1], [1, 2]), ([], [1, 2]), ([3, 3], [3, 3])):
            self.assertIsNone(tables.welch(*undefined))

    def test_example_meets_every_bar(self):
        for bar in tables.bars(self.results()):
            self.assertEqual(tables.MET, bar.verdict, bar)

    def test_each_bar_is_missed_by_results_that_miss_it(self):
        def put(section, key, value):
            return lambda: self.report(section).update({key: value})

        def case(section, at, **values):
            return lambda: self.report(section)["cases"][at].update(values)

        for what, change in (
                ("driver that returns at once", case("dispatch", 3, overhead_ns_p50=251)),
                ("on the device", lambda: self.slow("steps", "coppice", "run", "host_us", 1.2)),
                ("host time beyond the launch", lambda: self.slow(
                    "steps", "torch", "reduce_overhead_static", "host_us", 0.2)),
                ("pool for all", case("buckets", 0, usage={"nodes": 1 << 30, "copy_out": 0})),
                ("pool for all", case("buckets", 1, height_bytes=1 << 30)),
                ("pool for all", case("buckets", 3, mismatches=2)),
                ("sum of its kernel", lambda: self.slow(
                    "decode", "coppice", "replay", "gpu_us", 1.1)),
                ("eager / replay", lambda: self.slow(
                    "decode", "coppice", "eager", "gpu_us", 0.5)),
                ("the gate's choice", case("decode", 2, gate="eager")),
                ("the gate's choice", case("decode", 0, gate="undecided")),
                ("the gate's choice", case("decode", 5, tokens_equal=False)),
                ("soak: replays", put("soak", "replays", 999_999)),
                ("soak: records", put("soak", "evictions", 9_999)),
                ("soak: mismatches", put("soak", "mismatches", 1)),
                ("soak: memory", put("soak", "flat", False))):
            self.result = example_results.example()
            change()
            self.assertEqual(tables.MISSED, self.bar(what).verdict, what)

    def test_what_is_missing_is_named_and_leaves_its_bar_open(self):
        for what, change, note in (
                ("the gate's choice", lambda: self.report("decode")["cases"][3].update(
                    gate_failed="lost the device"), "lacking: batch 8 (lost the device)"),
                ("sum of its kernel", lambda: self.report("kernels").update(launched=41),
                 "ncu saw 40 kernels per step, which launches 41"),
                ("beyond the launch", lambda: self.report("steps", "torch")["cases"][1]["nodes"]
                 .update(reduce_overhead_static=101), "100 kernels (100 and 101 nodes)"),
                ("on the device", lambda: self.report("steps")["cases"].pop(),
                 "lacking: run, 1000 kernels, run_staged, 1000 kernels"),
                ("pool for all", lambda: self.report("buckets")["cases"].pop(),
                 "lacking: largest, dropped")):
            self.result = example_results.example()
            change()
            bar = self.bar(what)
            self.assertEqual(tables.UNKNOWN, bar.verdict, bar)
            self.assertIn(note, bar.note)

    def test_missing_section_makes_its_bars_not_measured_and_leaves_the_others(self):
        whole = self.result
        for stage in whole["stages"]:
            self.result = copy.deepcopy(whole)
            for step in self.result["stages"][whole["stages"].index(stage)]["steps"]:
                del step["report"]
            verdicts = [bar.verdict for bar in tables.bars(self.results())]
            self.assertNotIn(tables.MISSED, verdicts, stage["name"])
            self.assertIn(tables.MET, verdicts, stage["name"])

    def test_emulator_answers_for_what_needs_no_device_alone(self):
        self.result = example_results.example("dry-run")
        for bar in tables.bars(self.results()):
            holds = any(words in bar.what for words in ON_EMULATOR)
            self.assertEqual(tables.MET if holds else tables.UNKNOWN, bar.verdict, bar.what)
        self.report("decode")["cases"][0]["tokens_equal"] = False
        self.assertEqual(tables.MISSED, self.bar("eager / replay").verdict)

    def test_bytes_of_the_pool_are_told_from_those_of_graphs(self):
        pools = self.results().pools("coppice")
        self.assertEqual(example_results.LARGEST_BYTES, tables.pool_bytes(pools["asc", "dropped"]))
        self.assertAlmostEqual(15_900, tables.exec_bytes_per_node(pools["largest", "dropped"]))
        self.assertIsNone(tables.exec_bytes_per_node({"nodes": None}))

    def test_side_that_takes_more_is_called_so_and_chance_is_called_even(self):
        self.slow("steps", "coppice", "run", "host_us", 10)
        found = {pair.what: pair for pair in tables.pairs(self.results())}
        self.assertEqual(tables.MORE, found["10 kernels: run against cuda_graph, host"].verdict)
        self.assertEqual(tables.EVEN, found["10 kernels: run against cuda_graph, GPU"].verdict)
        self.assertEqual(tables.LESS, found["pool, asc, outputs dropped"].verdict)
        pair, = tables.pair_of("x", [1.0] * 60 + [9.0] * 40, [2.0] * 100, "us")
        self.assertEqual(tables.EVEN, pair.verdict)  # Medians and means differ in direction.

    def test_every_table_is_written_and_a_skipped_way_keeps_its_row(self):
        ways = self.report("steps", "torch")["cases"][0]["ways"]
        ways[1] = {"name": "reduce_overhead", "skipped": "no compiler"}
        self.results()
        self.assertEqual([], tables.write(self.folder))
        text = (self.folder / tables.TABLES).read_text()
        for title in tables.LISTS:
            self.assertIn(f"## {title}\n", text)
        self.assertRegex(text, r"\| 10 \| PyTorch \| `reduce_overhead` .* no compiler \|")
        self.assertNotIn(tables.EMULATED, text)
        for table in text.split("## ")[1:]:
            rows = [line for line in table.splitlines() if line.startswith("|")]
            self.assertEqual(1, len({line.count(" | ") for line in rows}), table)

    def test_results_of_another_form_cost_their_own_table_alone(self):
        self.result["mode"] = "dry-run"
        self.report("kernels")["by_name"] = [{}]
        self.results()
        done = subprocess.run([sys.executable, TOOL / "tables.py", self.folder], check=False,
                              stderr=subprocess.PIPE)
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stderr, b"^tables: Kernels of one .* cannot be made: KeyError")
        text = (self.folder / tables.TABLES).read_text()
        self.assertIn("## Soak", text)
        self.assertIn(tables.EMULATED, text)

    def test_wrong_arguments_end_with_2(self):
        for arguments in ([], [str(self.folder)], [str(self.folder), "more"]):
            done = subprocess.run([sys.executable, TOOL / "tables.py", *arguments], check=False,
                                  stderr=subprocess.PIPE)
            self.assertEqual(2, done.returncode, arguments)
            self.assertIn(b"tables.py: error: ", done.stderr, arguments)

    def test_benchmarks_page_lists_every_bar_with_its_limit_and_no_other(self):
        rows = [f"| {bar.what} | {bar.limit} |" for bar in tables.bars(self.results())]
        page = (ROOT / "BENCHMARKS.md").read_text().partition("\n## Bars\n")[2]
        section = page.partition("\n## ")[0]
        self.assertEqual(rows, [line for line in section.splitlines() if line.startswith("| ")][2:])


if __name__ == "__main__":
    unittest.main()
