#!/usr/bin/env python3
"""Goal: manifests and containers are the canonical ones, and expressions mean what SymPy's do.
Method: Python's json and zipfile are read back field by field; expressions are drawn, printed,
evaluated by a parser of their own, and compared with SymPy at drawn values, negative ones too.
"""

import json
import os
import pathlib
import random
import struct
import sys
import tempfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import expression
from coppice.export import ExportError, Package, manifest

SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))

try:
    import sympy
except ImportError:
    sympy = None


def small_package():
    package = Package("test")
    package.add_module("one_80", b"ptx", "ptx", "sm_80")
    package.add_module("two_90a", bytes(5000), "cubin", "sm_90a")
    package.add_program("main", {"symbols": {}, "inputs": [], "outputs": [], "buffers": {},
                                 "steps": []})
    return package


class ManifestTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def test_json_has_sorted_keys_no_space_and_ascii_only(self):
        text = manifest.canonical({"b": [1, True, None], "a": "\u00e9 x"})
        self.assertEqual(b'{"a":"\\u00e9 x","b":[1,true,null]}', text)

    def test_fractions_and_big_numbers_are_refused_by_pointer(self):
        for value, pointer in (({"a": [1.5]}, "/a/0"), ({"b": 1 << 63}, "/b"), ({1: 2}, "/")):
            with self.assertRaisesRegex(ExportError, f"^{pointer}: "):
                manifest.canonical(value)

    def test_fractions_are_text(self):
        self.assertEqual(["0.5", "1e-05", "inf", "-inf", "nan"],
                         [manifest.fraction(value) for value in
                          (0.5, 1e-5, float("inf"), float("-inf"), float("nan"))])

    def test_equal_images_and_kernels_are_kept_once_and_others_get_a_number(self):
        package = Package()
        self.assertEqual("a", package.add_module("a", b"x", "ptx", "sm_80"))
        self.assertEqual("a", package.add_module("b", b"x", "ptx", "sm_80"))
        self.assertEqual("a_2", package.add_module("a", b"y", "ptx", "sm_80"))
        self.assertEqual("k", package.add_kernel("k", {"parameters": [8], "source": {"name": "1"}}))
        self.assertEqual("k", package.add_kernel("l", {"parameters": [8], "source": {"name": "2"}}))
        self.assertEqual("k_2", package.add_kernel("k", {"parameters": [4]}))

    def test_bytes_in_a_zip_begin_at_whole_pages_and_every_field_is_fixed(self):
        path = self.folder / "package.zip"
        small_package().write(path)
        raw = path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
        names = [entry.filename for entry in entries]
        self.assertEqual(["manifest.json"] + sorted(names[1:]), names)
        position = 0
        for entry in entries:
            self.assertEqual(position, entry.header_offset)
            fields = struct.unpack_from("<IHHHHHIIIHH", raw, position)
            self.assertEqual((0x04034B50, 20, 0, 0, 0, 0x21), fields[:6])
            self.assertEqual((entry.CRC, entry.file_size, entry.file_size), fields[6:9])
            begin = position + 30 + fields[9] + fields[10]
            self.assertEqual(0, begin % 4096)
            extra = raw[position + 30 + fields[9]:begin]
            self.assertEqual(struct.pack("<HH", 0xD935, len(extra) - 4), extra[:4])
            self.assertEqual(bytes(len(extra) - 4), extra[4:])
            self.assertEqual((extra, 0x0180 << 16, 3, b""),
                             (entry.extra, entry.external_attr, entry.create_system, entry.comment))
            position = begin + entry.file_size
        self.assertEqual(b"PK\1\2", raw[position:position + 4])
        self.assertEqual(b"PK\5\6", raw[-22:-18])

    def test_a_folder_has_the_files_of_the_zip(self):
        package = small_package()
        package.write(self.folder / "p")
        for name, data in package.contents():
            self.assertEqual(data, (self.folder / "p" / name).read_bytes())
        with self.assertRaises(ExportError):
            package.write(self.folder / "p")

    def test_names_that_leave_the_package_are_refused(self):
        for name in ("../x", "/x", "a//b", "a/./b", "a b", "x" * 256):
            with self.assertRaises(ExportError):
                manifest.check_file_name(name)

    def test_the_manifest_has_its_own_digest(self):
        import hashlib

        made = small_package().manifest()
        digest = made["integrity"]["manifest_sha256"]
        made["integrity"]["manifest_sha256"] = None
        text = json.dumps(made, sort_keys=True, separators=(",", ":")).encode()
        self.assertEqual(hashlib.sha256(text).hexdigest(), digest)


