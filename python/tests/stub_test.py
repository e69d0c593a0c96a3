#!/usr/bin/env python3
"""Goal: python/core/_core.pyi, of which the reference is made, says what the extension says.
Method: names, parameters and docstrings of the stub are compared with those of the extension.

Who changes what the extension binds copies build/release/python/core/_core.pyi there.
"""

import ast
import inspect
import pathlib
import re
import unittest

from coppice import _core

STUB = pathlib.Path(__file__).resolve().parents[2] / "python" / "core" / "_core.pyi"


def is_public(name):
    return not name.startswith("_")


def words(text):
    return " ".join((text or "").split())


def stub_parameters(node):
    arguments = node.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            if one.arg != "self"]


def live_parameters(signature):
    """The names in "run(self, inputs: object, stream: int = 0) -> object"."""
    node = ast.parse(f"def {signature.replace('coppice._core.', '')}: ...").body[0]
    return stub_parameters(node)


def said_of(node):
    """{name: (parameters or None, docstring)} of a module or a class of the stub."""
    return {one.name: (stub_parameters(one) if isinstance(one, ast.FunctionDef) and not
                       one.decorator_list else None, words(ast.get_docstring(one)))
            for one in reversed(node.body)  # The getter of a property comes first, and stays.
            if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and is_public(one.name)}


def live_of(scope):
    """The same of the module or a class itself."""
    said = {}
    for name in filter(is_public, vars(scope)):
        one = vars(scope)[name]
        doc = inspect.getdoc(one) or ""
        if isinstance(one, (type, property)):  # One without a docstring has its signature.
            said[name] = None, words(re.sub(r"^\(self\) -> .*", "", doc))
        elif callable(one):
            signature, _, rest = doc.partition("\n")
            said[name] = live_parameters(signature), words(rest)
    return said


class StubTest(unittest.TestCase):
    maxDiff = None

    def test_the_stub_says_what_the_extension_says(self):
        tree = ast.parse(STUB.read_text(encoding="utf-8"))
        self.assertEqual(said_of(tree), live_of(_core))
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        self.assertGreater(len(classes), 10)
        for node in classes:
            with self.subTest(node.name):
                self.assertEqual(said_of(node), live_of(getattr(_core, node.name)))

    def test_what_was_added_changed_or_dropped_is_found(self):
        lease = next(node for node in ast.parse(STUB.read_text(encoding="utf-8")).body
                     if getattr(node, "name", "") == "Lease")
        for wrong in (ast.unparse(lease).replace("def split", "def divide"),
                      ast.unparse(lease).replace("stream: int=0", "queue: int=0"),
                      re.sub(r"Gives the outputs up", "Keeps the outputs", ast.unparse(lease))):
            self.assertNotEqual(ast.unparse(lease), wrong)
            self.assertNotEqual(live_of(_core.Lease), said_of(ast.parse(wrong).body[0]))


if __name__ == "__main__":
    unittest.main()
