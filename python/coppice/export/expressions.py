"""Turns SymPy expressions, including PyTorch's own functions, into expressions of a manifest.

The language is that of include/coppice/base/expression.h: `//` rounds down and `%` has the sign of
its right side, as in Python; comparisons give 0 or 1. PyTorch's functions are recognised by the
names of their classes, so this module needs only SymPy.
"""

import fractions
import re

import sympy

from coppice.export.manifest import (EXPRESSION_CHARACTERS_MAX, EXPRESSION_OPERATIONS_MAX,
                                     ExportError)

# How tight an operator binds.
OR, AND, NOT, COMPARE, ADD, MULTIPLY, NEGATE, ATOM = range(8)
RELATIONS = {"Equality": "==", "Unequality": "!=", "StrictLessThan": "<", "LessThan": "<=",
             "StrictGreaterThan": ">", "GreaterThan": ">="}
OPERATION = re.compile(r"\w+|[^\w\s(),]+")
INT64_MAX = (1 << 63) - 1
FRACTIONS = ("ToFloat", "IntTrueDiv", "FloatTrueDiv")
# Of a fraction's numerator and denominator: with sizes below 2^40 a double's 53 suffice.
EXACT_BITS = 12
EXACT_MAX = 1 << EXACT_BITS
POWERS_OF_TWO = {sign << bits for bits in range(EXACT_BITS + 1) for sign in (1, -1)}


def text_of(expression, names=None):
    """Returns an integer unchanged, and anything else as text. `names` maps the names of symbols to
    those in the text. Errors: ExportError for an expression that the language cannot express, or
    that is too long for it."""
    expression = sympy.sympify(expression)
    if expression.is_Integer:
        return int(expression)
    text = Printer(names or {}).print(expression)[0]
    operations = len(OPERATION.findall(text))
    if len(text) > EXPRESSION_CHARACTERS_MAX or operations > EXPRESSION_OPERATIONS_MAX:
        raise ExportError(f"an expression has {len(text)} characters and {operations} names, "
                          f"numbers, operators and calls; the limits are "
                          f"{EXPRESSION_CHARACTERS_MAX} and {EXPRESSION_OPERATIONS_MAX}: "
                          f"{text[:80]}...")
    return text


def counts_in_fractions(e):
    return any(isinstance(part, sympy.Float) or type(part).__name__ in FRACTIONS
               for part in sympy.preorder_traversal(e))


def quotient_of(e):
    """The two integers whose quotient is a fraction. The last division may round, because rounding
    never turns a fraction of integers below 2^53 into an integer. Errors: ExportError if a step
    before it could round."""
    if type(e).__name__ not in ("IntTrueDiv", "FloatTrueDiv"):
        return halved(e)
    base, above = halved(e.args[0])
    divisor, below = decimal(e.args[1], above) or halved(e.args[1])
    base, divisor = base * below, divisor * above
    if divisor.is_negative:
        base, divisor = -base, -divisor
    common = sympy.gcd(base, divisor) if divisor.is_Integer else sympy.Integer(1)
    return sympy.expand(base / common), divisor / common


def decimal(e, above):
    """The small fraction that a double such as 0.1 stands for, if both are within 2^-54 of each
    other. Then n / `above` / double rounds to n / `above` / fraction for each integer n for which
    the latter is an integer. None for any other double."""
    if not e.is_Float:
        return None
    number = fractions.Fraction(float(e))
    near = number.limit_denominator(EXACT_MAX)
    if abs(near.numerator) * above > EXACT_MAX or not near or (
            abs(near / number - 1) > fractions.Fraction(1, 1 << 54)):
        return None
    return sympy.Integer(near.numerator), sympy.Integer(near.denominator)


def halved(e):
    """An integer and the power of two that divides it, for a fraction that floating point
    represents exactly. Errors: ExportError if it may round."""
    if e.is_integer:
        return e, sympy.Integer(1)
    name = type(e).__name__
    if name == "ToFloat":
        return halved(e.args[0])
    if name in ("Float", "Rational", "Half"):
        number = sympy.Rational(*float(e).as_integer_ratio())
        if number.q <= EXACT_MAX and abs(number.p) <= EXACT_MAX:
            return sympy.Integer(number.p), sympy.Integer(number.q)
    root = root_of_square(e)
    if root is not None:
        return root, sympy.Integer(1)
    parts = [halved(part) for part in e.args] if e.args and name in (
        "Add", "Mul", "IntTrueDiv", "FloatTrueDiv") else []
    if name == "Mul":
        return tuple(sympy.prod(side) for side in zip(*parts))
    if name == "Add":
        common = max(below for _, below in parts)
        return sympy.Add(*(above * (common / below) for above, below in parts)), common
    if parts and parts[1][0].is_Integer and parts[1][0] in POWERS_OF_TWO:
        (base, above), (divisor, below) = parts
        return base * below * (1 if divisor > 0 else -1), above * abs(divisor)
    raise ExportError(f"the fraction {e} may be rounded, but manifests compute with integers")


