"""Programs of PyTorch's operators as lines of Python: what makes the members of a module, what
makes the arguments of a call, and what its forward does.

A Trial runs one by eager PyTorch, for the sizes of all its calls at once. What raises there, or is
too rough to compare, is no program; so lines can be added and dropped at will.
"""

import dataclasses
import re

import torch
import torch.nn.functional as F

from fuzz_data import drawn, indices
from fuzz_operators import BITS, CLOSE, INTEGERS, OPERATORS, ROUNDED, VALUE

ELEMENTS_MAX = 1500  # Of one tensor.
# Of exact numbers by type: the largest, and how many there are between 0 and 1.
EXACT = {torch.float64: (1 << 12, 64), torch.float32: (1 << 8, 16), torch.float16: (16, 8),
         torch.bfloat16: (8, 8)}
LARGEST = 1e3  # Of what is rounded.
NAMES = re.compile(r"\b[a-z]\d+\b")
SCOPE = {"torch": torch, "F": F, "drawn": drawn, "indices": indices}


@dataclasses.dataclass(frozen=True)
class Line:
    text: str
    operator: str = ""  # A key of OPERATORS.

    @property
    def makes(self):
        left, equals, _ = self.text.partition(" = ")
        names = left.split(", ")
        return tuple(names) if equals and all(map(NAMES.fullmatch, names)) else ()

    @property
    def reads(self):
        behind = self.text.partition(" = ")[2] if self.makes else self.text
        return tuple(dict.fromkeys(NAMES.findall(behind)))


@dataclasses.dataclass(frozen=True)
class Program:
    seed: int
    train: bool
    marked: bool  # Which sizes vary is marked; else all may.
    members: tuple  # Lines that make parameters "p0" and buffers "b0" of the module.
    arguments: tuple  # Lines that make "x0", of the sizes n and m and of the call's seed.
    lines: tuple
    results: tuple  # Texts.
    calls: tuple  # (n, m, seed)

    def given(self):
        return [name for line in self.arguments for name in line.makes]

    def replace(self, **parts):
        return dataclasses.replace(self, **parts)


class Invalid(Exception):
    """Eager PyTorch does not run it, or not exactly enough to compare."""


def source(program):
    """The module and the function that makes the arguments of a call, as Python."""
    members = [name for line in program.members for name in line.makes]
    lines = ["class Program(torch.nn.Module):", "    def __init__(self):",
             "        super().__init__()", *(f"        {line.text}" for line in program.members)]
    lines += [f"        self.{name} = {name}" for name in members]
    lines += ["", f"    def forward(self, {', '.join(program.given())}):"]
    lines += [f"        {name} = self.{name}" for name in members]
    lines += [f"        {line.text}" for line in program.lines]
    lines += [f"        return [{', '.join(program.results)}]", "", "",
              "def arguments(n, m, seed):", *(f"    {line.text}" for line in program.arguments),
              f"    return [{', '.join(program.given())}]"]
    return "\n".join(lines) + "\n"


def built(program):
    """The class and the function of its source."""
    scope = dict(SCOPE)
    exec(compile(source(program), f"<program {program.seed}>", "exec"), scope)
    return scope["Program"], scope["arguments"]


def wants_gradient(name, value):
    """Arguments that are floats, but for every third, want gradients in training; not those whose
    elements lie on each other, of which PyTorch's compilers have gradients of their own."""
    return (isinstance(value, torch.Tensor) and value.is_floating_point()
            and int(name[1:]) % 3 != 2 and not overlaps(value))


def differentiable(names, values):
    """Arguments as leaves that want gradients, in the storages that they have."""
    return [value.detach().requires_grad_() if wants_gradient(name, value) else value
            for name, value in zip(names, values)]


