#!/usr/bin/env python3
"""Goal: what tools/describe writes is as the headers say, no surface lacks anything, be it written
by the tool or by hand, and who adds to a described struct or enum changes nothing else by hand.
Method: the files are written anew, in memory, and compared. Names are read from the headers and
from each surface by patterns of this file's own. Headers are changed, in memory, in ways that have
to arrive everywhere or to be refused.
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "describe"))

import families  # noqa: E402
from files import written  # noqa: E402
from headers import DescriptionError  # noqa: E402
from offers import names_of, offered  # noqa: E402

GRAPHS = "include/coppice/graphs/"
C = "include/coppice/coppice.h"
STATS, OPTIONS, REASON = (GRAPHS + name for name in
                          ("session_stats.h", "session_options.h", "reason.h"))
FILL = "include/coppice/base/fill.h"
END = "\n};\ninline constexpr int kReasonCount = "
EVICTIONS = "  int64_t evictions = 0;"
FIELD = re.compile(r"^  (?!return|friend)([\w:]+)(?:<[^\n]*>)?\s(\w+)(?: =[^;]*|\{\})?;", re.M)


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def changed(**texts):
    """A `read` of headers that are changed: by name of a constant above (old, new)."""
    def read_changed(path):
        text = read(path)
        for name, (old, new) in texts.items():
            if globals()[name] == path:
                assert text.count(old) == 1, (path, old)
                text = text.replace(old, new)
        return text
    return read_changed


def body(text, opening):
    return re.search(rf"^{re.escape(opening)}[^\n{{]*\{{\n(.*?)^\}}", text, re.S | re.M)[1]


def fields_of(header, struct):
    """Names of a struct's members, those of its groups in their place, with their prefix."""
    names = []
    for of, name in FIELD.findall(body(read("include/coppice/" + header), f"struct {struct} ")):
        names += [f"{name}.{inner}" for inner in fields_of(families.GROUPS[of], of)] \
            if of in families.GROUPS else [name]
    return names


def enumerators_of(header, enum):
    return re.findall(r"^  k(\w+),", body(read("include/coppice/" + header), f"enum class {enum} "),
                      re.M)


def lacking(struct, surfaces):
    """What each surface lacks of a struct's fields, as (surface, field). `surfaces` are texts by a
    name, each with the pattern of a field."""
    header, _ = families.STRUCTS[struct]
    return [(surface, path) for path in fields_of(header, struct)
            for surface, (text, pattern) in surfaces.items()
            if not re.search(pattern.replace("NAME", families.flat_name(path)), text)]


def surfaces_of(struct):
    """The surfaces of C and Python, of what a caller gives or is told."""
    c_name = families.STRUCTS[struct][1]
    c = body(read(C), f"typedef struct {c_name} ")
    reader = read("capi/described/session_fields.cc") + read("capi/session.cc")
    if struct in families.OPTIONS:
        python = read("python/core/described/session_fields.cc") + read("python/core/session.cc")
        return {"coppice.h": (c, r"[ *]NAME(\)\([^;]*)?;"), "capi": (reader, r"\bgiven\.NAME\b"),
                "python": (python, r"given\.\w+\(\"NAME\"|\"NAME\"[^;]*\{\n")}
    return {"coppice.h": (c, r" NAME(\[\d+\])?;"), "capi": (reader, r"\btold\.NAME\b"),
            "python": (read("python/core/described/session_fields.cc"), r"figures\[\"NAME\"\]"),
            "figures.py": (read("python/coppice/figures.py"), r"    NAME: ")}


def without(offers, texts):
    """(surface, what C++ calls it) of what C or Python lacks. `texts` are those of both."""
    c, python = texts
    functions = set(re.findall(r"\bX\((\w+)\)", c))
    lacks = []
    for of, name in ((of, name) for of, names in offers.items() for name in sorted(names)):
        if (called := names_of(of, name)) is None:
            continue
        in_c, in_python = called
        if of in families.CLASSES:
            found = in_c in functions
        else:
            fields = body(c, f"typedef struct {families.GIVEN[of][1]} ")
            found = re.search(rf"[ *]{in_c};", fields)
        if not found:
            lacks.append(("coppice.h", f"{of}::{name}"))
        if in_python != "self" and f'"{in_python}"' not in python:
            lacks.append(("python", f"{of}::{name}"))
    return lacks


def surfaces():
    return read(C), "".join(path.read_text(encoding="utf-8")
                            for path in sorted((ROOT / "python/core").glob("*.cc")))


