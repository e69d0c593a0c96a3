#!/usr/bin/env python3
"""Holds tests/graphs/COUNTERPARTS.md to its word: every row is answered, by tests that exist.

A row marked `C` and a pitfall name at least one test as `Suite.Test`; one marked `C*` names a test
or begins with `none: ` and a reason. The totals under the tables are theirs.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "graphs" / "COUNTERPARTS.md"
DECLARED = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
NAMED = re.compile(r"`(\w+\.\w+)`")
TOTALS = re.compile(r"^(\d+) rows: (\d+) marked `C`, (\d+) marked `C\*`\.$", re.MULTILINE)
PITFALLS = re.compile(r"^(\d+) pitfalls\.$", re.MULTILINE)


def rows_of(text, heading):
    """The cells of the table under `heading`, without its two head lines."""
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.split("\n") if line.startswith("|")]
    return [[cell.strip() for cell in line[1:].rstrip("|").split(" |")] for line in lines[2:]]


def answer_findings(subject, answer, may_be_none, tests):
    names = NAMED.findall(answer)
    for name in names:
        if name not in tests:
            yield f"{subject}: there is no test {name}"
    if not names and not (may_be_none and re.match(r"none: \S", answer)):
        yield f"{subject}: has neither a counterpart nor a reason"


def findings(text, tests):
    """What is wrong with the document `text` if `tests` are the tests that there are."""
    marks = []
    for subject, mark, _, answer in rows_of(text, "Tests"):
        marks.append(mark)
        if mark not in ("C", "C*"):
            yield f"{subject}: is marked {mark}"
        yield from answer_findings(subject, answer, mark == "C*", tests)
    pitfalls = rows_of(text, "Pitfalls")
    for subject, _, _, answer in pitfalls:
        yield from answer_findings(subject, answer, False, tests)
    totals = (len(marks), marks.count("C"), marks.count("C*"))
    stated = TOTALS.search(text)
    if not stated or tuple(map(int, stated.groups())) != totals:
        yield f"the rows and their marks are {totals}"
    stated = PITFALLS.search(text)
    if not stated or int(stated.group(1)) != len(pitfalls):
        yield f"there are {len(pitfalls)} pitfalls"


def declared_tests():
    return {
        f"{suite}.{test}"
        for path in (ROOT / "tests").rglob("*_test.cc")
        for suite, test in DECLARED.findall(path.read_text(encoding="utf-8"))
    }


def document(
    tests, pitfalls="| A | b#1 | c | `S.T` |", totals="1 rows: 1 marked `C`, 0 marked `C*`."
):
    return (
        f"# Title\n\n## Tests\n\n| test | mark | what | answer |\n|---|---|---|---|\n{tests}\n\n"
        f"{totals}\n\n## Pitfalls\n\n| pitfall | report | what | answer |\n|---|---|---|---|\n"
        f"{pitfalls}\n\n"
        f"{pitfalls.count(chr(10)) + 1} pitfalls.\n"
    )


class CounterpartsTest(unittest.TestCase):
    def expect(self, text, *parts):
        found = list(findings(text, {"S.T"}))
        self.assertEqual(len(parts), len(found), found)
        for part, finding in zip(parts, found):
            self.assertIn(part, finding)

    def test_every_row_is_answered_by_tests_that_exist(self):
        self.assertEqual([], list(findings(TABLE.read_text(encoding="utf-8"), declared_tests())))

    def test_answered_rows_have_no_finding(self):
        self.expect(document("| `a` | C | b | `S.T`; with a remark |"))
        self.expect(
            document("| `a` | C* | b | none: why |", totals="1 rows: 0 marked `C`, 1 marked `C*`.")
        )

    def test_rows_without_an_answer_are_found(self):
        self.expect(document("| `a` | C | b | |"), "`a`: has neither")
        self.expect(document("| `a` | C | b | none: why |"), "`a`: has neither")
        self.expect(
            document("| `a` | C* | b | none: |", totals="1 rows: 0 marked `C`, 1 marked `C*`."),
            "`a`: has neither",
        )
        unanswered = document("| `a` | C | b | `S.T` |", pitfalls="| A | b#1 | c | |")
        self.expect(unanswered, "A: has neither")

    def test_tests_that_do_not_exist_are_found(self):
        self.expect(document("| `a` | C | b | `S.T`, `S.U` |"), "no test S.U")

    def test_wrong_totals_and_marks_are_found(self):
        self.expect(document("| `a` | D | b | `S.T` |"), "marked D", "are (1, 0, 0)")
        self.expect(
            document("| `a` | C | b | `S.T` |", totals="2 rows: 1 marked `C`, 0 marked `C*`."),
            "are (1, 1, 0)",
        )


if __name__ == "__main__":
    unittest.main()
