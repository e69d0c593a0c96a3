"""The pages of the reference: lines of them that name headers and modules, replaced."""

import os
import pathlib
import re

import errors
import headers
import modules

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIRECTIVE = re.compile(r"^::: (\S+)((?: \w+)*)$", re.M)
# What is found on other pages comes first.
FRONT = "---\nsearch:\n  boost: 0.5\n---\n\n"


class Reference:
    """All pages of the reference, by their paths below the repository's root."""

    def __init__(self, texts):
        self.texts = {path: text for path, text in texts.items() if DIRECTIVE.search(text)}
        self.names = {}  # Of each name the page and the anchor.
        for path in self.texts:  # Once for the names, then again with links to them.
            page, _ = self.expand(path)
            for name, anchor in page.names.items():
                self.names.setdefault(name, (path, anchor))
        self.pages = {path: self.expand(path)[1] for path in self.texts}

    def expand(self, path):
        up = os.path.relpath(".", os.path.dirname(path)) + "/"

        def find(name):
            if name not in self.names:
                return None
            page, anchor = self.names[name]
            away = "" if page == path else os.path.relpath(page, os.path.dirname(path))
            return f"{away}#{anchor}"

        python = path.startswith("docs/reference/python/")
        page = modules.Page(find) if python else \
            headers.Page(find, "cpp" if "/cpp/" in path else "c")

        def replaced(match):
            page.lines = []
            if match[1] == "errors":
                page.lines = errors.page_lines()
            elif python:
                page.module(match[1], match[2].split())
            else:
                page.header(match[1], (ROOT / match[1]).read_text(encoding="utf-8"), up)
            return "\n".join(page.lines)

        text = DIRECTIVE.sub(replaced, self.texts[path])
        return page, FRONT + re.sub(r"\n{3,}", "\n\n", text)


def pages_in(folder):
    """The texts of pages of the reference by path."""
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted((folder / "docs" / "reference").rglob("*.md"))}