class WrittenTest(unittest.TestCase):
    def test_files_are_what_the_headers_say(self):
        for path, text in written(read).items():
            with self.subTest(path=path):
                self.assertEqual(text, read(path), "run python3 tools/describe")

    def test_what_is_written_stays_when_it_is_written_again(self):
        texts = written(changed(STATS=(EVICTIONS, "  int64_t waits = 0;  // Waits.\n" + EVICTIONS)))
        again = written(lambda path: texts[path] if path == C else changed(
            STATS=(EVICTIONS, "  int64_t waits = 0;  // Waits.\n" + EVICTIONS))(path))
        self.assertEqual(texts, again)


class SurfacesTest(unittest.TestCase):
    def test_no_surface_lacks_a_field(self):
        for struct in families.STRUCTS:
            with self.subTest(struct=struct):
                self.assertGreater(len(fields_of(families.STRUCTS[struct][0], struct)), 7)
                self.assertEqual([], lacking(struct, surfaces_of(struct)))

    def test_a_field_that_a_surface_lacks_is_found(self):
        """Of every field and every surface."""
        for struct in families.STRUCTS:
            surfaces = surfaces_of(struct)
            for path in fields_of(families.STRUCTS[struct][0], struct):
                name = families.flat_name(path)
                for surface, (text, pattern) in surfaces.items():
                    with self.subTest(surface=surface, field=path):
                        without = re.sub(rf"\b{name}\b", "gone", text)
                        self.assertEqual([(surface, path)],
                                         lacking(struct, {surface: (without, pattern)}))

    def test_c_and_python_have_every_enumerator(self):
        header, core = read(C), read("python/core/described/session_fields.h")
        for enum, (of, prefix) in families.ENUMS.items():
            for name in enumerators_of(of, enum):
                snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()
                other = {"MEMORY_PLAN": "MEMORY_NODES", "METRICS_OPEN_METRICS":
                         "METRICS_OPENMETRICS"}
                constant = f"{prefix}_{snake}"
                for theirs, ours in other.items():
                    constant = re.sub(f"COPPICE_{theirs}$", f"COPPICE_{ours}", constant)
                with self.subTest(constant=constant):
                    self.assertRegex(header, rf"\b{constant} = \d+,")
                    self.assertRegex(core, rf"\"\w+\", +// {constant}\n")


class OfferedTest(unittest.TestCase):
    def test_c_and_python_have_what_cpp_offers(self):
        offers = offered(read)
        for name, least in (("Session", 26), ("SessionMemory", 10), ("Loan", 3),
                            ("CallContext", 14), ("ProgramSpec", 14), ("RaggedSpec", 5)):
            self.assertGreaterEqual(len(offers[name]), least, name)
        self.assertEqual([], without(offers, surfaces()))

    def test_names_are_of_what_cpp_offers(self):
        """A name that has gone from a header goes from the tables."""
        known = {f"{of}::{name}" for of, names in offered(read).items() for name in names}
        self.assertEqual(set(), {*families.OTHER_NAMES, *families.ALONE} - known)

    def test_what_c_or_python_lacks_is_found(self):
        c, python = surfaces()
        for which, in_c, in_python in (
                ("CallContext::Break", "X(context_break)", '"add_break"'),
                ("CallContext::offsets", "X(context_offsets)", '"offsets"'),
                ("SessionMemory::Lend", "X(lend)", '"lend"'),
                ("Loan::Return", "X(loan_return)", '"give_back"'),
                ("SessionMemory::Scrub", "X(scrub)", '"scrub"'),
                ("ProgramSpec::ragged", "coppice_ragged_spec* ragged;", '"ragged"'),
                ("Call::counts", "* counts;\n  int64_t count_count;", '"counts"'),
                ("ProgramSpec::gate", "int32_t gate;", '"gate"')):
            with self.subTest(which=which):
                self.assertIn(in_c, c)
                self.assertIn(("coppice.h", which),
                              without(offered(read), (c.replace(in_c, ""), python)))
                self.assertIn(("python", which),
                              without(offered(read), (c, python.replace(in_python, ""))))
        self.assertEqual([("coppice.h", "Loan::Extend"), ("python", "Loan::Extend")],
                         without({"Loan": {"Extend"}}, (c, python)))


