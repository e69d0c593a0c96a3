#!/usr/bin/env python3
"""Writes docs/reference/command/, the reference of all commands, from what they print for --help.

    commands.py COPPICE [--check]

COPPICE is the command; commands of Python are those of python/. --check only says which pages are
not what would be written, and exits with 1 if there are any.
"""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference" / "command"
MODULES = (("coppice.export",), ("coppice.prof", "export"), ("coppice.prof", "import"),
           ("coppice.prof", "timeline"), ("coppice.dashboard",))
TABLES = ("Positionals:", "Options:", "positional arguments:", "options:", "optional arguments:")
OWN_PAGES = ("bench", "package", "prof")  # Commands with many subcommands.
OPENING = """\
# {title}

This page shows what `--help` prints. [The command](../../command.md) says what you can do with it.
If a command has no exit codes here, it has those of [`coppice`](coppice.md#coppice).

"""
COLUMNS = 100


def help_of(arguments, **environment):
    return subprocess.run([*arguments, "--help"], check=True, text=True, capture_output=True,
                          env={**os.environ, **environment}).stdout


def sections(text):
    """Sections of a help: pairs of a heading, "" for text without one, and lines."""
    found = [("", [])]
    for line in text.rstrip().split("\n"):
        if line in (*TABLES, "Subcommands:"):
            found.append((line, []))
        elif line and not line.startswith(" ") and found[-1][0]:
            found.append(("", [line]))
        else:
            found[-1][1].append(line)
    return found


def entries(lines):
    """Names and descriptions of options, each maybe in several lines."""
    found = []
    for line in filter(str.strip, lines):
        if re.match(r"  \S", line):
            name, _, said = re.sub(r"(?<=\S)  +", "\0", line.strip(), count=1).partition("\0")
            cut = re.match(r"  (.{27}) (?!\.\.\.$)(\S.*)", line)
            if cut and not said and len(line) > 30:
                name, said = cut[1], cut[2]
            found.append([name, said])
        else:
            found[-1][1] += " " + line.strip()
    return [(plain(name), said.strip()) for name, said in found]


def plain(name):
    """An option as every version of argparse and of CLI11 may write it."""
    name = re.sub(r"(-\w) [A-Z.a-z]+, (--\w)", r"\1, \2", name.replace(" REQUIRED", " (required)"))
    return re.sub(r"(-\w),(--)", r"\1, \2", name).replace("|", "\\|")


def escaped(text):
    """A description as a cell of a table; its paths and numbers are no markup."""
    return re.sub(r"([|*_<])", r"\\\1", text)


def written(title, text, common):
    """Lines of a command. `common`: exit codes that are said elsewhere."""
    (_, head), *rest = sections(text)
    head = [line for line in "\n".join(head).partition("sage:")[0].split("\n")
            if line not in ("u", "U")]
    after = text.partition("\n\n")[2] if text.startswith("usage:") else ""
    lines = [f"## {title}", ""]
    said = "\n".join(head) if head and any(head) else after.partition("\n\n")[0]
    lines += [*textwrap.wrap(" ".join(said.split()), 100), ""]
    extra = []
    for heading, body in rest:
        if heading in TABLES:
            rows = [(name, what) for name, what in entries(body)
                    if not name.startswith("-h")]
            if rows:
                lines += [f"| {'argument' if 'osit' in heading else 'option'} | what it is |",
                          "|---|---|"]
                lines += [f"| `{name}` | {escaped(what)} |".replace("|  |", "| |")
                          for name, what in rows]
                lines.append("")
        elif not heading:
            extra += ["", *body]
    shown = "\n".join(extra).replace(common, "").strip("\n").split("\n")
    return lines + (["```text", *(part for line in shown for part in folded(line)), "```", ""]
                    if shown != [""] else [])


def folded(line):
    """A line of a table in lines that are not too long."""
    if len(line) <= COLUMNS:
        return [line]
    column = re.match(r" *\S+ *", line).end()
    return textwrap.wrap(line, COLUMNS, subsequent_indent=" " * column, drop_whitespace=True)


def subcommands(text):
    return [line.split()[0] for heading, body in sections(text) if heading == "Subcommands:"
            for line in body if re.match(r"  \S", line)]


def pages(coppice):
    """The text of each page by its name."""
    root = help_of([coppice])
    common = root[root.index("Exit codes:"):].strip()
    lines = {}

    def walk(*words):
        text = help_of([coppice, *words]) if words else root
        on = f"coppice_{words[0]}" if words and words[0] in OWN_PAGES else "coppice"
        lines.setdefault(on, []).extend(written(" ".join(["coppice", *words]), text,
                                                common if words else ""))
        for word in subcommands(text):
            walk(*words, word)

    walk()
    for module, *words in MODULES:
        text = help_of([sys.executable, "-B", "-m", module, *words], COLUMNS=str(COLUMNS),
                       NO_COLOR="1", PYTHONPATH=str(ROOT / "python"))
        lines.setdefault("python", []).extend(
            written(" ".join(["python -m", module, *words]), text, ""))
    titles = {"python": "Commands of Python"}
    return {f"{name}.md": OPENING.format(title=titles.get(name, name.replace("_", " "))) +
            "\n".join(found) for name, found in lines.items()}


def main():
    coppice, *more = sys.argv[1:]
    texts, stale = pages(coppice), []
    for path in sorted({*FOLDER.glob("*.md"), *(FOLDER / name for name in texts)}):
        text = texts.get(path.name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
    for path in stale:
        if "--check" in more:
            print(f"{path.relative_to(ROOT)} is not what --help says: run {sys.argv[0]} COPPICE")
        elif path.name in texts:
            path.parent.mkdir(exist_ok=True)
            path.write_text(texts[path.name], encoding="utf-8")
        else:
            path.unlink()
    return 1 if stale and "--check" in more else 0


if __name__ == "__main__":
    sys.exit(main())
