#!/usr/bin/env python3
"""Goal: Python has every option, every figure and every word of what tools/describe describes, and
whatever else C++ offers by its families.
Method: the description is read as the tool reads it, and the extension is asked, on the emulator.

    surfaces_test.py [unittest's options]
"""

import pathlib
import sys
import unittest

import numpy as np

import coppice
from coppice import _core, devices

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "describe"))

import families  # noqa: E402
from files import Description  # noqa: E402
from offers import names_of, offered  # noqa: E402

SPEC = {"name": "plain", "claim": "row_independent",
        "symbols": [{"name": "rows", "kind": "dynamic", "policy": ("pow2", 64)}],
        "inputs": [{"name": "x", "dtype": "f32", "shape": ["rows"]}],
        "outputs": [{"name": "y", "dtype": "f32", "shape": ["rows"]}]}
FUNCTIONS = {"log": lambda line: None, "barrier": lambda: None, "now_ns": lambda: 1,
             "vote": lambda bucket, kind, unanimous: (bucket, kind, unanimous)}


class SurfacesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = devices.device("emulator")
        cls.described = Description(lambda path: (ROOT / path).read_text(encoding="utf-8"))

    def values_of(self, field):
        """Values of an option that a session may be made with."""
        name = families.flat_name(field.path)
        if field.type == "std::function":
            return [FUNCTIONS[name]]
        if field.type == "bool":
            return [False, True]
        if field.type == "std::string":
            return [""]
        if field.type in self.described.enums:
            return [one.word for one in self.described.enums[field.type].enumerators]
        least = self.described.number(field, field.least)
        return [least or 1, 4 << 20 if field.unit == "bytes" else least + 1]

    def test_a_session_takes_every_option(self):
        for field in self.described.structs["SessionOptions"].fields:
            name = families.flat_name(field.path)
            for value in [None, *self.values_of(field)]:
                with self.subTest(option=name, value=value):
                    _core.Session(self.device, **{name: value}).close()
            with self.subTest(option=name), self.assertRaises((TypeError, coppice.Error)):
                _core.Session(self.device, **{name: [0.5]})

    def test_help_and_signature_have_every_option(self):
        told = _core.Session.__init__.__doc__
        signature, doc = told.split("\n", 1)
        for field in self.described.structs["SessionOptions"].fields:
            with self.subTest(option=field.path):
                self.assertRegex(signature, rf"\b{families.flat_name(field.path)}: ")
                self.assertRegex(doc, rf"(?m)^ *{families.flat_name(field.path)}[=(]")

    def test_a_number_out_of_its_range_is_refused(self):
        for field in self.described.structs["SessionOptions"].fields:
            if not field.least or field.path in families.CHECKED_ELSEWHERE:
                continue
            name = families.flat_name(field.path)
            with self.subTest(option=name), self.assertRaisesRegex(coppice.InvalidArgument, name):
                _core.Session(self.device, **{name: -2})

    def test_figures_are_items_and_attributes(self):
        with _core.Session(self.device) as session:
            session.register_callable(SPEC, lambda context: context.output(0)).run(
                [np.zeros(3, np.float32)])
            for struct, told in (("SessionStats", session.stats()),
                                 ("MemoryUsage", session.memory())):
                names = [field.name for field in self.described.structs[struct].fields]
                self.assertEqual(sorted(names), sorted(told))
                for name in names:
                    with self.subTest(figure=name):
                        self.assertEqual(told[name], getattr(told, name))
                        self.assertTrue(getattr(type(told), name).__doc__)
                with self.assertRaises(AttributeError):
                    told.calls = 1
            self.assertEqual(1, session.stats().calls)
            self.assertEqual({"warm_up": 1},
                             {kind: runs for kind, runs in session.stats().runs.items() if runs})

    def test_figures_are_told_by_every_word(self):
        with _core.Session(self.device) as session:
            for told, enum in ((session.stats().runs, "RunKind"),
                               (session.memory().bytes, "MemoryKind"),
                               (session.memory().peak, "MemoryKind")):
                self.assertEqual([one.word for one in self.described.enums[enum].enumerators],
                                 list(told))

    def offers(self, families_of):
        """(class or struct of C++, its name, what Python calls it) of all that is not its alone."""
        for of, names in offered(lambda path: (ROOT / path).read_text(encoding="utf-8")).items():
            for name in sorted(names) if of in families_of else ():
                if (called := names_of(of, name)) is not None:
                    yield of, name, called[1]

    def test_python_has_every_method(self):
        for of, name, word in self.offers(families.CLASSES):
            with self.subTest(method=f"{of}::{name}"):
                classes = [getattr(_core, one) for one in families.CLASSES[of][2]]
                having = [one for one in classes if word in vars(one)]
                self.assertTrue(having, f"{classes} have no {word}")
                self.assertTrue(word.startswith("__") or getattr(having[0], word).__doc__, word)

    def test_python_takes_every_field(self):
        """The message of one that there is not names all that there are."""
        odd = {"spec": lambda: {**SPEC, "odd": 1},
               "symbol": lambda: {**SPEC, "symbols": [{"name": "n", "odd": 1}]},
               "ragged": lambda: {**SPEC, "ragged": [{**dict.fromkeys(
                   ("name", "count", "total", "lengths"), "n"), "odd": 1}]},
               "tensor": lambda: {**SPEC, "inputs": [{**SPEC["inputs"][0], "odd": 1}]},
               "scalar": lambda: {**SPEC, "scalars": [{"name": "k", "odd": 1}]}}
        told = {"run": _core.Program.run.__doc__, "suspend": _core.Session.suspend.__doc__,
                "package": _core.Session.register_package.__doc__}
        with _core.Session(self.device) as session:
            for where, spec in odd.items():
                with self.assertRaisesRegex(coppice.InvalidArgument, "valid names: ") as raised:
                    session.register_callable(spec(), lambda context: None)
                told[where] = str(raised.exception)
        for of, name, word in self.offers(families.GIVEN):
            with self.subTest(field=f"{of}::{name}"):
                self.assertRegex(told[families.GIVEN[of][2]], rf"\b{word}\b")

    def test_calls_take_every_word(self):
        x, y = np.zeros(3, np.float32), self.device.empty((3,), "f32")
        with _core.Session(self.device, copy_out_bytes=1 << 20) as session:
            program = session.register_callable(SPEC, lambda context: context.output(0))
            for enum, option in (("OutputMode", "output_mode"), ("Poison", "poison")):
                for one in self.described.enums[enum].enumerators:
                    with self.subTest(option=option, word=one.word):
                        targets = [y] if one.word == "write_into" else []
                        program.run([x], targets=targets, **{option: one.word})
            for one in self.described.enums["SuspendedConstants"].enumerators:
                session.suspend(one.word)
                session.resume()
            for one in self.described.enums["MetricsFormat"].enumerators:
                self.assertIn("coppice_runs", session.metrics_text(one.word))


if __name__ == "__main__":
    unittest.main()
