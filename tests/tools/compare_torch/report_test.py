#!/usr/bin/env python3
"""Shows that report.py says what the results say, hides nothing, and finds a stale page.

Goal: medians, spreads, verdicts and quotations that follow from compare.json and from nothing else.
Method: drawn examples whose medians are known, changed until each bar is missed, and damaged.

What needs scipy and matplotlib is skipped where they are missing, and says so.
"""

import copy
import importlib.util
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "compare_torch"
sys.path[:0] = [str(TOOL), str(pathlib.Path(__file__).resolve().parent)]
sys.dont_write_bytecode = True
import example_results  # noqa: E402
import measured  # noqa: E402
import report  # noqa: E402
import tables  # noqa: E402
import verdicts  # noqa: E402

MISSING = [name for name in ("scipy", "matplotlib") if importlib.util.find_spec(name) is None]
needs_packages = unittest.skipIf(MISSING, f"{', '.join(MISSING)} cannot be imported; "
                                          f"pip install -r {report.REQUIREMENTS}")
SEED = 1
ON_EMULATOR = {"on a driver that returns at once", "pool for all buckets"}


def way_of(result, side, section, at, name):
    cases = result["sections"][section][side]["report"]["cases"]
    return next(way for way in cases[at]["ways"] if way["name"] == name)


class ReportTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.result = example_results.example(SEED)

    def measure(self, result=None):
        folder = example_results.write(self.folder / "device-date", result or self.result)
        return measured.Measured(folder)

    def verdict(self, what, result):
        """The verdict of the first bar that speaks of `what`."""
        return next(bar for bar in verdicts.bars(self.measure(result)) if what in bar.what).verdict

    def test_quantiles_are_interpolated_between_the_two_nearest(self):
        self.assertEqual([1, 2.5, 4, 1.3], [
            measured.quantile([4, 1, 3, 2], share) for share in (0, 0.5, 1, 0.1)])
        self.assertEqual(measured.Spread(50, 10, 90), measured.Spread.of(list(range(101))))
        self.assertTrue(math.isnan(measured.median([])))

    @needs_packages
    def test_p_value_is_that_of_welch(self):
        # The example of unequal variances, degrees of freedom by hand: t = -2.8353, v = 27.88.
        ours = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7,
                21.4]
        theirs = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9,
                  30.0, 23.9]
        self.assertAlmostEqual(0.0084, measured.welch(ours, theirs), 3)
        self.assertEqual(1, measured.welch(ours, list(ours)))
        for undefined in (([1], [1, 2]), ([], [1, 2]), ([3, 3], [3, 3])):
            self.assertIsNone(measured.welch(*undefined))

    def test_example_meets_every_bar(self):
        bars = verdicts.bars(self.measure())
        self.assertEqual({verdicts.MET}, {bar.verdict for bar in bars},
                         [bar for bar in bars if bar.verdict != verdicts.MET])
        self.assertTrue(all(bar.share <= 1 for bar in bars))

    def test_each_bar_is_missed_by_results_that_miss_it(self):
        def slower(name, factor, side="coppice", section="steps", quantity="host_us"):
            def change(result):
                for at in range(len(result["sections"][section][side]["report"]["cases"])):
                    way = way_of(result, side, section, at, name)
                    way[quantity] = [value * factor for value in way[quantity]]
            return change

        def set_at(*path, value):
            def change(result):
                for key in path[:-1]:
                    result = result[key]
                result[path[-1]] = value
            return change

        soak = ("sections", "soak", "coppice", "report")
        dispatch = ("sections", "dispatch", "coppice", "report", "cases", 3, "overhead_ns_p50")
        asc = ("sections", "buckets", "coppice", "report", "cases", 0, "usage", "nodes")
        height = (*asc[:-2], "height_bytes")
        for what, change in (
                ("driver that returns at once", set_at(*dispatch, value=251)),
                ("on the device", slower("run", 1.2)),
                ("host time beyond the launch", slower("reduce_overhead_static", 0.2, "torch")),
                ("pool for all", set_at(*asc, value=600 << 20)),
                ("pool for all", set_at(*height, value=1 << 30)),
                ("sum of its kernel", slower("replay", 1.1, section="decode", quantity="gpu_us")),
                ("eager / replay", slower("eager", 0.5, section="decode", quantity="gpu_us")),
                ("the gate's choice", slower("eager", 0.5, section="decode", quantity="gpu_us")),
                ("soak: replays", set_at(*soak, "replays", value=999_999)),
                ("soak: records", set_at(*soak, "evictions", value=9_999)),
                ("soak: mismatches", set_at(*soak, "mismatches", value=1)),
                ("soak: memory", set_at(*soak, "flat", value=False))):
            changed = copy.deepcopy(self.result)
            change(changed)
            self.assertEqual(verdicts.MISSED, self.verdict(what, changed), what)

    def test_bar_of_the_gain_by_a_graph_has_what_the_kernels_allow_beside_it(self):
        bar = self.bar("eager / replay")
        self.assertAlmostEqual(140 / 46, bar.bound, delta=0.3)
        self.assertGreater(bar.bound, bar.value)
        row = next(row for row in tables.bars_table(self.measure()).rows if row[0] == bar.what)
        self.assertEqual(f"{tables.number(bar.bound)} x", row[3])
        del self.result["sections"]["kernels"]
        self.assertIsNone(self.bar("eager / replay").bound)
        self.assertEqual(verdicts.MET, self.bar("eager / replay").verdict)

    def bar(self, what):
        """The first bar that speaks of `what`."""
        return next(bar for bar in verdicts.bars(self.measure()) if what in bar.what)

    def cases(self, section, side="coppice"):
        return self.result["sections"][section][side]["report"]["cases"]

    def run_like_its_launch(self):
        """Session::Run takes less than the bare launch, which is noise."""
        for at in range(len(self.cases("steps"))):
            launch = way_of(self.result, "coppice", "steps", at, "launch")["host_us"]
            way_of(self.result, "coppice", "steps", at, "run")["host_us"] = [
                us - 0.01 for us in launch]

    def test_host_time_beyond_the_launch_is_never_below_that_of_dispatch(self):
        self.run_like_its_launch()
        bar = self.bar("beyond the launch")
        self.assertEqual(verdicts.MET, bar.verdict)
        theirs = min(verdicts.beyond_launch(case, "run", "reduce_overhead_static")[1]
                     for case in self.measure().steps())
        self.assertAlmostEqual(theirs / 0.057, bar.value)  # all_static: 57 ns.

    def test_host_time_that_is_nothing_is_not_measured_without_dispatch(self):
        self.run_like_its_launch()
        del self.result["sections"]["dispatch"]
        bar = self.bar("beyond the launch")
        self.assertEqual(verdicts.UNKNOWN, bar.verdict)
        self.assertIn("dispatch, the least it counts for, is missing", bar.note)

    def test_way_that_copies_its_input_is_held_against_one_that_copies_too(self):
        self.assertIn("reduce_overhead_static / run", self.bar("beyond the launch").note)
        for spoil in (lambda: self.cases("steps", "torch")[0]["copied_inputs"].update(
                reduce_overhead_static=1), lambda: way_of(
                    self.result, "torch", "steps", 0, "reduce_overhead_static").pop("host_us")):
            self.result = example_results.example(SEED)
            spoil()
            bar = self.bar("beyond the launch")
            self.assertIn("10 kernels, reduce_overhead / run_staged", bar.note)
            ours, theirs = verdicts.beyond_launch(self.measure().steps()[0], "run_staged",
                                                  "reduce_overhead")
            self.assertAlmostEqual(theirs / ours, bar.value)

    def test_bar_about_every_case_is_not_measured_if_one_is_missing_or_skipped(self):
        for what, section, side, at, named in (
                ("returns at once", "dispatch", "coppice", 2, "siblings_1000"),
                ("on the device", "steps", "coppice", 1, "run, 100 kernels"),
                ("beyond the launch", "steps", "torch", 3, "1000 kernels"),
                ("pool for all", "buckets", "coppice", 4, "desc, held"),
                ("every batch", "decode", "coppice", 8, "batch 256")):
            self.result = example_results.example(SEED)
            self.assertRegex(self.bar(what).note, r"^(\d+) of \1, worst: ")
            cases, full = self.cases(section, side), self.bar(what).note.split()[2].strip(",")
            whole = cases.pop(at)
            # Of a case that was skipped there is no more than its name.
            for spoilt in ([], [{**{key: value for key, value in whole.items() if key in (
                    "kernels", "batch", "order", "outputs")}, "skipped": "no memory"}]):
                if section == "dispatch" and spoilt:
                    continue  # It fails as a whole.
                cases[at:at] = spoilt
                bar = self.bar(what)
                self.assertEqual((verdicts.UNKNOWN, None), (bar.verdict, bar.value), what)
                self.assertRegex(bar.note, f"^\\d of {full}; lacking: .*{named}")

    def test_gate_that_failed_is_not_measured(self):
        self.cases("decode")[3]["gate_failed"] = "lost the device"
        bar = self.bar("the gate's choice")
        self.assertEqual(verdicts.UNKNOWN, bar.verdict)
        self.assertIn("8 of 9; lacking: batch 8 (gate: lost the device)", bar.note)

    def test_wrong_results_miss_their_bars_at_any_speed_and_on_any_device(self):
        for mode in ("cuda", "dry-run"):
            for section, at, wrong, expected in (
                    ("buckets", 3, {"mismatches": 2}, {"pool for all"}),
                    ("decode", 5, {"tokens_equal": False}, {"decode: the gate's choice"}),
                    ("decode", 0, {"tokens_equal": False}, {
                        "decode: the gate's choice", "decode, batch 1: replay",
                        "decode, batch 1: eager"})):
                self.result = example_results.example(SEED, mode)
                self.cases(section)[at].update(wrong)
                missed = [bar for bar in verdicts.bars(self.measure())
                          if bar.verdict == verdicts.MISSED]
                self.assertEqual(len(expected), len(missed), missed)
                for bar in missed:
                    self.assertTrue(any(bar.what.startswith(what) for what in expected), bar)
                    self.assertEqual(("wrong results: ", math.inf), (bar.note[:15], bar.share))

    def test_sum_of_other_kernels_than_a_step_launches_is_not_measured(self):
        kernels = self.result["sections"]["kernels"]["coppice"]["report"]
        for launched in (kernels["kernels"] + 1, None):
            kernels["launched"] = launched
            bar = self.bar("sum of its kernel")
            self.assertEqual(verdicts.UNKNOWN, bar.verdict)
            self.assertIn(f"ncu saw 40 kernels per step, and by its own count a step launches "
                          f"{launched}", bar.note)

    def test_medians_and_means_that_differ_in_direction_are_even(self):
        ours, theirs = [1.0] * 60 + [9.0] * 40, [2.0] * 100
        with unittest.mock.patch.object(verdicts, "welch", return_value=0.001):
            pair = verdicts.pair_of("x", ours, theirs, "us")
            self.assertEqual((0.5, verdicts.EVEN), (pair.ratio, pair.verdict))
            pair = verdicts.pair_of("x", [1.0] * 99 + [9.0], theirs, "us")
            self.assertEqual(verdicts.LESS, pair.verdict)

    def test_rounds_beside_recording_are_told_over_each_sides_own_control(self):
        stalls = [self.result["sections"]["buckets"][side]["report"]["stall"]
                  for side in ("coppice", "torch")]
        stalls[0].update(idle_us=[1, 2, 10], beside_us=[5, 6, 30])
        stalls[1].update(idle_us=[1, 2, 3], control_us=[10, 20, 200], beside_us=[50, 60, 400])
        pair = [*verdicts.stall_pairs(self.measure())][1]
        self.assertEqual((3, 2, "x"), (pair.ours, pair.theirs, pair.unit))
        self.assertIn("its control (coppice: idle; PyTorch: beside other Python), longest",
                      pair.what)

    def test_table_of_rounds_counts_those_that_were_not_kept_too(self):
        self.assertEqual({"60,000"}, {row[2] for row in tables.stall(self.measure()).rows})

    def test_undecided_gate_is_held_against_the_slower_way(self):
        case = self.result["sections"]["decode"]["coppice"]["report"]["cases"][0]
        case["gate"] = "undecided"
        self.assertEqual(verdicts.MISSED, self.verdict("the gate's choice", self.result))

    def test_graphs_of_different_node_counts_are_not_compared(self):
        for case in self.result["sections"]["steps"]["torch"]["report"]["cases"][1:]:
            case["nodes"]["reduce_overhead_static"] += 1
        bar = next(bar for bar in verdicts.bars(self.measure()) if "beyond the launch" in bar.what)
        self.assertEqual(verdicts.UNKNOWN, bar.verdict)
        self.assertIn("1 of 4; lacking: 100 kernels (100 and 101 nodes)", bar.note)

    def test_missing_section_makes_its_bars_not_measured_and_leaves_the_others(self):
        for section in list(self.result["sections"]):
            changed = copy.deepcopy(self.result)
            for part in changed["sections"][section].values():
                del part["report"]
                part["failed"] = "exit code 3"
            bars = verdicts.bars(self.measure(changed))
            self.assertNotIn(verdicts.MISSED, [bar.verdict for bar in bars], section)
            self.assertIn(verdicts.MET, [bar.verdict for bar in bars], section)
            self.assertIn("failed: exit code 3",
                          tables.sections(self.measure(changed)).markdown(), section)
        self.assertEqual(verdicts.UNKNOWN, self.verdict("soak", changed))

    def test_emulator_answers_for_what_needs_no_device_alone(self):
        bars = verdicts.bars(self.measure(example_results.example(SEED, "dry-run")))
        for bar in bars:
            holds = any(words in bar.what for words in ON_EMULATOR)
            self.assertEqual(verdicts.MET if holds else verdicts.UNKNOWN, bar.verdict, bar.what)

    def test_bytes_of_the_pool_are_told_from_those_of_graphs(self):
        ours, largest = self.measure().pools("coppice")[0], self.measure().largest("torch")
        self.assertEqual(example_results.LARGEST_BYTES, measured.pool_bytes(ours))
        self.assertAlmostEqual(15_900, measured.exec_bytes_per_node(ours))
        self.assertAlmostEqual(19_800, measured.exec_bytes_per_node(largest))
        self.assertIsNone(measured.exec_bytes_per_node({**largest, "nodes": None}))

    @needs_packages
    def test_side_that_takes_more_is_called_so_and_chance_is_called_even(self):
        slow = way_of(self.result, "coppice", "steps", 0, "run")
        slow["host_us"] = [10 * us for us in slow["host_us"]]
        found = {pair.what: pair for pair in verdicts.pairs(self.measure())}
        self.assertEqual(verdicts.MORE, found["10 kernels, host: run against cuda_graph"].verdict)
        self.assertEqual(verdicts.LESS, found["100 kernels, host: run against cuda_graph"].verdict)
        same = verdicts.pair_of("x", [1.0, 2.0, 3.0], [1.1, 1.9, 3.1], "us")
        self.assertEqual(verdicts.EVEN, same.verdict)
        self.assertIn("**MORE**", tables.sides_table(self.measure()).markdown())

    @needs_packages
    def test_ways_are_normalised_to_eager_of_their_own_side(self):
        rows = tables.steps_host(self.measure()).rows
        cells = {(row[0], row[1], row[2]): row for row in rows}
        for side, eager in (("coppice", 2600), ("PyTorch", 4602)):
            row = cells["1,000", side, "`eager`"]
            self.assertAlmostEqual(eager, float(row[4].replace(",", "")), delta=0.03 * eager)
            self.assertEqual(("1", "1.00"), (row[3], row[6]))  # Calls of a sample; / eager.
        self.assertAlmostEqual(3.15 / 26.3, float(cells["10", "coppice", "`run`"][6]), delta=0.01)

    @needs_packages
    def test_skipped_way_is_a_row_with_its_reason(self):
        way = way_of(self.result, "torch", "steps", 0, "reduce_overhead")
        way.pop("host_us")
        way["skipped"] = "no compiler"
        self.assertIn("skipped: no compiler", tables.steps_host(self.measure()).markdown())

    @needs_packages
    def test_every_table_is_written_with_its_figure_and_says_where_it_is_from(self):
        folder = self.measure().folder
        self.assertEqual([], report.write_folder(folder))
        quoted = report.quoted_tables(folder)
        self.assertEqual(set(tables.TABLES), set(quoted))
        for name, text in quoted.items():
            self.assertIn("Source: synthetic example", " ".join(text.split()), name)
            rows = [line for line in text.splitlines() if line.startswith("|")]
            self.assertEqual(1, len({line.replace("\\|", "").count("|") for line in rows}), name)
            self.assertNotIn(tables.EMULATED, text, name)
        import figures
        self.assertEqual(set(figures.FIGURES), {path.stem for path in folder.glob("*.svg")})
        drawn = {path: path.read_bytes() for path in folder.glob("*.svg")}
        for path, text in drawn.items():
            self.assertTrue(xml.etree.ElementTree.fromstring(text).tag.endswith("svg"), path)
        report.write_folder(folder)
        self.assertEqual(drawn, {path: path.read_bytes() for path in drawn})

    @needs_packages
    def test_times_of_an_emulator_are_marked_as_such(self):
        folder = self.measure(example_results.example(SEED, "dry-run")).folder
        self.assertEqual([], report.write_folder(folder))
        quoted = report.quoted_tables(folder)
        marked = {name for name, text in quoted.items() if tables.EMULATED in text}
        self.assertEqual({"bars", "dispatch", "record", "nodes", "pool", "soak", "sections"},
                         set(quoted) - marked)
        self.assertEqual({"bars", "dispatch", "soak"}, {path.stem for path in folder.glob("*.svg")})

    @needs_packages
    def test_results_of_another_form_cost_their_own_tables_alone(self):
        del self.result["sections"]["soak"]["coppice"]["report"]["memory"]
        self.result["sections"]["kernels"]["coppice"]["report"]["by_name"] = [{}]
        folder = self.measure().folder
        problems = report.write_folder(folder)
        self.assertTrue(any("soak cannot be made: KeyError" in problem for problem in problems))
        self.assertEqual({"soak", "kernels", "bars"},
                         set(tables.TABLES) - set(report.quoted_tables(folder)))
        self.assertEqual(1, report.main([str(folder)]))

    def page(self, body):
        """A root with a page that has this body, and a folder of quoted tables."""
        folder = self.folder / report.RESULTS / "dev"
        folder.mkdir(parents=True, exist_ok=True)
        example_results.write(folder, self.result)
        digest = measured.Measured(folder).digest
        (folder / report.TABLES).write_text(
            f"sha256 {digest}\n{report.block('pool', '| 1 |')}\n{report.block('soak', '| 2 |')}")
        (folder / "pool.svg").write_text("<svg/>")
        page = self.folder / "PAGE.md"
        page.write_text(body)
        return page

    def test_page_takes_its_tables_from_the_folders_and_is_then_in_step(self):
        page = self.page("a\n<!-- table: dev/pool -->\nold\n<!-- end -->\nb\n"
                         "<!-- table: dev/soak -->\n<!-- end -->\n"
                         f"![x]({report.RESULTS}/dev/pool.svg)")
        before = page.read_text()
        self.assertIn("not those of the folders", report.keep_page(page, True, self.folder)[0])
        self.assertEqual(before, page.read_text())
        self.assertEqual([], report.keep_page(page, False, self.folder))
        self.assertIn("-->\n| 1 |<!-- end -->\nb\n<!-- table: dev/soak -->\n| 2 |<!-- end",
                      page.read_text())
        self.assertEqual([], report.keep_page(page, True, self.folder))

    def test_what_a_page_cannot_quote_is_a_finding(self):
        for body, what in (
                ("<!-- table: dev/none -->\n<!-- end -->\n", "has no such table"),
                ("<!-- table: absent/pool -->\n<!-- end -->\n", "No such file"),
                ("<!-- table: dev/pool -->\nno end\n", "has no end"),
                (f"![x]({report.RESULTS}/dev/none.svg)\n", "there is no such figure")):
            problems = report.keep_page(self.page(body), True, self.folder)
            self.assertEqual(1, len(problems), body)
            self.assertIn(what, problems[0])

    def test_tables_that_are_not_of_the_results_are_not_quoted(self):
        page = self.page("<!-- table: dev/pool -->\n<!-- end -->\n")
        results = self.folder / report.RESULTS / "dev" / report.RESULT
        results.write_text(results.read_text() + " ")
        self.assertIn("is not of this compare.json", report.keep_page(page, False, self.folder)[0])
        self.assertNotIn("| 1 |", page.read_text())

    def test_wrong_arguments_end_with_2(self):
        (self.folder / "PAGE.md").write_text("")
        page = f"--page={self.folder}/PAGE.md"
        for arguments in ([], [str(self.folder)], ["--check"], [page, str(self.folder)],
                          ["--page=absent.md"], [page, "--no-such-option"]):
            done = subprocess.run([sys.executable, TOOL / "report.py", *arguments],
                                  check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(2, done.returncode, arguments)
            self.assertIn(b"report.py: error: ", done.stderr, arguments)

    def run_on_page(self, tool, page, *options):
        """Exit code and output of a report.py that has the standard library alone."""
        done = subprocess.run([sys.executable, "-S", tool / "report.py", "--page", page, *options],
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        return done.returncode, done.stdout

    def test_benchmarks_page_is_in_step_by_the_standard_library_alone(self):
        self.assertEqual((0, ""), self.run_on_page(TOOL, ROOT / "BENCHMARKS.md", "--check"))

    def test_page_is_held_to_the_folders_beside_the_tool_by_the_standard_library_alone(self):
        page = self.page("<!-- table: dev/pool -->\nold\n<!-- end -->\n")
        tool = self.folder / report.RESULTS.parent
        for name in ("report.py", "measured.py"):
            shutil.copy(TOOL / name, tool)
        self.assertEqual((1, "report: PAGE.md: its tables are not those of the folders; "
                             "run report.py --page\n"), self.run_on_page(tool, page, "--check"))
        self.assertEqual((0, ""), self.run_on_page(tool, page))
        self.assertEqual((0, ""), self.run_on_page(tool, page, "--check"))
        self.assertIn("| 1 |", page.read_text())
        (self.folder / report.RESULTS / "dev" / report.RESULT).unlink()
        self.assertEqual((1, "report: PAGE.md: dev/pool: No such file or directory\n"),
                         self.run_on_page(tool, page, "--check"))

    def test_benchmarks_page_lists_every_bar_with_its_limit_and_no_other(self):
        rows = [f"| {what} | {limit} |" for what, limit, *_ in tables.bars_table(
            self.measure()).rows]
        page = (ROOT / "BENCHMARKS.md").read_text().partition("\n## Bars\n")[2]
        section = page.partition("\n## ")[0]
        self.assertEqual(rows, [line for line in section.splitlines() if line.startswith("| ")][2:])

    def test_page_quotes_no_time_of_an_emulator(self):
        self.assertNotIn(tables.EMULATED, (ROOT / "BENCHMARKS.md").read_text())


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
