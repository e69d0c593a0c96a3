#!/usr/bin/env python3
"""Holds GRAPH_BEHAVIOURS.md to its word: every row is answered, by tests that exist.

Its rows are those that tests/graphs/PEERS.md has of PyTorch's CUDA graph trees. A row marked `same`
names at least one test of the files beside this one, one marked `differs` also says why, one marked
`in C++` a test of the C++ tree and why, one `not applicable` a reason alone. Figures are those of
the table, enough rows are the same, no test of theirs is expected to fail, and every test is named.
"""

import ast
import collections
import pathlib
import re
import sys
import unittest

HERE, NAME = pathlib.Path(__file__).resolve().parent, pathlib.Path(__file__).name
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "repository"))

from answer_table import (QUOTED, parts_of, rows_of, tests_of_cpp,  # noqa: E402
                          tests_of_python)

TABLE, PEERS = HERE / "GRAPH_BEHAVIOURS.md", ROOT / "tests" / "graphs" / "PEERS.md"
OF_OTHER_FILES = re.compile(r"`Test(?:Cuda(?!graph)|Block|Caching|MemPool)\w*\.")
MARKS = ("same", "differs", "in C++", "not applicable")
SAME_MIN = 60
TOTALS = re.compile(r"^(\d+) tests: (\d+) same, (\d+) differ, (\d+) in C\+\+, "
                    r"(\d+) not applicable\.$", re.MULTILINE)


def row_findings(row, tests, others, subjects):
    """`tests` are ours, {name: whether it is to pass}; `others` those of C++."""
    subject, mark, answer = row
    names, words = parts_of(answer)
    known = others if mark == "in C++" else tests
    if mark not in MARKS:
        yield f"{subject}: is marked {mark}"
    for name in names:
        if name not in known:
            yield f"{subject}: there is no test {name}"
        elif not known[name]:
            yield f"{subject}: {name} is expected to fail"
    for name in QUOTED.findall(words):
        if name.startswith("test_") and f"`{name}`" not in subjects:
            yield f"{subject}: there is no row {name}"
    if mark != "not applicable" and not names:
        yield f"{subject}: no test answers it"
    if mark == "not applicable" and names:
        yield f"{subject}: has an answer and does not apply"
    if mark != "same" and not words:
        yield f"{subject}: has no reason"


def findings(text, tests, others, peers):
    """What is wrong with the page `text`, of which `peers` are the rows that there should be."""
    rows = rows_of(text, "Tests")
    subjects = [row[0] for row in rows]
    for row in rows:
        yield from row_findings(row, tests, others, subjects)
    for subject in sorted(set(peers) - set(subjects)):
        yield f"{subject}: has no row"
    for subject, count in collections.Counter(subjects).items():
        if count > 1 or subject not in peers:
            yield f"{subject}: has {count} rows and is {peers.count(subject)} times in PEERS.md"
    beyond = rows_of(text, "Beyond")
    for behaviour, answer in beyond:
        yield from row_findings((behaviour, "same", answer), tests, others, subjects)
    named = {name for *_, answer in rows + beyond for name in parts_of(answer)[0]}
    for name in sorted(set(tests) - named):
        yield f"{name}: answers no row"
    marks = collections.Counter(row[1] for row in rows)
    totals = (len(rows), *(marks[mark] for mark in MARKS))
    stated = TOTALS.search(text)
    if not stated or tuple(map(int, stated.groups())) != totals:
        yield f"the rows and their marks are {totals}"
    if marks["same"] < SAME_MIN:
        yield f"{marks['same']} rows are the same, and {SAME_MIN} have to be"


def tests_beside():
    """{"Class.test": whether it is to pass} of the files beside this one."""
    return tests_of_python(set(HERE.glob("graph_behaviours_*_test.py")) - {HERE / NAME})


def shares_beside():
    """{"Class.test"} of what a class names in IN_CI."""
    return {f"{one.name}.{name}" for path in HERE.glob("graph_behaviours_*_test.py")
            for one in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(one, ast.ClassDef) for part in one.body
            if isinstance(part, ast.Assign) and part.targets[0].id == "IN_CI"
            for name in ast.literal_eval(part.value)}


def peers_of_trees():
    """Rows of PEERS.md that are of the same file of PyTorch's."""
    return [row[0] for row in rows_of(PEERS.read_text(encoding="utf-8"), "Tests")
            if not OF_OTHER_FILES.match(row[0])]


