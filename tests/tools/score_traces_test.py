#!/usr/bin/env python3
"""Goal: score_traces.py cuts traces by time, scores what was learned on what came later, and says
what is wrong in one line; draw_traces.py draws what it says. Method: the scripts with the command,
which is the first argument, on traces drawn here or by the script; no bar is judged."""

import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "tune" / "score_traces.py"
sys.path.insert(0, str(SCRIPT.parent))
import draw_traces  # noqa: E402
import score_traces  # noqa: E402

COMMAND = sys.argv.pop(1)


def write_trace(path, rows, timed):
    draw = random.Random(7)
    lines = ["arrival_seconds,input_tokens,output_tokens"]
    for i in range(rows):
        arrival = f"{i * i / rows:.2f}" if timed else ""
        lines.append(f"{arrival},{draw.randint(1, 4000)},{draw.randint(1, 200)}")
    path.write_text("\n".join(lines) + "\n")


class ScoreTracesTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def score(self, *arguments):
        return subprocess.run([sys.executable, "-B", SCRIPT, *map(str, arguments)],
                              capture_output=True, text=True, check=False)

    def rows_of_parts(self, timed):
        path = self.folder / "trace.csv"
        write_trace(path, 1000, timed)
        return [len(part.read_text().splitlines()) - 1
                for part in score_traces.split(path, self.folder)]

    def test_cuts_at_60_percent_of_the_time_or_of_the_rows(self):
        self.assertEqual(self.rows_of_parts(timed=False), [600, 400])
        first, rest = self.rows_of_parts(timed=True)
        self.assertEqual(first + rest, 1000)
        self.assertAlmostEqual(first / 1000, 0.6 ** 0.5, places=2)

    def test_prints_a_table_and_bars_of_each_report(self):
        for name, timed in (("azure23_conv", True), ("sharegpt_len", False)):
            write_trace(self.folder / f"{name}.csv", 600, timed)
        done = self.score(COMMAND, self.folder, "--steps", 3000)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertEqual(done.stderr, "")
        for title in ("prompts: waste by count", "prompts at each preset's count",
                      "decode rows, 25 buckets", "load cycle", "learned at load 0.7"):
            self.assertIn(title, done.stdout)
        missed = len(re.findall("MISSED", done.stdout))
        self.assertEqual(done.returncode, 1 if missed else 0)
        self.assertEqual(len(re.findall("bar [0-9.]+: ", done.stdout)), 11)

    def draw(self, *arguments):
        script = SCRIPT.with_name("draw_traces.py")
        return subprocess.run([sys.executable, "-B", script, *map(str, arguments)],
                              capture_output=True, text=True, check=False)

    def test_traces_that_are_drawn_are_scored_and_a_seed_draws_them_again(self):
        drawn = {}
        for folder, seed in (("one", 1), ("again", 1), ("other", 2)):
            done = self.draw(self.folder / folder, "--requests", 300, "--seed", seed)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            drawn[folder] = {path.name: path.read_text()
                             for path in (self.folder / folder).iterdir()}
        self.assertEqual(drawn["one"], drawn["again"])
        self.assertEqual(sorted(drawn["one"]), sorted(f"{kind}.csv" for kind in draw_traces.KINDS))
        for name, text in drawn["one"].items():
            self.assertNotEqual(text, drawn["other"][name])
            rows = [row.split(",") for row in text.splitlines()[1:]]
            self.assertEqual(len(rows), 300)
            limit = draw_traces.KINDS[pathlib.Path(name).stem][1]
            self.assertTrue(all(1 <= int(prompt) <= limit for _, prompt, _ in rows), name)
            self.assertEqual(sorted(rows, key=lambda row: float(row[0])), rows)
        done = self.score(COMMAND, self.folder / "one", "--only", "prompts")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        for kind in draw_traces.KINDS:
            self.assertIn(kind, done.stdout)

    def test_says_what_it_cannot_draw(self):
        self.assertIn("give at least 1", self.draw(self.folder, "--requests", 0).stderr)
        (self.folder / "file").write_text("")
        done = self.draw(self.folder / "file")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_says_what_is_wrong(self):
        for arguments, what in (((COMMAND, self.folder), "there is no trace"),
                                ((self.folder / "none", self.folder), "No such file")):
            done = self.score(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(what, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            write_trace(self.folder / "azure23_conv.csv", 100, timed=True)


if __name__ == "__main__":
    unittest.main()
