"""Why something is not measured."""


class Skip(Exception):
    """A reason that needs no more said of it, in one line."""


def one_line(error):
    """A Skip says it itself; another error is named."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, Skip) else f"{type(error).__name__}: {text}"
