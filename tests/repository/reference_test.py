#!/usr/bin/env python3
"""Goal: every public name of C, C++ and Python is in the reference, and what headers and docstrings
say arrives there as it was written.

Method: names are read from headers and modules by patterns of this file's own, not by the reader
that writes the reference, and looked for among the headings and tables of its pages. Pages and
sources are changed, in memory, in ways that have to be found.
"""

import ast
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "reference"))

import declared  # noqa: E402
import errors  # noqa: E402
import modules  # noqa: E402
import prose  # noqa: E402
from pages import Reference, pages_in  # noqa: E402

C = "include/coppice/coppice.h"
INTERNAL = re.compile(r"^namespace internal \{$.*?^\}  // namespace internal$", re.M | re.S)
COMMENT = re.compile(r"//.*")
TYPE = re.compile(r"^(?:class|struct|union|enum class|enum)(?: \[\[nodiscard\]\]| alignas\(\d+\))?"
                  r" (\w+)(?: (?:final )?: [^{;]*)? \{", re.M)
ALIAS = re.compile(r"^using (\w+) =", re.M)
NO_FUNCTION = "#|return|using|typedef|namespace|static_assert|template|class|struct|union"
FUNCTION = re.compile(rf"^(?!{NO_FUNCTION})"
                      r"[\w:][^\n(;={]*[ &*](\w+)\((?![^;{]*::\w+\()", re.M)
CONSTANT = re.compile(r"^inline constexpr [^(=;]* (k\w+)(?:\[\])? =", re.M)
MACRO = re.compile(r"^#define (COPPICE_(?!INTERNAL|API\b|MEMBER|\w+_H_)\w+)", re.M)
CLASS = re.compile(r"^(class|struct)(?: \[\[nodiscard\]\])? (\w+)[^;{\n]* \{\n(.*?)^\}",
                   re.M | re.S)
METHOD = re.compile(r"^  (?!return|friend|explicit|using|typedef|for|if|static_assert)"
                    r"(?:(?!operator )[\w:]+(?:<[^\n]*?>+)?[&*]? )+[&*]?(\w+)\(", re.M)


def c_names(text):
    """Functions, types, enumerators and macros of coppice.h."""
    table = text.partition("#define COPPICE_FUNCTIONS(X)")[2].partition("/* clang-format on")[0]
    yield from (f"coppice_{name}" for name in re.findall(r"X\((\w+)\)", table))
    yield from re.findall(r"^COPPICE_API [^(]*?\b(coppice_\w+)\(", text, re.M)
    yield from re.findall(r"^\} (coppice_\w+);", text, re.M)
    yield from re.findall(r"^typedef [^;(]*\b(coppice_\w+);", text, re.M)
    yield from re.findall(r"^typedef .*\(\*(coppice_\w+)\)", text, re.M)
    yield from re.findall(r"\b(COPPICE_[A-Z0-9_]+) = \d", text)
    yield from MACRO.findall(text)


def cxx_names(text):
    """Types, functions, constants and macros of a public header, and the methods of its classes."""
    text = COMMENT.sub("", INTERNAL.sub("", text))
    for pattern in (TYPE, ALIAS, FUNCTION, CONSTANT, MACRO):
        yield from pattern.findall(text)
    for kind, name, body in CLASS.findall(text):
        public = body.partition("\n private:")[0]
        if kind == "class":
            public = public.partition(" public:\n")[2]
        yield from (f"{name}::{method}" for method in METHOD.findall(public))