@unittest.skipUnless(sympy, "sympy is not installed")
class ExpressionTest(unittest.TestCase):
    ROUNDS = 100

    def setUp(self):
        self.source = random.Random(SEED)
        self.symbols = sympy.symbols("a b c", integer=True)
        # The printer knows PyTorch's functions by their names; these do not simplify anything.
        self.floor_div, self.mod = sympy.Function("FloorDiv"), sympy.Function("PythonMod")
        self.divisors = (-7, -3, -1, 2, 5, 64)

    def draw(self, depth):
        """An expression, and a function that computes it from values of a, b and c."""
        pick = self.source.randrange
        if depth == 0 or pick(6) == 0:
            if pick(2):
                number = pick(-9, 10)
                return sympy.Integer(number), lambda at: number
            index = pick(3)
            return self.symbols[index], lambda at: at[index]
        left, first = self.draw(depth - 1)
        right, second = self.draw(depth - 1)
        number = self.source.choice(self.divisors)
        return self.source.choice((
            (left + right, lambda at: first(at) + second(at)),
            (left - right, lambda at: first(at) - second(at)),
            (left * right, lambda at: first(at) * second(at)),
            (self.floor_div(left, number), lambda at: first(at) // number),
            (-self.floor_div(-left, abs(number)), lambda at: -(-first(at) // abs(number))),
            (self.mod(left, abs(number)), lambda at: first(at) % abs(number)),
            (sympy.Max(left, right), lambda at: max(first(at), second(at))),
            (sympy.Min(left, right), lambda at: min(first(at), second(at))),
        ))

    def test_pytorch_s_quotients_have_the_value_that_was_meant(self):
        try:
            from torch.utils._sympy.functions import FloorDiv, PythonMod
        except ImportError:
            self.skipTest("torch is not installed")
        self.floor_div, self.mod = FloorDiv, PythonMod
        self.divisors = (1, 2, 5, 64)  # It simplifies as is right for these alone.
        self.test_what_is_printed_has_the_value_that_was_meant()

    def test_what_is_printed_has_the_value_that_was_meant(self):
        from coppice.export.expressions import text_of

        for _ in range(self.ROUNDS):
            meant, compute = self.draw(3)
            text = text_of(meant)
            for _ in range(8):
                at = [self.source.randint(-60, 60) for _ in self.symbols]
                self.assertEqual(compute(at), expression.evaluate(text, dict(zip("abc", at))),
                                 f"{meant} as {text} at {at}, seed {SEED}")

    def test_conditions_are_0_or_1_and_names_are_the_programs(self):
        from coppice.export.expressions import text_of

        a, b, _ = self.symbols
        text = text_of(sympy.And(a < b, sympy.Ne(a, 3)) | sympy.Eq(b, 0), {"a": "batch"})
        for batch in range(-4, 5):
            for other in range(-4, 5):
                right = int((batch < other and batch != 3) or other == 0)
                self.assertEqual(right, expression.evaluate(text, {"batch": batch, "b": other}))

    def test_halves_are_divided_once(self):
        from coppice.export.expressions import text_of

        a, _, _ = self.symbols
        text = text_of(a * (a + 1) / 2 + a)
        for value in range(-9, 9):
            self.assertEqual(value * (value + 1) // 2 + value,
                             expression.evaluate(text, {"a": value}))

    def test_long_expressions_are_taken_up_to_the_limit_of_packages(self):
        from coppice.export.expressions import text_of

        a, _, _ = self.symbols
        terms = [sympy.Min(a, i, evaluate=False) for i in range(256)]  # Four operations each.
        text = text_of(sympy.Add(*terms, evaluate=False))
        self.assertGreater(len(text), 2048)
        self.assertEqual(sum(min(99, i) for i in range(256)), expression.evaluate(text, {"a": 99}))
        with self.assertRaisesRegex(ExportError, "1027 names, numbers, operators and calls"):
            text_of(sympy.Add(*terms, sympy.Min(a, 256, evaluate=False), evaluate=False))

    def test_what_the_language_has_not_is_refused(self):
        from coppice.export.expressions import text_of

        a, b, _ = self.symbols
        for value in (a / b, sympy.sqrt(a), sympy.cos(a), a**b, sympy.Integer(1 << 63) * a):
            with self.assertRaises(ExportError):
                text_of(value)


if __name__ == "__main__":
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    unittest.main()
