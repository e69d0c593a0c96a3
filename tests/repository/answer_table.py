"""Tables of Markdown whose rows say which tests answer something."""

import re

NAMES = re.compile(r"`\w+\.\w+`(?:, `\w+\.\w+`)*")
QUOTED = re.compile(r"`([\w.]+)`")


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