class AddedTest(unittest.TestCase):
    def test_a_figure_arrives_everywhere(self):
        """At the end of C's struct, wherever it is in that of C++."""
        added = "  // Calls that waited.\n  int64_t waits = 0;\n"
        texts = written(changed(STATS=(EVICTIONS, added + EVICTIONS)))
        self.assertRegex(texts[C], r";.*\n"
                                   r"  int64_t waits; +/\* Calls that waited\. \*/\n"
                                   r"\} coppice_session_stats;")
        for path, part in (
                ("capi/described/session_fields.cc", "told.waits = from.waits;"),
                ("graphs/described/session_fields.cc", "waits += other.waits;"),
                ("graphs/described/session_fields.h", 'visit("waits", "Calls that waited.", stats'),
                ("python/core/described/session_fields.cc", 'figures["waits"] = told.waits;'),
                ("python/coppice/figures.py", 'waits: int = Figure("Calls that waited.")'),
                ("docs/reference/session_stats.md", "| `waits` |  | Calls that waited. |")):
            with self.subTest(path=path):
                self.assertIn(part, texts[path])

    def test_an_enumerator_arrives_among_the_words_of_python(self):
        end = "\n};\ninline constexpr int kFillKindCount = "
        texts = written(changed(FILL=(end + "5", "\n  kLowest,  // The lowest." + end + "6")))
        self.assertRegex(texts["python/coppice/words.py"], r'FILL_KINDS = \(.*"lowest"\)')

    def test_an_option_arrives_everywhere(self):
        """With its default and its range."""
        old = "  OnLimit on_limit = OnLimit::kEager;"
        texts = written(changed(OPTIONS=(
            old, "  int64_t age_ns = 5;  // A graph's age. 0 to 2^20.\n" + old)))
        for path, part in (
                (C, "  int64_t age_ns; /* A graph's age. 0 to 1,048,576; 0: 5, -1: none. */\n"),
                ("capi/described/session_fields.cc",
                 "SetLimit(given.age_ns, options.limits.age_ns);"),
                ("graphs/described/session_fields.cc",
                 'CheckRange("age_ns", options.limits.age_ns, 0, 1048576)'),
                ("python/core/described/session_fields.cc",
                 'given.Number("age_ns", options.age_ns);'),
                ("python/core/described/session_fields.cc", '    "age_ns=5\\n"\n'),
                ("docs/reference/session_options.md",
                 "| `limits.age_ns` | `age_ns` | `5` | 0 to 1,048,576 | ns | A graph's age. |")):
            with self.subTest(path=path):
                self.assertIn(part, texts[path])

    def test_an_enumerator_arrives_everywhere(self):
        added = "  kTooOld,  // It is too old."
        with self.assertRaisesRegex(DescriptionError, "kReasonCount is 14; there are 15"):
            written(changed(REASON=(END, "\n" + added + END)))
        texts = written(changed(REASON=(END + "14", "\n" + added + END + "15")))
        for path, part in (
                (C, "  COPPICE_REASON_TOO_OLD = 14, /* It is too old. */\n"),
                ("graphs/described/session_fields.cc", 'return "too_old";'),
                ("python/core/described/session_fields.h", "// COPPICE_REASON_TOO_OLD\n"),
                ("docs/reference/enumerators.md",
                 "| `too_old` | `kTooOld` | `COPPICE_REASON_TOO_OLD` = 14 | It is too old. |")):
            with self.subTest(path=path):
                self.assertIn(part, texts[path])

    def test_what_cannot_be_said_is_refused(self):
        stance = "  kStrict,      // Replay; a call"
        for changes, message in (
                ({"STATS": (EVICTIONS, "  int64_t waits = 0;\n" + EVICTIONS)},
                 "waits has no comment"),
                ({"STATS": (EVICTIONS, "  int64_t waits[2];  // Waits.\n" + EVICTIONS)},
                 "'int64_t waits\\[2\\]' is no field that can be read"),
                ({"STATS": (EVICTIONS, "  std::array<int64_t, kReasonCount> of{};  // Some.\n" +
                            EVICTIONS)}, "declare of at the end of its struct"),
                ({"STATS": ("int64_t remaps = 0;", "int32_t remaps = 0;")},
                 "coppice_session_stats.remaps is no int32_t"),
                ({"STATS": ("int64_t remaps = 0;", "int64_t renamed = 0;")},
                 "coppice_session_stats.remaps is in no C\\+\\+ struct any more"),
                ({"OPTIONS": (stance, "  kCalm,\n" + stance)}, "kCalm has no comment"),
                ({"OPTIONS": (stance, "  kCalm,  // Calm.\n" + stance)},
                 "COPPICE_STANCE_CALM is 4, and Stance::kCalm is not; add enumerators at the end"),
                ({"OPTIONS": (stance, stance.replace("kStrict", "kStern"))},
                 "COPPICE_STANCE_STRICT is in no C\\+\\+ enum any more"),
                ({"C": ("int64_t reasons[24];", "int64_t reasons[13];")},
                 "reasons has no room for Reason"),
                ({"C": ("  int32_t lanes; ", "  int32_t lanes_; ")},
                 "coppice_session_options.lanes_ is in no C\\+\\+ struct any more")):
            with self.subTest(message=message), self.assertRaisesRegex(DescriptionError, message):
                written(changed(**changes))


if __name__ == "__main__":
    unittest.main()