def root_of_square(e):
    """|x| for the root of the square of an integer x, which is exact in floating point; None for
    anything else."""
    name = type(e).__name__
    if name != "OpaqueUnaryFn_sqrt" and not (name == "FloatPow" and e.args[1] == 0.5):
        return None
    square = e.args[0].args[0] if type(e.args[0]).__name__ == "ToFloat" else e.args[0]
    if not (type(square).__name__ in ("Pow", "PowByNatural") and square.args[1] == 2
            and square.args[0].is_integer):
        return None
    x = square.args[0]
    return x if x.is_nonnegative else sympy.Max(x, -x)


class Printer:
    """Every method returns a text and its precedence."""

    def __init__(self, names):
        self.names = names

    def print(self, e):
        method = getattr(self, "print_" + type(e).__name__, None)
        if method:
            return method(e)
        if e.is_Integer:
            return self.integer(int(e))
        if e.is_Symbol:
            return self.names.get(e.name, e.name), ATOM
        if type(e).__name__ in RELATIONS:
            left, right = (self.at(side, ADD) for side in e.args)
            return f"{left} {RELATIONS[type(e).__name__]} {right}", COMPARE
        raise ExportError(f"manifests do not support {type(e).__name__}, as in {e}")

    def at(self, e, level):
        """The text of an operand, in parentheses if its precedence is below `level`."""
        text, binds = self.print(e)
        return text if binds >= level else f"({text})"

    def call(self, name, *arguments):
        return f"{name}({', '.join(self.at(argument, OR) for argument in arguments)})", ATOM

    @staticmethod
    def integer(value):
        if abs(value) > INT64_MAX:
            raise ExportError(f"{value} does not fit into 64 bits")
        return (str(value), ATOM) if value >= 0 else (f"-{-value}", NEGATE)

    def print_BooleanTrue(self, e):
        return "1", ATOM

    def print_BooleanFalse(self, e):
        return "0", ATOM

    def print_Add(self, e):
        over = self.fraction_of(e)
        if over:
            return over
        terms = sorted(e.args, key=lambda term: (term.is_number, str(term)))
        # What is subtracted does not stand first if anything else can.
        terms.sort(key=lambda term: term.could_extract_minus_sign())
        text = self.at(terms[0], ADD)
        for term in terms[1:]:
            minus = term.could_extract_minus_sign()
            text += f" - {self.at(-term, MULTIPLY)}" if minus else f" + {self.at(term, MULTIPLY)}"
        return text, ADD

    def print_Mul(self, e):
        over = self.fraction_of(e)
        if over:
            return over
        coefficient, factors = e.as_coeff_mul()
        if coefficient == -1:
            return self.negative(sympy.Mul(*factors))
        powers = [factor for factor in factors if factor.is_Pow and factor.exp.is_negative]
        if powers:
            raise ExportError(f"manifests support only division with //, not {e}")
        ordered = sorted(factors, key=str)
        if coefficient != 1:
            ordered.insert(0, coefficient)
        texts = [self.at(ordered[0], MULTIPLY)]
        texts += [self.at(factor, NEGATE) for factor in ordered[1:]]
        return " * ".join(texts), MULTIPLY

    def negative(self, e):
        """The text of -e. If e rounds a negative quotient down, the text rounds the positive one
        up."""
        if type(e).__name__ in ("FloorDiv", "CleanDiv"):
            base, divisor = e.args
            if base.could_extract_minus_sign():
                return self.call("ceildiv", -base, divisor)
            if divisor.could_extract_minus_sign():
                return self.call("ceildiv", base, -divisor)
        return f"-{self.at(e, ATOM)}", NEGATE

    def fraction_of(self, e):
        """A sum or a product whose denominator is a number. It is an integer if it is a size."""
        if not e.atoms(sympy.Rational) - e.atoms(sympy.Integer):
            return None
        numerator, denominator = sympy.fraction(sympy.together(e))
        if not denominator.is_Integer or denominator == 1:
            return None
        return self.divide(sympy.expand(numerator), denominator)

    def divide(self, base, divisor):
        return f"{self.at(base, MULTIPLY)} // {self.at(divisor, NEGATE)}", MULTIPLY

    def print_FloorDiv(self, e):
        return self.divide(*e.args)

    print_CleanDiv = print_FloorDiv

    def print_CeilDiv(self, e):
        return self.call("ceildiv", *e.args)

    def print_PythonMod(self, e):
        return f"{self.at(e.args[0], MULTIPLY)} % {self.at(e.args[1], NEGATE)}", MULTIPLY

    print_Mod = print_PythonMod

    def print_ModularIndexing(self, e):
        base, divisor, modulus = e.args
        quotient = self.divide(base, divisor)[0] if divisor != 1 else self.at(base, MULTIPLY)
        return f"{quotient} % {self.at(modulus, NEGATE)}", MULTIPLY

    def rounded(self, e, word):
        """floor or ceiling of a quotient of integers, in any form."""
        inside = e.args[0]
        if counts_in_fractions(inside):
            base, divisor = quotient_of(inside)
        else:
            base, divisor = sympy.fraction(sympy.together(inside))
        if word == "floor":
            return self.divide(base, divisor) if divisor != 1 else self.print(base)
        return self.call("ceildiv", base, divisor) if divisor != 1 else self.print(base)

    def print_floor(self, e):
        return self.rounded(e, "floor")

    print_FloorToInt = print_floor

    def print_ceiling(self, e):
        return self.rounded(e, "ceiling")

    print_CeilToInt = print_ceiling

    def print_TruncToInt(self, e):
        """Rounds towards zero: down if the value is positive, and up if it is negative."""
        base, divisor = quotient_of(e.args[0])
        if divisor == 1:
            return self.print(base)
        if not divisor.is_positive:
            raise ExportError(f"manifests round down or up, not toward zero as in {e}")
        if base.is_nonnegative:
            return self.divide(base, divisor)
        down, up = self.divide(base, divisor)[0], self.call("ceildiv", base, divisor)[0]
        return f"select({self.at(base, ADD)} < 0, {up}, {down})", ATOM

    def print_Pow(self, e):
        base, exponent = e.args
        if not exponent.is_Integer or not 1 <= exponent <= 62:
            raise ExportError(f"manifests do not support the power {e}")
        return " * ".join([self.at(base, NEGATE)] * int(exponent)), MULTIPLY

    print_PowByNatural = print_Pow

    def shift(self, e):
        value, count = e.args
        if not count.is_Integer or not 0 <= count <= 62:
            raise ExportError(f"manifests shift only by constant numbers, not as in {e}")
        return value, sympy.Integer(1 << int(count))

    def print_LShift(self, e):
        value, factor = self.shift(e)
        return f"{self.at(value, MULTIPLY)} * {factor}", MULTIPLY

    def print_RShift(self, e):
        return self.divide(*self.shift(e))

    def print_Identity(self, e):
        return self.print(e.args[0])

    def nested(self, name, arguments):
        """Nests a function of two arguments, so that it takes any number of arguments."""
        ordered = sorted(arguments, key=lambda argument: (not argument.is_number, str(argument)))
        text = self.at(ordered[0], OR)
        for argument in ordered[1:]:
            text = f"{name}({text}, {self.at(argument, OR)})"
        return text, ATOM

    def print_Max(self, e):
        return self.nested("max", e.args)

    def print_Min(self, e):
        return self.nested("min", e.args)

    def print_Abs(self, e):
        return self.nested("max", (e.args[0], -e.args[0]))

    def joined(self, word, level, e):
        return f" {word} ".join(sorted(self.at(side, level + 1) for side in e.args)), level

    def print_And(self, e):
        return self.joined("and", AND, e)

    def print_Or(self, e):
        return self.joined("or", OR, e)

    def print_Not(self, e):
        return f"not {self.at(e.args[0], NOT)}", NOT

    def print_Where(self, e):
        return self.call("select", *e.args)

    def print_Piecewise(self, e):
        *others, (last, condition) = e.args
        if condition != sympy.true:
            raise ExportError(f"manifests choose only between two values, not as in {e}")
        text = self.at(last, OR)
        for value, chosen in reversed(others):
            text = f"select({self.at(chosen, OR)}, {self.at(value, OR)}, {text})"
        return text, ATOM
