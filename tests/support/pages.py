"""The pages of the documentation, and what they show.

A fence says what its block is:

    python    a program of its own, which prints the block of `text` behind it, if there is one
    bash      commands that run in a folder of the page; lines of the block of `text` behind them
              are in what they print, in that order, and other lines may lie between. The last
              command may exit with another code than 0: `# exits with 3` says so
    cpp, c    lines of a program in samples/ (tools/tidy.py)
    sh, py,   shown alone: what installs, needs a GPU, or needs data that is not here;
    cmake     tests/repository/pages_test.py lists them with the reason, or with what tests them
    text      what a block prints, or a drawing
"""

import dataclasses
import os
import pathlib
import re
import stat
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.M | re.S)
EXITS = re.compile(r"# exits with (\d+)$")
LINKED = ("samples", "tests", "tools")  # Folders that commands find beside them.
SECONDS_MAX = 600


@dataclasses.dataclass(frozen=True)
class Block:
    page: str  # Its path in the repository.
    line: int
    language: str
    code: str
    shown: str  # What it prints; empty: nothing is said.

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    def needs(self):
        """The tools that commands of a block of bash use: "coppice", "python" (with PyTorch and
        the extension), "python3" (with NumPy), "samples" (programs that are built)."""
        used = {"samples"} if re.search(r"^\./", self.code, re.M) else set()
        return used | set(re.findall(r"^(coppice|python3?) ", self.code, re.M))


def paths():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path, *languages):
    text = path.read_text()
    return [Block(path.relative_to(ROOT).as_posix(), text.count("\n", 0, found.start()) + 1,
                  found[1], found[2], found[3] or "")
            for found in FENCE.finditer(text) if found[1] in languages]


def first_missing(shown, printed):
    """The first line of `shown` that is not in `printed` behind those before it; None if all are.
    Spaces and addresses may differ."""
    at, text = 0, plain(printed)
    for line in filter(str.strip, shown.splitlines()):
        found = text.find(plain(line), at)
        if found < 0:
            return line
        at = found + len(plain(line))
    return None


def plain(text):
    return " ".join(re.sub(r"0x[0-9a-f]+", "0x", text).split())


class Folder:
    """Where the commands of a page run. `tools`: {name: path} of those that there are; of "samples"
    the folder."""

    def __init__(self, folder, tools):
        self.folder, self.tools = pathlib.Path(folder), tools
        programs = self.folder / ".programs"
        programs.mkdir()
        for name in LINKED:
            (self.folder / name).symlink_to(ROOT / name)
        for name, path in tools.items():
            if name == "samples":
                for program in pathlib.Path(path).iterdir():
                    if program.is_file() and os.access(program, os.X_OK):
                        (self.folder / program.name).symlink_to(program.resolve())
                continue
            wrapper = programs / name  # A link to a virtual environment's Python would leave it.
            wrapper.write_text(f'#!/bin/sh\nexec "{path}" "$@"\n')
            wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
        self.environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1",
                            "PATH": f"{programs}:{os.environ['PATH']}"}

    def run(self, block):
        """What is wrong with a block of bash; None: nothing."""
        wanted = EXITS.search(block.code.strip())
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", block.code], cwd=self.folder,
                              env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX,
                              check=False)
        if done.returncode != int(wanted[1] if wanted else 0):
            return f"exits with {done.returncode}: {done.stdout[-2000:]}"
        missing = first_missing(block.shown, done.stdout)
        return None if missing is None else f"does not print {missing!r}: {done.stdout[-2000:]}"


def run_commands(case, tools, chosen=lambda block: True):
    """Runs, for a test case, the blocks of bash of all pages whose tools are there. Returns how
    many."""
    count = 0
    for path in paths():
        found = [block for block in blocks(path, "bash") if chosen(block)]
        if not found:
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Folder(name, tools)
            for block in found:
                if block.needs() <= set(tools):
                    count += 1
                    with case.subTest(block.place):
                        case.assertIsNone(folder.run(block))
    return count
