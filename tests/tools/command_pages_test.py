#!/usr/bin/env python3
"""Goal: the reference of the command has every subcommand and option, as --help says them, and
docs/command.md names every subcommand.

  command_pages_test.py COPPICE [unittest's options]

Method: pages are written again and compared; names of options are also read from what --help
prints, by patterns of this file's own. Pages are changed, in memory, in ways that have to be found.
"""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "reference"))

import commands  # noqa: E402

FOLDER = ROOT / "docs" / "reference" / "command"
COPPICE = sys.argv.pop(1)
BY_GROUP = {"bench"}  # Named as a whole on docs/command.md, which links to their page.


def help_of(*words):
    return subprocess.run([COPPICE, *words, "--help"], check=True, text=True,
                          capture_output=True).stdout


def all_commands(*words):
    """Words and options of each command that there is."""
    text = help_of(*words)
    options = text.partition("\nOptions:\n")[2].partition("\n\n")[0]
    yield words, re.findall(r"^  (?:-\w,)?(--[\w-]+)", options, re.M)
    for name in re.findall(r"^  (\w+) ", text.partition("\nSubcommands:\n")[2].partition("\n\n")[0],
                           re.M):
        yield from all_commands(*words, name)


def lacking(pages):
    """Commands and options that texts of pages lack."""
    sections = {}
    for text in pages:
        for part in re.split(r"^## ", text, flags=re.M)[1:]:
            sections[part.partition("\n")[0]] = part
    for words, options in all_commands():
        name = " ".join(["coppice", *words])
        if name not in sections:
            yield name
        yield from (f"{name} {option}" for option in options if option != "--help" and
                    not re.search(rf"^\| `(-\w, )?{option}[ `]", sections.get(name, ""), re.M))


class CommandPagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.md"))}

    def test_pages_are_what_help_says(self):
        written = commands.pages(COPPICE)
        self.assertEqual(sorted(written), sorted(self.pages))
        for name, text in written.items():
            with self.subTest(name, again="python3 tools/reference/commands.py COPPICE"):
                self.assertEqual(text, self.pages[name])

    def test_every_subcommand_and_option_is_on_a_page(self):
        self.assertEqual([], list(lacking(self.pages.values())))

    def test_what_a_page_lacks_is_found(self):
        changed = [text.replace("| `--dump-graphs ", "| `--dump-").replace("## coppice prof why\n",
                                                                          "## coppice prof\n")
                   for text in self.pages.values()]
        found = list(lacking(changed))
        self.assertIn("coppice run --dump-graphs", found)
        self.assertIn("coppice prof why", found)

    def test_the_page_about_the_command_names_every_subcommand(self):
        page = (ROOT / "docs" / "command.md").read_text()
        names = [" ".join(words[:1] if words and words[0] in BY_GROUP else words)
                 for words, _ in all_commands() if words]
        self.assertGreater(len(names), 40)
        self.assertEqual([], [name for name in names
                              if f"coppice {name}" not in page and f"`{name}`" not in page])

    def test_commands_of_python_are_there(self):
        for module, *words in commands.MODULES:
            title = " ".join(["## python -m", module, *words])
            self.assertIn(f"{title}\n", self.pages["python.md"])
        modules = sorted(path.parent.name for path in
                         (ROOT / "python" / "coppice").glob("*/__main__.py"))
        self.assertEqual(modules, sorted({module.partition(".")[2]
                                          for module, *_ in commands.MODULES}))


if __name__ == "__main__":
    unittest.main()
