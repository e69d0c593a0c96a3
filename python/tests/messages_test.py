#!/usr/bin/env python3
"""Goal: errors tell Python's users what to do in Python: no function of C++ is named, and what a
newcomer gets wrong is told with a remedy that works. Method: every message that sources of the
library have with such a name goes through the translation; mistakes are made on the emulator.

    messages_test.py [unittest's options]

Without NumPy or the extension all is skipped; without the sources what reads them.
"""

import pathlib
import pydoc
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

from load_test import DECODER, PACKAGE, doubling
from wrap_test import ROWS, WrapCase, device, np, numbers, scaled, wrap

import coppice
from coppice import messages

SOURCES = pathlib.Path(__file__).resolve().parents[2]
LAYERS = ("base", "allocator", "graphs", "runtime", "capi", "include")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
QUALIFIED = re.compile(r"\b[A-Z]\w*::\w")
FRONT = re.compile(r"([A-Z][a-z]\w+|coppice_\w+|COPPICE_\w+): ")
# In front of messages, of what has the same name in Python.
SAME = {"Session"}


def literals():
    """Text of the library's sources, but for what only the linter of PTX sees."""
    for layer in LAYERS:
        for path in (SOURCES / layer).rglob("*"):
            if path.suffix in (".cc", ".h", ".inc") and "ptx" not in path.parts:
                for line in path.read_text().splitlines():
                    if not line.lstrip().startswith(("//", "#")):
                        yield from LITERAL.findall(line)


@unittest.skipUnless((SOURCES / "graphs").is_dir(), "the sources are not there")
class TranslationTest(unittest.TestCase):
    def test_no_message_of_the_library_names_its_functions(self):
        found = {text for text in literals() if QUALIFIED.search(text)}
        self.assertGreater(len(found), 50)
        for text in found:
            with self.subTest(text=text):
                self.assertNotRegex(messages.in_python(text + ": what; x"), QUALIFIED)

    def test_no_message_begins_with_a_function(self):
        for text in set(literals()):
            if (front := FRONT.match(text)) and front[1] not in SAME:
                with self.subTest(text=text):
                    self.assertFalse(messages.in_python(text).startswith(front[0]))

    def test_remedies_are_those_that_the_library_has(self):
        told = re.sub(r'"\s*\n\s*"', "", "".join(
            path.read_text() for layer in LAYERS for path in (SOURCES / layer).rglob("*")
            if path.suffix in (".cc", ".h")))
        self.assertEqual([], [theirs for theirs in messages.REMEDIES if theirs not in told])

    def test_names_of_others_stay(self):
        for text in ("kernel at::native::add, thread 0", "Foo::bar of yours", "a::b: c"):
            self.assertEqual(text, messages.in_python(text))