def python_names():
    """What modules say is public, and the methods of public classes."""
    public = {"coppice": list(modules.origins())}
    for path in sorted(modules.PACKAGE.rglob("*.py")):
        listed = re.search(r"^__all__ = (\[\"[^]]*\])", path.read_text(), re.M)
        if listed:
            inside = path.relative_to(modules.PACKAGE.parent).with_suffix("")
            module = ".".join(inside.parts).removesuffix(".__init__")
            public[module] = ast.literal_eval(listed[1])
    seen = set()  # What another module has, too.
    for module, names in public.items():
        for name in names:
            yield f"{module}.{name}"
            where, node = modules.definition(module, name)
            if isinstance(node, ast.ClassDef) and (where, name) not in seen:
                seen.add((where, name))
                yield from (f"{module}.{name}.{one.name}" for one in node.body
                            if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"))


def places(pages):
    """What has a place in the reference: anchors, and the names in first columns of tables."""
    for text in pages.values():
        yield from re.findall(r"\{ #(\S+) \}$", text, re.M)
        yield from re.findall(r'<a id="([^"]+)">', text)
        for code in re.findall(r"^\| ``?([^`]+)``? \|", text, re.M):
            yield code.partition(" = ")[0].split(" ")[-1]


def missing(names, pages):
    """Names that have no place."""
    found = set(places(pages))
    return sorted({name for name in names if name.replace("::", ".") not in found})


def headers():
    return {path.relative_to(ROOT).as_posix(): path.read_text()
            for path in sorted((ROOT / "include" / "coppice").rglob("*.h"))}


def all_names():
    for path, text in headers().items():
        yield from c_names(text) if path == C else cxx_names(text)
    yield from python_names()


def items_of(text):
    return declared.read("// A header.\n\n" + text)[1]


def markdown(text, language="cpp"):
    lines = prose.markdown(text, {"Session::Run": "x.md#Session.Run"}.get, language)
    return [line for line in lines if line]


class PublicNamesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sources = pages_in(ROOT)
        cls.pages = Reference(cls.sources).pages

    def test_every_public_name_is_in_the_reference(self):
        self.assertEqual([], missing(all_names(), self.pages))

    def test_the_patterns_find_names_of_every_kind(self):
        names = set(all_names())
        kinds = {"coppice_run", "coppice_call", "coppice_callable", "COPPICE_RUN_REPLAY",
                     "COPPICE_API_MAJOR", "coppice_device", "Session", "Session::Run", "Dim::Fixed",
                     "LearnBuckets", "kLearnCandidatesMax", "Dims", "COPPICE_CHECK", "DType",
                     "coppice.wrap", "coppice.Session.stats", "coppice.prof.mark",
                     "coppice.torch.report", "coppice.export.Package.write"}
        self.assertEqual(set(), kinds - names)
        self.assertGreater(len(names), 1200)

    def test_a_name_that_no_page_has_is_found(self):
        def without(page, line):
            self.assertIn(line, self.sources[page])
            changed = Reference({page: self.sources[page].replace(line, "")}).pages
            return missing(all_names(), {**self.pages, **changed})

        self.assertIn("Lease::Read", without("docs/reference/cpp/graphs.md",
                                             "::: include/coppice/graphs/lease.h\n"))
        self.assertEqual(["coppice.wrap"], without("docs/reference/python/coppice.md", " wrap"))
        self.assertEqual(["coppice_invented"], missing(
            c_names("COPPICE_API int32_t coppice_invented(void);\n"), self.pages))
        self.assertEqual(["Invented", "Invented::Run", "Invents"], missing(
            cxx_names("class Invented {\n public:\n  int Run(int n);\n};\nint Invents();\n"),
            self.pages))


class ErrorsTest(unittest.TestCase):
    """The list of messages, against patterns that know the plainest ways to write one."""

    # Texts on the page of remedies that sources compose of parts.
    COMPOSED = {"The device is lost: call coppice.reset_device()", "has no Triton kernel",
                "a break of program ... failed with", "illegal address",
                "another rank is gone, or did not answer in time",
                "ranks call different programs"}

    @classmethod
    def setUpClass(cls):
        cls.found = {message.text: message for rows in errors.messages().values()
                     for message in rows}
        cls.text = "\n".join(cls.found)

    def test_messages_of_every_kind_are_in_the_list(self):
        self.assertGreater(len(self.found), 1200)
        for folder in ("base", "graphs", "runtime", "capi", "allocator"):
            for path in sorted((ROOT / folder).rglob("*.cc")):
                for literal in re.findall(
                        r'\b(?:MakeError\(\s*absl::StatusCode::k\w+,|InvalidArgument\(|'
                        r'FailedPrecondition\()\s*"((?:[^"\\{}]){20,})', path.read_text()):
                    said = " ".join(literal.split())
                    self.assertTrue(said in self.text or "runtime/package/lint" in str(path), said)
        for path in sorted((ROOT / "python" / "coppice").rglob("*.py")):
            for literal in re.findall(r'\braise \w+\(f?"([^"\\{}]{20,})', path.read_text()):
                self.assertTrue(literal.strip() in self.text, literal)

    def test_texts_of_the_page_of_remedies_are_in_the_list(self):
        page = (ROOT / "docs" / "help" / "errors.md").read_text()
        lacking = [text for text in re.findall(r"^\| `([^`]+)` \|", page.partition("## Opening")[2],
                                               re.M)
                   if any(len(piece) > 8 and piece not in self.text
                          for piece in map(str.strip, text.split("...")))]
        self.assertEqual(self.COMPOSED, set(lacking))

    def test_fields_are_left_out_and_codes_are_found(self):
        def read(text):
            return list(errors.of_cxx("x.cc", text))

        self.assertEqual([errors.Message("A: no file ... in {...}", "kNotFound", "x.cc")], read(
            'MakeError(absl::StatusCode::kNotFound, "A: no file {} in "  // Why.\n "{{{}}}", n);'))
        self.assertEqual("kOutOfRange", read(
            'Status Fail(int n) {\n  return MakeError(absl::StatusCode::kOutOfRange, "");\n}\n'
            'return Fail("it is too large");')[0].code)
        self.assertEqual([("size ... is odd; give an even one", "ValueError")], [
            (message.text, message.code) for message in
            errors.of_python("x.py", 'raise ValueError(f"size {n} is odd; "\n"give an even one")')])

    def test_the_page_has_the_list(self):
        page = Reference(pages_in(ROOT)).pages["docs/reference/errors.md"]
        self.assertEqual(sum(map(len, errors.messages().values())),
                         page.count("\n| `"))
        self.assertIn("| `kNotFound` | graphs/", page)


class ReaderTest(unittest.TestCase):
    def test_declarations_without_a_line_between_them_share_a_comment(self):
        group, alone = items_of("// Both.\nint A();  // Beside.\nint B();\n\nint C();\n")
        self.assertEqual(("Both.", ["A", "B"]),
                         (group.comment, [one.name for one in group.declarations]))
        self.assertEqual("Beside.", group.declarations[0].beside)
        self.assertEqual("", alone.comment)

    def test_bodies_and_what_is_not_public_are_left_out(self):
        items = items_of("namespace internal {\nint Hidden();\n}  // namespace internal\n"
                         "class A {\n public:\n  explicit A(int n) : n_(n) { Check(n); }\n\n"
                         "  int n() const { return n_; }\n\n private:\n  int n_;\n};\n"
                         "class Forward;\nstatic_assert(true);\n")
        self.assertEqual(["A", "A::A", "A::n"], list(declared.names(items)))
        made, read = (group.declarations[0].code for group in items[0].declarations[0].members)
        self.assertEqual(("explicit A(int n);", "int n() const;"), (made, read))

    def test_comments_of_c_are_read_as_those_of_cxx(self):
        items = items_of("/* What it is,\n * in two lines. */\nenum {\n  A = 0, /* Beside,\n"
                         "          * on. */\n  /* Above. */\n  B = 1,\n};\n")
        self.assertEqual("What it is,\nin two lines.", items[0].comment)
        first, second = items[0].declarations[0].members
        self.assertEqual(("A = 0", "Beside, on.", "B = 1", "Above."),
                         (first.code, first.beside, second.code, second.above))

    def test_nothing_of_a_comment_is_taken_for_markdown(self):
        self.assertEqual(["a &lt; b \\* c in \\[0, n)"], markdown("a < b * c in [0, n)"))
        self.assertEqual(["`a_b`, `kC`, `f()` of PyTorch"], markdown("a_b, kC, f() of PyTorch"))

    def test_names_of_the_reference_become_links(self):
        self.assertEqual(["as [`Session::Run`](x.md#Session.Run)"], markdown("as Session::Run"))

    def test_lists_drawings_and_errors_keep_their_form(self):
        self.assertEqual(["Opens.", "```text", "a  b", "   c", "```"],
                         markdown("Opens.\n\n  a  b\n     c"))
        self.assertEqual(["Opens. **Errors:**", "* `kNotFound` no file, or none that may be read;",
                          "* otherwise the driver's."],
                         markdown("Opens.\nErrors: kNotFound  no file, or none\n                   "
                                  "that may be read;\n        otherwise the driver's."))
        self.assertEqual(["| name | what it is |", "|---|---|", "| `size` | of it, in bytes |",
                          "| `of` | whom |", "Raises nothing."],
                         markdown("size  of it,\n      in bytes\nof    whom\nRaises nothing.",
                                  "python"))


if __name__ == "__main__":
    unittest.main()
