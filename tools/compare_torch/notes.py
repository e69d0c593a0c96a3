"""What a person reads of a measurement: where it is, and why something is not measured."""

import sys


class Skip(Exception):
    """A reason that needs no more said of it, in one line."""


def one_line(error):
    """A Skip says it itself; another error is named."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, Skip) else f"{type(error).__name__}: {text}"


def progress(text):
    print(text, file=sys.stderr, flush=True)


def rounded(values, digits=3):
    return [round(value, digits) for value in values]