class ToldTest(WrapCase):
    def refusal(self, call, kind=coppice.Error):
        with self.assertRaises(kind) as caught:
            call()
        text = str(caught.exception)
        self.assertNotRegex(text, QUALIFIED)
        return text

    def test_a_size_over_its_maximum_is_told_with_what_to_declare(self):
        with wrap(dynamic={"x": {0: coppice.Dim("n", max=16)}}) as fn:
            text = self.refusal(lambda: fn(numbers(17, 2)))
        for part in ("n = 17", "n <= 16", "axis 0 of input 'x'", "declare a larger max for n"):
            self.assertIn(part, text)

    def test_a_list_is_told_to_be_none_of_tensors(self):
        with wrap() as fn:
            for given in ([[1.0] * 32] * 3, [1, 2], ((1.0, 2.0),)):
                text = self.refusal(lambda given=given: fn(given), coppice.InvalidArgument)
                self.assertRegex(text, "x is a (list|tuple) of numbers.*numpy.asarray")
                self.assertLess(len(text), 300)
        with wrap(lambda x, *more: scaled(x)) as fn:
            text = self.refusal(lambda: fn({str(key): 1.0 for key in range(1000)}))
            self.assertLess(len(text), 300)

    def test_an_axis_that_there_is_not_is_told(self):
        for axis in (2, -1):
            with wrap(dynamic={"x": {axis: ROWS}}) as fn:
                self.assertIn(f"has rank 2, but axis {axis}",
                              self.refusal(lambda fn=fn: fn(numbers(3, 2))))

    def test_a_budget_that_is_too_small_is_told_with_one_that_works(self):
        budget, told = 1 << 16, 0
        while True:
            with coppice.Session(device, budget_bytes=budget) as session, \
                    wrap(session=session) as fn:
                try:
                    for _ in range(3):
                        self.check(fn(numbers(5, 3)), 2 * numbers(5, 3))
                    break
                except coppice.ResourceExhausted as error:
                    least = re.search(r"budget_bytes of (\d+) bytes to at least (\d+)", str(error))
                    self.assertEqual(budget, int(least[1]))
                    self.assertGreater(int(least[2]), budget)
                    budget, told = int(least[2]), told + 1
        self.assertIn(told, range(1, 6))

    def test_a_policy_of_a_package_without_a_claim_is_told_what_to_add(self):
        package = doubling(main={"n": {"min": 1, "max": 64}})
        text = self.refusal(lambda: coppice.load(package, device, policies={"n": "pow2"}))
        self.assertRegex(text, r"a policy for n pads nothing.*claims=\{'n': \.\.\.\}")
        with coppice.load(package, device, policies={"n": "pow2"}, claims={"n": "any"}) as model:
            self.check(model(numbers(5)), 2 * numbers(5))
            self.assertEqual([[8]], [one["bucket"] for one in model.entry.buckets()])

    def test_all_constants_that_are_missing_are_named(self):
        text = self.refusal(lambda: coppice.load(DECODER, device), coppice.InvalidArgument)
        self.assertGreater(text.count("/constants/"), 3)
        self.assertIn("/constants/embedding, f32[", text)
        self.assertIn("coppice.load(..., constants=", text)

    def test_a_package_that_is_cut_off_or_rewritten_is_told_how_to_mend(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "x.zip")
            path.write_bytes(PACKAGE.read_bytes()[:-200])
            self.assertIn("get the file again", self.refusal(lambda: coppice.load(path, device)))
            with zipfile.ZipFile(PACKAGE) as known, zipfile.ZipFile(path, "w") as made:
                for name in known.namelist():
                    made.writestr(name, known.read(name))
            text = self.refusal(lambda: coppice.load(path, device))
            self.assertIn("coppice package pack FOLDER -o PACKAGE.zip", text)
            path.write_text("no zip, though it is long enough")
            self.assertIn("is not a zip", self.refusal(lambda: coppice.load(path, device)))

    def test_what_strict_forbids_is_told_with_warm(self):
        with wrap() as fn, coppice.stance("strict"):
            self.assertIn("call warm()", self.refusal(lambda: fn(numbers(3, 2))))


class HelpTest(unittest.TestCase):
    def test_help_is_readable_without_torch(self):
        """Of functions and methods; pydoc itself writes each signature in one line."""
        told = subprocess.run(
            [sys.executable, "-c", "import sys; sys.modules['torch'] = None\n"
             "import pydoc, coppice; print(pydoc.plain(pydoc.render_doc(coppice)))"],
            capture_output=True, text=True, check=True).stdout
        names = ("wrap(fn", "load(package", "class Dim", "learn(sizes", "session(on=None")
        self.assertEqual([], [name for name in names if name not in told])
        self.assertFalse("coppice_session_options" in told)
        is_signature = re.compile(r"^[ |]*\w+\(.*\)( -> .*)?$")
        long = [line for line in told.splitlines()
                if len(line) > 110 and not is_signature.match(line)]
        self.assertEqual([], long)

    def test_every_public_name_says_what_it_is(self):
        for name in coppice.__all__:
            if name == "from_graph":
                continue
            with self.subTest(name=name):
                self.assertTrue(pydoc.getdoc(getattr(coppice, name)))


if __name__ == "__main__":
    unittest.main()
