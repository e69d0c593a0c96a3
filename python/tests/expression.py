"""Evaluates expressions of manifests, by Python's own parser: an oracle that shares nothing with
what prints them, nor with what the library reads them by."""

import ast

FUNCTIONS = {
    "ceildiv": lambda a, b: -(-a // b),
    "align": lambda a, b: -(-a // b) * b,
    "min": min,
    "max": max,
    "select": lambda c, a, b: a if c else b,
}
ALLOWED = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.Name,
           ast.Constant, ast.Load, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub,
           ast.Not, ast.And, ast.Or, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def parse(text):
    """The tree of a text. Errors: ValueError for what the language has not."""
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, ALLOWED):
            raise ValueError(f"{text}: {type(node).__name__} is not in the language")
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            raise ValueError(f"{text}: comparisons do not chain")
        if isinstance(node, ast.Constant) and type(node.value) is not int:
            raise ValueError(f"{text}: {node.value!r} is no integer")
        if isinstance(node, ast.Call) and node.func.id not in FUNCTIONS:
            raise ValueError(f"{text}: there is no function {node.func.id}")
    return tree


def names(value):
    """What an integer or an expression reads."""
    if isinstance(value, int):
        return set()
    return {node.id for node in ast.walk(parse(value))
            if isinstance(node, ast.Name)} - set(FUNCTIONS)


def evaluate(value, at):
    """An integer as it is, an expression with the names' values in `at`."""
    if isinstance(value, int):
        return value
    code = compile(parse(value), value, "eval")
    result = int(eval(code, {"__builtins__": {}, **FUNCTIONS}, dict(at)))
    if not -(1 << 63) <= result < 1 << 63:
        raise OverflowError(f"{value} is {result}")
    return result
