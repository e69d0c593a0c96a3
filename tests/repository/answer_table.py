"""Tables of Markdown whose rows say which tests answer something, and the tests that there are."""

import ast
import re

NAMES = re.compile(r"`\w+\.\w+`(?:, `\w+\.\w+`)*")
QUOTED = re.compile(r"`([\w.]+)`")
DECLARED = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)


def rows_of(text, heading):
    """The cells of the table under `heading`, without its two head lines."""
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.split("\n") if line.startswith("|")]
    return [[cell.strip() for cell in line[1:].rstrip("|").split(" |")] for line in lines[2:]]


def parts_of(answer):
    """The tests that an answer begins with, and the words behind them."""
    begin = NAMES.match(answer)
    if not begin:
        return [], answer
    rest = answer[begin.end():]
    return QUOTED.findall(begin.group()), rest.removeprefix("; ")


def tests_of_cpp(folder):
    """{"Suite.Test": True} of all sources below `folder`."""
    return {f"{suite}.{test}": True for path in folder.rglob("*_test.cc")
            for suite, test in DECLARED.findall(path.read_text(encoding="utf-8"))}


def tests_of_python(paths):
    """{"Class.test": whether it is to pass} of these files."""
    return {f"{one.name}.{test.name}": not test.decorator_list for path in paths
            for one in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(one, ast.ClassDef) for test in one.body
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")}