def page(tests, totals, beyond="| A | `S.test_b` |"):
    return (f"# Title\n\n{totals}\n\n## Tests\n\n| test | mark | answer |\n|---|---|---|\n{tests}\n"
            f"\n## Beyond\n\n| behaviour | answer |\n|---|---|\n{beyond}\n")


class TableTest(unittest.TestCase):
    def expect(self, text, *parts, peers=("`test_a`",), tests=("S.test_a", "S.test_b")):
        known = {name: name != "S.test_red" for name in tests}
        found = [one for one in findings(text, known, {"C.D": True}, list(peers))
                 if f"{SAME_MIN} have to be" not in one]
        self.assertEqual(len(parts), len(found), found)
        for part, finding in zip(parts, found):
            self.assertIn(part, finding)

    def test_every_row_is_answered_by_tests_that_exist(self):
        self.assertEqual([], list(findings(TABLE.read_text(encoding="utf-8"), tests_beside(),
                                           tests_of_cpp(ROOT / "tests"), peers_of_trees())))

    def test_share_of_ci_is_a_quarter_of_tests_that_exist(self):
        tests, shares = tests_beside(), shares_beside()
        self.assertEqual(set(), shares - set(tests))
        self.assertLess(0.15, len(shares) / len(tests))
        self.assertLess(len(shares) / len(tests), 0.3)

    def test_answered_rows_have_no_finding(self):
        one = "1 tests: 1 same, 0 differ, 0 in C++, 0 not applicable."
        self.expect(page("| `test_a` | same | `S.test_a`; with a remark |", one))
        rows = ("| `test_a` | differs | `S.test_a`; why |\n| `test_b` | in C++ | `C.D`; why |\n"
                "| `test_c` | not applicable | as `test_b` |")
        self.expect(page(rows, "3 tests: 0 same, 1 differ, 1 in C++, 1 not applicable."),
                    peers=("`test_a`", "`test_b`", "`test_c`"))

    def test_wrong_rows_are_found(self):
        one = "1 tests: {}, 0 in C++, 0 not applicable."
        same, differ = one.format("1 same, 0 differ"), one.format("0 same, 1 differ")
        cpp = "1 tests: 0 same, 0 differ, 1 in C++, 0 not applicable."
        alien = "1 tests: 0 same, 0 differ, 0 in C++, 1 not applicable."
        for row, totals, parts in (
                ("| `test_a` | same | `S.test_c` |", same,
                 ["no test S.test_c", "S.test_a: answers"]),
                ("| `test_a` | same | why |", same, ["no test answers", "S.test_a: answers"]),
                ("| `test_a` | differs | `S.test_a` |", differ, ["no reason"]),
                ("| `test_a` | in C++ | `S.test_a`; why |", cpp, ["no test S.test_a"]),
                ("| `test_a` | not applicable | `S.test_a`; why |", alien, ["does not apply"]),
                ("| `test_a` | same | `S.test_a`; as `test_z` |", same, ["no row test_z"]),
                ("| `test_a` | good | `S.test_a`; why |", same, ["is marked", "marks are"]),
                ("| `test_a` | same | `S.test_a` |", differ, ["marks are (1, 1, 0, 0, 0)"]),
                ("| `test_z` | same | `S.test_a` |", same, ["has no row", "`test_z`: has 1 rows"])):
            with self.subTest(row=row):
                self.expect(page(row, totals), *parts)

    def test_tests_that_are_expected_to_fail_answer_nothing(self):
        self.expect(page("| `test_a` | same | `S.test_red` |",
                         "1 tests: 1 same, 0 differ, 0 in C++, 0 not applicable."),
                    "S.test_red is expected to fail", tests=("S.test_red", "S.test_b"))

    def test_too_few_that_are_the_same_are_found(self):
        text = page("| `test_a` | same | `S.test_a` |",
                    "1 tests: 1 same, 0 differ, 0 in C++, 0 not applicable.")
        found = list(findings(text, {"S.test_a": True, "S.test_b": True}, {}, ["`test_a`"]))
        self.assertEqual([f"1 rows are the same, and {SAME_MIN} have to be"], found)


if __name__ == "__main__":
    sys.exit(unittest.main())
