"""Writes what follows from the description: `python3 tools/describe`; `--check` only says what
would change, and exits with 1 if something would.

The description are the public headers that families.py names: a field or an enumerator of them is
said there once, in code and comment. Read CONTRIBUTING.md, "One description", before changing it.
"""

import pathlib
import sys

from files import written
from headers import DescriptionError


def main():
    root = pathlib.Path(__file__).resolve().parents[2]

    def read(path):
        return (root / path).read_text(encoding="utf-8")

    try:
        texts = written(read)
    except DescriptionError as error:
        print(error, file=sys.stderr)
        return 1
    changed = [path for path, text in texts.items()
               if not (root / path).exists() or read(path) != text]
    for path in changed:
        if "--check" in sys.argv:
            print(f"{path}: does not follow from the headers; run tools/describe")
        else:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(texts[path], encoding="utf-8")
            print(path)
    return 1 if changed and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
