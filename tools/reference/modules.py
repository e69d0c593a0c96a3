"""Modules of Python as Markdown: signatures and docstrings of all that is public, read as text.

Nothing is imported, so that neither PyTorch nor the extension has to be there: what the extension
has is in python/core/_core.pyi.
"""

import ast
import inspect
import pathlib
import re
import runpy

import prose

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "coppice"
STUB = ROOT / "python" / "core" / "_core.pyi"  # Of coppice._core.
LAZY = {"coppice.prof": "session"}  # Where a module has all its names from, when one is asked for.
SHOWN = ("__call__", "__getitem__", "__len__", "__iter__")  # Of special methods.
OTHERS = ("torch.", "triton.", "numpy.")  # Libraries whose names some of coppice's are like.
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class ModuleError(Exception):
    """A page names what no module has."""


def path_of(module):
    """The file of a module."""
    if module == "coppice._core":
        return STUB
    inside = PACKAGE.joinpath(*module.split(".")[1:])
    return inside / "__init__.py" if inside.is_dir() else inside.with_suffix(".py")


def tree_of(module):
    return ast.parse(path_of(module).read_text(encoding="utf-8"))


def origins():
    """Where each public name of coppice itself comes from."""
    return runpy.run_path(str(PACKAGE / "__init__.py"))["_ORIGINS"]


def public_names(module):
    """The names that a module says are public, in its order; none if it says nothing."""
    if module == "coppice":
        return list(origins())
    for node in tree_of(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


def definition(module, name):
    """(module, node) of where a public name of a module is defined."""
    if module == "coppice":
        return definition(f"coppice.{origins()[name]}", name)
    if module in LAZY:
        return definition(f"{module}.{LAZY[module]}", name)
    for node in tree_of(module).body:
        if getattr(node, "name", None) == name:
            return module, node
        if isinstance(node, ast.ImportFrom):
            for one in node.names:
                if (one.asname or one.name) == name:
                    return definition(node.module, one.name)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return module, node
    raise ModuleError(f"{module} has no {name}")


def documented(node):
    return inspect.cleandoc(ast.get_docstring(node) or "") \
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)) else ""


class Constants(ast.NodeTransformer):
    """Puts the values of a module's constants in the place of their names."""

    def __init__(self, module):
        self.values = {node.targets[0].id: node.value for node in tree_of(module).body
                       if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
                       and isinstance(node.value, ast.Constant)}

    def visit_Name(self, node):
        return self.values.get(node.id, node)


def signature(name, node, method=False):
    """A function's signature, a parameter to a line if it is long."""
    given = ast.parse(ast.unparse(ast.FunctionDef(
        name="f", args=node.args, body=[ast.Pass()], decorator_list=[], returns=None,
        lineno=0))).body[0].args
    positional = given.posonlyargs + given.args
    if method and positional:
        (given.posonlyargs or given.args).pop(0)
        given.defaults = given.defaults[-len(positional) + 1:] if len(positional) > 1 else []
    made = node.name == "__init__"
    returned = f" -> {ast.unparse(node.returns)}" if node.returns and not made else ""
    whole = f"{name}({ast.unparse(given)}){returned}"
    if len(whole) <= 88:
        return [whole]
    parts = split_arguments(ast.unparse(given))
    return [f"{name}(", *(f"    {part}," for part in parts), f"){returned}"]


def split_arguments(text):
    """Arguments of a signature apart."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        quote = "" if character == quote else quote or (character if character in "'\"" else "")
        depth += 0 if quote else (character in "([{") - (character in ")]}")
        if character == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def decorators(node):
    return [ast.unparse(one) for one in node.decorator_list]


def is_public(node):
    name = getattr(node, "name", "_")
    if name in SHOWN:
        return name == "__call__" or bool(documented(node))
    return not name.startswith("_")


class Page:
    """The reference of the modules that a page lists."""

    def __init__(self, find):
        self.find, self.lines, self.names = find, [], {}
        self.defined = {}  # By where something is defined, what the page calls it.

    def module(self, module, names):
        """A module's docstring and its public names; or these names of it alone."""
        if not names:
            self.names[module] = module
            self.lines += [f"## {module} {{ #{module} }}", ""]
            self.lines += self.prose(ast.get_docstring(tree_of(module)) or "", module)
        for name in names or public_names(module):
            self.define(module, name)

    def prose(self, text, scope):
        """A docstring; names of its own class or module are found without them."""
        inside = (f"{scope}.", f"{scope.rpartition('.')[0]}.", "coppice.", "")

        def find(name):
            if name.startswith(OTHERS):
                return None
            return next(filter(None, (self.find(one + name) for one in inside)), None)
        return prose.markdown(text, find, "python")

    def heading(self, level, shown, name):
        self.names[name] = name.replace("__", "")  # Which Markdown takes for bold.
        self.lines += ["", f"{'#' * level} `{shown}` {{ #{self.names[name]} }}", ""]

    def code(self, lines):
        self.lines += ["", "```python", *lines, "```", ""]

    def define(self, module, name):
        where, node = definition(module, name)
        node = Constants(where).visit(node)
        whole = f"{module}.{name}"
        same = self.defined.setdefault((where, name), whole)
        if same != whole:
            self.heading(3, whole, whole)
            self.lines += self.prose(f"The same as {same}.", whole)
        elif isinstance(node, ast.ClassDef):
            self.class_(whole, where, node)
        elif isinstance(node, FUNCTIONS):
            self.heading(3, whole, whole)
            self.code(signature(name, node))
            self.lines += self.prose(documented(node), whole)
        else:
            self.heading(3, whole, whole)
            self.code([ast.unparse(node)])

    def class_(self, whole, where, node):
        self.heading(3, f"class {whole}", whole)
        made = next((one for one in node.body if getattr(one, "name", "") == "__init__"), None)
        bases = [base for base in map(ast.unparse, node.bases) if base != "Shared"]
        if any("dataclass" in one for one in decorators(node)):
            fields = [re.sub(r"dataclasses.field\(default_factory=(\w+)\)", r"\1()",
                             ast.unparse(one))
                      for one in node.body if isinstance(one, ast.AnnAssign)]
            self.code([f"{node.name}(", *(f"    {field}," for field in fields), ")"])
        elif made is not None:
            self.code(signature(node.name, made, method=True))
        elif bases:
            self.code([f"class {node.name}({', '.join(bases)})"])
        self.lines += self.prose(documented(node), whole)
        if made is not None:
            self.lines += self.prose(documented(made), whole)
        for member in filter(is_public, node.body):
            self.member(whole, member)

    def member(self, whole, node):
        """A method or a property. Overloads share a heading."""
        name = f"{whole}.{node.name}"
        kinds = decorators(node)
        if any(kind.endswith((".setter", ".deleter")) for kind in kinds):
            return
        if name not in self.names:
            self.heading(4, name.removeprefix("coppice."), name)
        if "property" in kinds:
            returned = f": {ast.unparse(node.returns)}" if node.returns else ""
            self.code([f"{node.name}{returned}"])
        else:
            self.code(signature(node.name, node, method="staticmethod" not in kinds))
        self.lines += self.prose(documented(node), whole)
