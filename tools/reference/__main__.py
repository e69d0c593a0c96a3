"""Writes the reference into pages: `python3 tools/reference FOLDER`.

FOLDER has the pages as tools/docs.sh copies them, docs/ included. A line of a page below
docs/reference/ such as these is replaced by the reference of what it names:

    ::: include/coppice/graphs/session.h      what a header declares, with its comments
    ::: coppice.prof                          a module of Python, and all that is public in it
    ::: coppice Session Lease                 these names of it alone
    ::: errors                                messages of errors, from all sources
"""

import pathlib
import sys

from pages import Reference, pages_in


def main():
    folder = pathlib.Path(sys.argv[1])
    for path, text in Reference(pages_in(folder)).pages.items():
        (folder / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
