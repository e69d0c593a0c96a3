"""Turns SymPy expressions, with PyTorch's own functions in them, into those of a manifest.

The language is that of include/coppice/base/expression.h: `//` rounds down and `%` has the sign of
its right side, as in Python; comparisons give 0 or 1. PyTorch's functions are known by the names of
their classes, so that this needs SymPy alone.
"""

import sympy

from coppice.export.manifest import EXPRESSION_CHARACTERS_MAX, ExportError

# How tight an operator binds.
OR, AND, NOT, COMPARE, ADD, MULTIPLY, NEGATE, ATOM = range(8)
RELATIONS = {"Equality": "==", "Unequality": "!=", "StrictLessThan": "<", "LessThan": "<=",
             "StrictGreaterThan": ">", "GreaterThan": ">="}
INT64_MAX = (1 << 63) - 1


def text_of(expression, names=None):
    """An integer as it is; anything else as text, in which a symbol is called names[symbol's name].
    Errors: ExportError for what the language has not, or an expression longer than it takes."""
    expression = sympy.sympify(expression)
    if expression.is_Integer:
        return int(expression)
    text = Printer(names or {}).print(expression)[0]
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        raise ExportError(f"an expression has {len(text)} characters, at most "
                          f"{EXPRESSION_CHARACTERS_MAX} are allowed: {text[:80]}...")
    return text


class Printer:
    """Every method returns a text and how tight it binds."""

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
        raise ExportError(f"manifests have no {type(e).__name__}, as in {e}")

    def at(self, e, level):
        """The text of an operand that has to bind at least so tight."""
        text, binds = self.print(e)
        return text if binds >= level else f"({text})"

    def call(self, name, *arguments):
        return f"{name}({', '.join(self.at(argument, OR) for argument in arguments)})", ATOM

    @staticmethod
    def integer(value):
        if abs(value) > INT64_MAX:
            raise ExportError(f"{value} does not fit 64 bits")
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
            raise ExportError(f"manifests divide by // only, not as {e}")
        ordered = sorted(factors, key=str)
        if coefficient != 1:
            ordered.insert(0, coefficient)
        texts = [self.at(ordered[0], MULTIPLY)]
        texts += [self.at(factor, NEGATE) for factor in ordered[1:]]
        return " * ".join(texts), MULTIPLY

    def negative(self, e):
        """-e; the negative of a quotient of a negative is one that rounds up."""
        if type(e).__name__ in ("FloorDiv", "CleanDiv"):
            base, divisor = e.args
            if base.could_extract_minus_sign():
                return self.call("ceildiv", -base, divisor)
            if divisor.could_extract_minus_sign():
                return self.call("ceildiv", base, -divisor)
        return f"-{self.at(e, ATOM)}", NEGATE

    def fraction_of(self, e):
        """A sum or a product with a denominator that is a number: an integer if it is a size."""
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
        """floor or ceiling of a quotient of integers, however it is written."""
        inside = e.args[0]
        if type(inside).__name__ == "IntTrueDiv":
            base, divisor = inside.args
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
        if not e.args[0].is_nonnegative:
            raise ExportError(f"manifests round down or up, not to zero, as {e}")
        return self.rounded(e, "floor")

    def print_Pow(self, e):
        base, exponent = e.args
        if not exponent.is_Integer or not 1 <= exponent <= 62:
            raise ExportError(f"manifests have no power as {e}")
        return " * ".join([self.at(base, NEGATE)] * int(exponent)), MULTIPLY

    print_PowByNatural = print_Pow

    def shift(self, e):
        value, count = e.args
        if not count.is_Integer or not 0 <= count <= 62:
            raise ExportError(f"manifests shift by numbers only, not as {e}")
        return value, sympy.Integer(1 << int(count))

    def print_LShift(self, e):
        value, factor = self.shift(e)
        return f"{self.at(value, MULTIPLY)} * {factor}", MULTIPLY

    def print_RShift(self, e):
        return self.divide(*self.shift(e))

    def print_Identity(self, e):
        return self.print(e.args[0])

    def nested(self, name, arguments):
        """A function of two arguments, of as many as there are."""
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
            raise ExportError(f"manifests choose between two values only, not as {e}")
        text = self.at(last, OR)
        for value, chosen in reversed(others):
            text = f"select({self.at(chosen, OR)}, {self.at(value, OR)}, {text})"
        return text, ATOM
