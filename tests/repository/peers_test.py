#!/usr/bin/env python3
"""Holds tests/graphs/PEERS.md to its word: every row is answered, by tests that exist.

A row marked `same` names at least one test of C++ or of python/tests as `Suite.Test`, one marked
`better` says why behind it, one marked `worse` gives a reason, with tests or without, and one
marked `not applicable` a reason alone. Rows that a reason names are there. The figures at the top
are those of the table, and enough of the rows that apply are the same or better. So is each pitfall
answered, and their number right.
"""

import collections
import pathlib
import re
import unittest

from answer_table import QUOTED, parts_of, rows_of, tests_of_cpp, tests_of_python

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "graphs" / "PEERS.md"
MARKS = ("same", "better", "worse", "not applicable")
SHARE_MIN = 85.0  # Percent of the rows that apply.
TOTALS = re.compile(
    r"^(\d+) tests: (\d+) same, (\d+) better, (\d+) worse, (\d+) not applicable\.\n"
    r"Of the (\d+) that apply, (\d+\.\d) % are the same or better\.$",
    re.MULTILINE,
)
PITFALLS = re.compile(r"^(\d+) pitfalls\.$", re.MULTILINE)


def answer_findings(subject, mark, answer, tests, peers):
    names, words = parts_of(answer)
    for name in names:
        if name not in tests:
            yield f"{subject}: there is no test {name}"
    for name in QUOTED.findall(words):
        if name.split(".")[-1].startswith("test_") and name not in peers:
            yield f"{subject}: there is no row {name}"
    if mark in ("same", "better") and not names:
        yield f"{subject}: has no counterpart"
    if mark != "same" and not words:
        yield f"{subject}: has no reason"
    if mark == "not applicable" and names:
        yield f"{subject}: has a counterpart and does not apply"


def totals_of(marks):
    count = collections.Counter(marks)
    applicable = len(marks) - count["not applicable"]
    good = count["same"] + count["better"]
    share = f"{100 * good / applicable:.1f}" if applicable else "0.0"
    return (len(marks), *(count[mark] for mark in MARKS), applicable, share)


def findings(text, tests):
    """What is wrong with the document `text` if `tests` are the tests that there are."""
    rows = rows_of(text, "Tests")
    peers = collections.Counter(QUOTED.findall(row[0])[0] for row in rows if "`" in row[0])
    for name in peers:
        if peers[name] > 1:
            yield f"{name}: has {peers[name]} rows"
    for subject, mark, behaviour, answer in rows:
        if mark not in MARKS:
            yield f"{subject}: is marked {mark}"
        if not behaviour:
            yield f"{subject}: has no behaviour"
        yield from answer_findings(subject, mark, answer, tests, peers)
    pitfalls = rows_of(text, "Pitfalls")
    for subject, _, _, answer in pitfalls:
        yield from answer_findings(subject, "same", answer, tests, peers)
    totals = totals_of([row[1] for row in rows])
    stated = TOTALS.search(text)
    if not stated or (*map(int, stated.groups()[:-1]), stated.groups()[-1]) != totals:
        yield f"the rows and their marks are {totals}"
    if float(totals[-1]) < SHARE_MIN:
        yield f"{totals[-1]} % are the same or better, and {SHARE_MIN} % have to be"
    stated = PITFALLS.search(text)
    if not stated or int(stated.group(1)) != len(pitfalls):
        yield f"there are {len(pitfalls)} pitfalls"


def declared_tests():
    compiled = (ROOT / "python" / "tests").glob("graph_behaviours_*_test.py")
    return {*tests_of_cpp(ROOT / "tests"), *tests_of_python(compiled)}


def stated_totals(*numbers, share="100.0"):
    return (
        "{} tests: {} same, {} better, {} worse, {} not applicable.\n"
        "Of the {} that apply, {} % are the same or better.".format(*numbers, share)
    )


ONE_SAME = stated_totals(1, 1, 0, 0, 0, 1)


