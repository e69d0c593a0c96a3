#!/usr/bin/env python3
"""Goal: pages lead where they say, without MkDocs: files and headings behind links are there, every
page is in the site's navigation, and errors that docs/help/errors.md lists are those of sources.

Method: links are read by a pattern, outside of code; slugs are made of headings as MkDocs makes
them. Texts of errors are looked for in the sources with their strings joined, each piece between
`...` by itself.
"""

import os
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from pages import blocks  # noqa: E402

CONFIGURATION = ROOT / "docs" / "mkdocs.yml"
ERRORS = ROOT / "docs" / "help" / "errors.md"
REASONS = ROOT / "docs" / "help" / "reasons.md"
FENCES = re.compile(r"^```.*?^```$", re.M | re.S)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
OUTSIDE = ("https://",)
SOURCES = ("allocator", "base", "capi", "graphs", "include", "python/coppice", "python/core",
           "runtime", "tools")
# Blocks that are shown and not run as bash or python, by a page and a part of the block: what tests
# them in another way, or why nothing can.
SHOWN = {
    ("README.md", 'pip install ".[torch]"'): "installs; CI does so before python/tests",
    ("docs/start/install.md", "pip install ./coppice-"): "needs wheels: tools/release.sh --check",
    ("docs/start/install.md", 'pip install ".[torch]"'): "installs, as in README.md",
    ("docs/start/install.md", "cmake --install"): "installs and builds: samples/install",
    ("docs/start/install.md", "coppice_kernels(server"): "samples/install_pages",
    ("docs/start/install.md", "pkg-config"): "samples/install_pages",
    ("docs/start/install.md", "COMPONENTS c"): "samples/install_pages",
    ("docs/start/install.md", "tools/demo.sh"): "installs and builds: repository/demo_test",
    ("docs/start/demo.md", "tools/test.sh"): "runs all tests, this one too",
    ("docs/start/demo.md", "convert_azure.py"): "needs a trace of Azure: tools/convert_azure_test",
    ("docs/how-to/kernel-tests.md", "nvcc"): "needs nvcc: ptx/cuda_test has what it compiles",
    ("docs/how-to/pytest.md", "pytest --coppice"): "python/tests/pytest_plugin_test.py",
    ("docs/how-to/dashboard.md", "coppice[dashboard]"):
        "installs, and runs for hours: python/tests/dashboard_test.py runs ten models",
    ("docs/how-to/gpu-timeline.md", "export_chrome_trace"): "serve() is the reader's, on a GPU",
    ("docs/how-to/gpu-timeline.md", "nsys export"): "needs nsys and a GPU",
    ("docs/how-to/gpu-timeline.md", "coppice.prof timeline"):
        "needs a timeline of a GPU: python/tests/prof_timeline_test.py",
    ("docs/how-to/replay-a-fault.md", "recorder_ring_bytes"):
        "python/tests/core_facilities_test.py makes such a session",
    ("docs/how-to/replay-a-fault.md", "coppice.record("):
        "serve() is the reader's: python/tests/cases_test.py",
    ("docs/how-to/replay-a-fault.md", "buffers=True"): "the same",
    ("docs/how-to/replay-a-fault.md", "--shrink"): "needs a case: tools/replay_test",
    ("docs/how-to/upgrade-pytorch.md", "versions.py"): "installs a PyTorch of gigabytes",
    ("docs/how-to/vllm.md", "CUDAGraphWrapper"): "python/tests/samples_test.py compares it",
    ("docs/how-to/vllm.md", "DecodeCudaGraphRunner."): "python/tests/samples_test.py compares it",
    ("docs/how-to/vllm.md", "pip download"): "downloads; its last command is a test itself",
    ("docs/samples.md", "cmake --install"): "installs and builds: samples/configure, samples/build",
    ("docs/ideas/emulator.md", "LD_LIBRARY_PATH"):
        "needs the installed .deb: tests/emulated_cuda runs the command with that library",
}
PIECE_MIN = 8  # Characters of a piece of an error's text that says something.


def pages():
    """The paths of the pages that the site has, in the order of its navigation."""
    navigation = CONFIGURATION.read_text().partition("\nnav:\n")[2]
    return [ROOT / path for path in re.findall(r"(\S+\.md)$", navigation, re.M)]


def without_code(text):
    return CODE.sub("``", FENCES.sub("", text))


def slugs(text):
    """The anchors of a page's headings."""
    found = []
    for heading in re.findall(r"^#+ (.*)$", FENCES.sub("", text), re.M):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words).strip().lower())
        count = sum(1 for one in found if re.fullmatch(rf"{re.escape(slug)}(_\d+)?", one))
        found.append(f"{slug}_{count}" if count else slug)
    return found


