#!/usr/bin/env python3
"""Turns folders of results into tables and figures, and keeps a page in step with them.

  report.py FOLDER...             writes FOLDER/tables.md and a figure per table beside it
  report.py --page PAGE           replaces what PAGE quotes of tables.md in RESULTS
  report.py --page PAGE --check   says whether PAGE is what the folders say; changes nothing

FOLDER holds the compare.json that compare_torch.py wrote. A page quotes a table between the lines
`<!-- table: FOLDER/NAME -->` and `<!-- end -->`, and shows figures as images. tables.md names the
digest of its compare.json, so that one that is out of date is found.

The first form needs matplotlib and scipy, see requirements.txt; the others need nothing.

Exit codes: 0 success; 1 a table or figure cannot be made, or a page is not in step; 2 wrong
arguments.
"""

import argparse
import hashlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = pathlib.PurePosixPath("tools/compare_torch/results")
sys.path.insert(0, str(ROOT / "tools" / "compare_torch"))
from measured import RESULT, Measured  # noqa: E402

REQUIREMENTS = "tools/compare_torch/requirements.txt"
TABLES = "tables.md"
BLOCK = re.compile(r"<!-- table: (?P<name>\S+) -->\n(?P<body>.*?)<!-- end -->\n", re.DOTALL)
OPENING = re.compile(r"<!-- table: ")
IMAGE = re.compile(rf"\]\(({RESULTS}/[^)\s]+)\)")
DIGEST = re.compile(r"sha256 ([0-9a-f]{64})")


def block(name, body):
    return f"<!-- table: {name} -->\n{body}<!-- end -->\n"


def blocks(text):
    return {match["name"]: match["body"] for match in BLOCK.finditer(text)}


def write_folder(folder):
    """Writes tables and figures; returns what could not be made."""
    import figures
    import tables

    measured = Measured(folder)
    texts, problems = tables.all_tables(measured)
    for path in folder.glob("*.svg"):
        path.unlink()  # Of an earlier report, which may have had more.
    drawn, undrawn = figures.draw(measured, folder)
    lines = [f"# {measured.name}\n\nBy report.py from {RESULT}, sha256 {measured.digest}.\n"]
    for name, text in texts.items():
        image = f"\n![{name}]({name}.svg)\n" if name in drawn else ""
        lines.append(f"## {name}\n\n{block(name, text)}{image}")
    (folder / TABLES).write_text("\n".join(lines))
    return problems + undrawn


def quoted_tables(folder):
    """The tables of a folder by name. OSError, ValueError: there are none, or they are stale."""
    text = (folder / TABLES).read_text()
    digest = DIGEST.search(text)
    if not digest or digest[1] != hashlib.sha256((folder / RESULT).read_bytes()).hexdigest():
        raise ValueError(f"{TABLES} is not of this {RESULT}; run report.py on the folder")
    return blocks(text)


def renew(text, root):
    """The page with every table as its folder has it, and what is wrong with it."""
    problems, folders = [], {}

    def renewed(match):
        folder, _, name = match["name"].rpartition("/")
        try:
            if folder not in folders:
                folders[folder] = quoted_tables(root / RESULTS / folder)
            return block(match["name"], folders[folder][name])
        except KeyError:
            problems.append(f"{match['name']}: {TABLES} has no such table")
        except (OSError, ValueError) as error:
            problems.append(f"{match['name']}: {getattr(error, 'strerror', None) or error}")
        return match.group()

    page = BLOCK.sub(renewed, text)
    if len(OPENING.findall(text)) != len(BLOCK.findall(text)):
        problems.append("a table has no end: write <!-- end --> on a line of its own")
    problems += [f"{image}: there is no such figure" for image in IMAGE.findall(text)
                 if not (root / image).is_file()]
    return page, problems


def keep_page(path, check, root=ROOT):
    """Renews the page or checks it; returns what is wrong with it."""
    text = path.read_text()
    page, problems = renew(text, root)
    if check and page != text:
        problems.append("its tables are not those of the folders; run report.py --page")
    elif not check and page != text:
        path.write_text(page)
    return [f"{path.name}: {problem}" for problem in problems]


def parse(arguments):
    parser = argparse.ArgumentParser(prog="report.py", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="FOLDER", nargs="*", type=pathlib.Path)
    parser.add_argument("--page", metavar="PAGE", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    if bool(options.folders) == bool(options.page):
        parser.error("give either folders or --page PAGE")
    if options.check and not options.page:
        parser.error("--check is about a page; give --page PAGE")
    for folder in options.folders:
        if not (folder / RESULT).is_file():
            parser.error(f"{folder} has no {RESULT}")
    if options.page and not options.page.is_file():
        parser.error(f"{options.page} is no file")
    return options


def main(arguments):
    options = parse(arguments)
    problems = []
    try:
        for folder in options.folders:
            problems += [f"{folder.name}: {problem}" for problem in write_folder(folder)]
        if options.page:
            problems += keep_page(options.page, options.check)
    except ImportError as error:
        problems.append(f"{error.name} is missing; pip install -r {REQUIREMENTS}")
    except (OSError, ValueError) as error:
        problems.append(str(error))
    for problem in problems:
        print(f"report: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