def document(tests, totals=ONE_SAME, pitfalls="| A | b#1 | c | `S.T` |"):
    return (
        f"# Title\n\n{totals}\n\n## Tests\n\n| test | mark | what | answer |\n|---|---|---|---|\n"
        f"{tests}\n\n## Pitfalls\n\n| pitfall | report | what | answer |\n|---|---|---|---|\n"
        f"{pitfalls}\n\n"
        f"{pitfalls.count(chr(10)) + 1} pitfalls.\n"
    )


class PeersTest(unittest.TestCase):
    def expect(self, text, *parts):
        found = list(findings(text, {"S.T"}))
        self.assertEqual(len(parts), len(found), found)
        for part, finding in zip(parts, found):
            self.assertIn(part, finding)

    def test_every_row_is_answered_by_tests_that_exist(self):
        self.assertEqual([], list(findings(TABLE.read_text(encoding="utf-8"), declared_tests())))

    def test_answered_rows_have_no_finding(self):
        self.expect(document("| `a` | same | b | `S.T`; with a remark |"))
        rows = (
            ["| `a` | better | b | `S.T`, `S.T`; why |"]
            + [f"| `s{i}` | same | b | `S.T` |" for i in range(9)]
            + ["| `test_b` | worse | b | `S.T`; why |", "| `c` (#1) | worse | b | why |"]
            + ["| `d` | not applicable | b | why, as `test_b` |"]
        )
        totals = stated_totals(13, 9, 1, 2, 1, 12, share="83.3")
        self.expect(document("\n".join(rows), totals), "83.3 % are the same")
        self.expect(document("\n".join(rows[:-2]), stated_totals(11, 9, 1, 1, 0, 11, share="90.9")))

    def test_rows_without_an_answer_are_found(self):
        self.expect(document("| `a` | same | b | |"), "`a`: has no counterpart")
        self.expect(document("| `a` | same | b | why |"), "`a`: has no counterpart")
        self.expect(document("| `a` | same | | `S.T` |"), "`a`: has no behaviour")
        better = stated_totals(1, 0, 1, 0, 0, 1)
        self.expect(document("| `a` | better | b | `S.T` |", better), "`a`: has no reason")
        self.expect(document("| `a` | better | b | why |", better), "`a`: has no counterpart")
        worse = stated_totals(1, 0, 0, 1, 0, 1, share="0.0")
        self.expect(document("| `a` | worse | b | `S.T` |", worse), "no reason", "0.0 %")
        alien = stated_totals(1, 0, 0, 0, 1, 0, share="0.0")
        self.expect(
            document("| `a` | not applicable | b | `S.T`; why |", alien), "does not apply", "0.0 %"
        )
        unanswered = document("| `a` | same | b | `S.T` |", pitfalls="| A | b#1 | c | |")
        self.expect(unanswered, "A: has no counterpart")

    def test_tests_and_rows_that_do_not_exist_are_found(self):
        self.expect(document("| `a` | same | b | `S.T`, `S.U` |"), "no test S.U")
        self.expect(document("| `a` | same | b | `S.T`; as `C.test_x` |"), "no row C.test_x")

    def test_wrong_totals_marks_and_repeated_rows_are_found(self):
        self.expect(
            document("| `a` | C | b | `S.T`; why |"), "marked C", "are (1, 0, 0, 0, 0, 1", "0.0 %"
        )
        self.expect(
            document("| `a` | same | b | `S.T` |", stated_totals(2, 1, 0, 0, 0, 1)),
            "are (1, 1, 0, 0, 0, 1, '100.0')",
        )
        self.expect(
            document("| `a` | same | b | `S.T` |", stated_totals(1, 1, 0, 0, 0, 1, share="99.0")),
            "'100.0')",
        )
        twice = "| `a` | same | b | `S.T` |\n| `a` | same | c | `S.T` |"
        self.expect(document(twice, stated_totals(2, 2, 0, 0, 0, 2)), "a: has 2 rows")


if __name__ == "__main__":
    unittest.main()