def broken_links(path, text, root=ROOT):
    """What is wrong with the links of a page of that path and text."""
    for target in LINK.findall(without_code(text)):
        if target.startswith(OUTSIDE):
            continue
        name, _, anchor = target.partition("#")
        file = pathlib.Path(os.path.normpath(path.parent / name)) if name else path
        if file != path and not (file.exists() and file.is_relative_to(root)):
            yield f"{target}: there is no such file"
        elif anchor and anchor not in slugs(text if file == path else file.read_text()):
            yield f"{target}: there is no such heading"


def joined_sources():
    """All sources in one text, in which strings that stand behind each other are one."""
    texts = [path.read_text() for folder in SOURCES for path in sorted((ROOT / folder).rglob("*"))
             if path.suffix in (".cc", ".h", ".py")]
    text = re.sub(r'\\"', '"', "\n".join(texts))
    return re.sub(r'["\']\s*\n\s*f?["\']', "", text)


def errors_of(text):
    """Texts of errors that tables of a page have in their first column, under `text`."""
    for table in re.findall(r"^\| text \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M):
        yield from (match[1] for match in re.finditer(r"^\| `([^`]+)` \|", table, re.M))


def missing_pieces(error, sources):
    """Pieces of an error's text that no source has."""
    return [piece for piece in map(str.strip, error.split("..."))
            if len(piece) >= PIECE_MIN and piece not in sources]


class PagesTest(unittest.TestCase):
    def test_links_lead_to_files_and_headings_that_exist(self):
        self.assertGreater(len(pages()), 40)
        for path in pages():
            with self.subTest(path.relative_to(ROOT)):
                self.assertEqual([], list(broken_links(path, path.read_text())))

    def test_a_broken_link_is_found(self):
        def broken(text):
            return len(list(broken_links(ROOT / "page.md", text)))

        self.assertEqual(0, broken("# A b\n[a](README.md) [b](#a-b) [c](https://x.org) `[d](e)`\n"))
        self.assertEqual(1, broken("[a](no.md)\n"))
        self.assertEqual(1, broken("[a](README.md#no-heading)\n"))
        self.assertEqual(1, broken("[a](../outside.md)\n"))

    def test_every_page_of_docs_is_in_the_navigation(self):
        self.assertEqual([], sorted(set((ROOT / "docs").rglob("*.md")) - set(pages())))
        self.assertEqual(len(pages()), len(set(pages())))

    def test_errors_on_the_page_are_those_of_sources(self):
        sources, errors = joined_sources(), list(errors_of(ERRORS.read_text()))
        self.assertGreater(len(errors), 50)
        for error in errors:
            with self.subTest(error):
                self.assertEqual([], missing_pieces(error, sources))
        self.assertEqual(["no source has it"], missing_pieces("lane ... no source has it", sources))

    def test_blocks_that_no_test_runs_are_listed_with_the_reason(self):
        shown = [block for path in pages() if path.is_relative_to(ROOT / "docs") or
                 path == ROOT / "README.md" for block in blocks(path, "sh", "py", "cmake")]
        found = {block.place: [key for key in SHOWN
                               if block.page == key[0] and key[1] in block.code]
                 for block in shown}
        self.assertEqual([], [place for place, keys in found.items() if not keys])
        self.assertEqual(set(SHOWN), {key for keys in found.values() for key in keys[:1]})

    def test_every_sample_is_on_its_page_and_as_long_as_that_says(self):
        page = (ROOT / "docs" / "samples.md").read_text()
        samples = [path for path in sorted((ROOT / "samples").rglob("*"))
                   if path.suffix in (".cc", ".c", ".py", ".ipynb")]
        self.assertGreater(len(samples), 20)
        lacking = [path.name for path in samples
                   if f"](../{path.relative_to(ROOT).as_posix()})" not in page]
        self.assertEqual([], lacking)
        least, most = map(int, re.search(r"programs of (\d+) to (\d+) lines", page).groups())
        for path in samples:
            self.assertTrue(least <= len(path.read_text().splitlines()) <= most, path.name)
        numbers = re.findall(r"^\| (\d+) \|", page, re.M)
        self.assertEqual([str(number + 1) for number in range(len(numbers))], numbers)

    def test_every_reason_is_on_its_page(self):
        header = (ROOT / "include" / "coppice" / "graphs" / "reason.h").read_text()
        names = re.findall(r"^  k(\w+),", header.partition("enum class Reason")[2], re.M)
        snake = [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in names]
        self.assertEqual(snake, re.findall(r"^\| `(\w+)` \|", REASONS.read_text(), re.M))


if __name__ == "__main__":
    unittest.main()