class Trial:
    """A program as far as it goes, run by eager PyTorch for all calls at once: what each name is in
    each call, and how exact each storage is."""

    def __init__(self, program):
        self.program, self.levels = program, {}
        self.scopes = [dict(SCOPE, n=n, m=m, seed=seed) for n, m, seed in program.calls]
        self.names = []
        for line in (*program.members, *program.arguments):
            self.execute(line)
        for scope in self.scopes if program.train else ():
            given = program.given()
            scope.update(zip(given, differentiable(given, [scope[name] for name in given])))
        self.names += [name for line in (*program.members, *program.arguments)
                       for name in line.makes]
        for line in program.lines:
            self.add(line)

    def execute(self, line):
        with torch.set_grad_enabled(self.program.train):
            code = compile(line.text, "<line>", "exec")
            for scope in self.scopes:
                try:
                    exec(code, scope)
                except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError,
                        NameError, AttributeError, AssertionError) as error:
                    raise Invalid(f"{line.text}: {error}") from error

    def values(self, name):
        return [scope[name] for scope in self.scopes]

    def level(self, name):
        value = self.scopes[0].get(name)
        if not isinstance(value, torch.Tensor):
            return BITS
        return self.levels.get(value.untyped_storage()._cdata, BITS)

    def lower(self, name, level):
        key = self.scopes[0][name].untyped_storage()._cdata
        self.levels[key] = max(level, self.levels.get(key, BITS))

    def add(self, line):
        """Runs one line more. Errors: Invalid; what it wrote in place stays written."""
        operator = OPERATORS[line.operator]
        worst = max((self.level(name) for name in line.reads), default=BITS)
        if worst > operator.need:
            raise Invalid(f"{line.text}: takes what is rounded")
        if any(name not in self.names for name in line.reads):
            raise Invalid(f"{line.text}: reads what is not there")
        if not line.makes and any(map(overlaps, self.values(line.reads[0]))):
            raise Invalid(f"{line.text}: writes elements onto each other")
        if self.is_open(line):
            raise Invalid(f"{line.text}: out of range")
        self.execute(line)
        for name in line.makes:
            if not all(isinstance(value, torch.Tensor) for value in self.values(name)):
                raise Invalid(f"{line.text}: gives no tensor")
        for name in line.makes or line.reads[:1]:
            self.judge(name, operator, worst, line)
        self.names += [name for name in line.makes if name not in self.names]

    def judge(self, name, operator, worst, line):
        """Finds the level of what a line made or wrote."""
        values = self.values(name)
        if any(value.numel() > ELEMENTS_MAX for value in values):
            raise Invalid(f"{line.text}: grows")
        level = max(worst, operator.level)
        dtype = values[0].dtype
        if dtype not in ROUNDED:
            if worst > VALUE:
                raise Invalid(f"{line.text}: makes integers of what is rounded")
            level = BITS
        elif level == CLOSE or level == VALUE and not all(map(is_exact, values)):
            level = max(worst, ROUNDED[dtype])
        if level > VALUE:
            level = max(level, ROUNDED[dtype])
            for value in values:
                if (value.detach().abs() > LARGEST).any():
                    raise Invalid(f"{line.text}: large numbers")
        self.lower(name, level)

    def is_open(self, line):
        """Whether a line converts numbers to integers that cannot hold them: no rule says what they
        become."""
        if line.operator not in ("to_integer", "copy_"):
            return False
        into, source = self.values(line.reads[0]), self.values(line.reads[-1])
        integers = line.operator == "to_integer" or into[0].dtype in INTEGERS
        least = 0 if into[0].dtype == torch.uint8 else -100
        return integers and source[0].is_floating_point() and not all(
            ((least <= value) & (value < 100)).all() for value in source)

    def differentiate(self):
        """Whether the results have gradients, and PyTorch can compute them. Errors: Invalid."""
        for scope in self.scopes:
            results = [scope[name] for name in self.program.results if name in scope]
            wanted = [result for result in results
                      if isinstance(result, torch.Tensor) and result.requires_grad]
            if not wanted:
                raise Invalid("nothing has a gradient")
            if any(map(overlaps, wanted)):  # PyTorch's compilers have gradients of their own.
                raise Invalid("a result's elements lie on each other")
            try:
                torch.autograd.backward(wanted, [torch.ones_like(one) for one in wanted])
            except RuntimeError as error:
                raise Invalid(f"backward: {error}") from error


def overlaps(tensor):
    """Whether elements of a tensor lie on each other, or may."""
    behind = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1 and stride < behind:
            return True
        behind += stride * (size - 1)
    return False


def is_exact(value):
    """Whether sums and products that gave it were exact."""
    largest, parts = EXACT[value.dtype]
    known = value.detach().double()
    known = known[known.isfinite()] * parts
    return bool((known == known.round()).all() and (known.abs() <= largest * parts).all())


def is_valid(program):
    """Whether eager PyTorch runs all of it, with gradients if it trains."""
    try:
        trial = Trial(program)
        for text in program.results:
            if any(name not in trial.names for name in NAMES.findall(text)):
                return False
        if program.train:
            trial.differentiate()
    except Invalid:
        return False
    return True
