"""Draws programs by a seed: draw(seed) gives the same one always.

A program grows line by line: an operator of a family, operands that go with it, and a Trial of it.
A line that eager PyTorch does not run, or that would overflow, is dropped.
"""

import random

import torch

from fuzz_operators import ANYTHING, FAMILIES, KINDS, OPERATORS, SAME_BYTES, VALUE, NoOperand
from fuzz_programs import Invalid, Line, Program, Trial, is_valid

LINES, ATTEMPTS, OPERANDS_ATTEMPTS = (6, 16), 400, 5
WEIGHTS = {"pointwise": 3, "view": 3, "write": 2, "type": 0.1}  # Of families; of others 1.
FIRST_SIZES = (7, 9, 11, 13)  # PyTorch takes sizes that are equal at first for always equal.
LATER_SIZES = (2, 3, 5, 7, 8, 13, 16, 17)
SHAPES = ("n, 4", "n", "4", "n, m", "m, 4", "2, n, 4", "n, 2, m", "4, 4", "n, 1", "", "1, 4", "m")
IMAGES = ("2, 3, n, 6", "2, 4, n")
DTYPES = (torch.float32,) * 8 + (torch.int64, torch.int64, torch.float64, torch.float16,
                                 torch.bfloat16, torch.int32, torch.int16, torch.int8,
                                 torch.uint8, torch.bool)


class Draw:
    """Draws the operands of one line. Its methods give texts; they raise NoOperand."""

    def __init__(self, trial, rng, need=ANYTHING):
        self.trial, self.rng, self.need = trial, rng, need
        self.first, self.axis = None, 0

    def pick(self, *choices):
        return self.rng.choice(choices)

    def of(self, kind, low=0, high=9, fits=lambda values: True):
        """A tensor of a kind, of `low` to `high` axes; later ones are drawn more often."""
        known = [name for name in self.trial.names
                 if isinstance(self.trial.scopes[0][name], torch.Tensor)
                 and self.trial.scopes[0][name].dtype in KINDS[kind]
                 and low <= self.trial.scopes[0][name].dim() <= high
                 and self.trial.level(name) <= self.need and fits(self.trial.values(name))]
        if not known:
            raise NoOperand
        return known[max(self.rng.randrange(len(known)), self.rng.randrange(len(known)))]

    def x(self, kind="number", low=0, high=9):
        name = self.of(kind, low, high)
        self.first = self.first or name
        return name

    def shapes(self):
        return [value.shape for value in self.trial.values(self.first)]

    def other(self, kind="number"):
        """A tensor that goes with the first one."""
        def goes(values):
            return all(broadcasts(value.shape, shape)
                       for value, shape in zip(values, self.shapes()))

        return self.of(kind, fits=goes)

    def like(self, kind=None):
        """A tensor of the first one's shape, and of its type if no kind is said."""
        dtype = self.trial.scopes[0][self.first].dtype

        def alike(values):
            return ([value.shape for value in values] == self.shapes()
                    and (kind is not None or values[0].dtype == dtype))

        return self.of(kind or "any", fits=alike)

    def dim(self):
        rank = len(self.shapes()[0])
        if not rank:
            raise NoOperand
        self.axis = self.rng.randrange(-rank, rank)
        return self.axis

    def permutation(self):
        axes = list(range(len(self.shapes()[0])))
        self.rng.shuffle(axes)
        return ", ".join(map(str, axes))

    def size(self, axis):
        sizes = {shape[axis] for shape in self.shapes()}
        return str(min(sizes)) if len(sizes) == 1 else f"{self.first}.shape[{axis}]"

    def any_size(self):
        name = self.of("any", 1)
        return f"{name}.shape[{self.rng.randrange(self.trial.scopes[0][name].dim())}]"

    def last_shape(self):
        return f"({self.first}.shape[-1],)"

    def shape_of_other(self):
        return f"{self.of('any', 1)}.shape"

    def pairs(self):
        return self.pick(f"2, {self.first}.numel() // 2", "-1, 2",
                         f"{self.first}.shape[0], -1", "-1, 1")

    def strided(self):
        """Sizes, strides and an offset."""
        rows = self.pick(f"{self.first}.shape[0]", f"{self.first}.shape[0] - 1", "2")
        return self.pick(f"({rows}, 2), (1, 2)", f"({rows},), (2,), 1", f"({rows}, 2), (1, 1)",
                         f"({rows}, 2), (0, 1), 1", f"({rows}, 3), ({self.first}.shape[-1], 1)")

    def scalar(self):
        names = [name for name in self.trial.names if name[0] in "sif"]
        return self.pick("2", "-1", "0.5", "1", *names, *names, self.any_size())

    def scalar_tensor(self):
        return self.of("wide", 0, 0)

    def type_of_same_bytes(self):
        value = self.trial.scopes[0][self.first]
        others = [dtype for dtype in SAME_BYTES[value.element_size()]
                  if dtype not in (value.dtype, torch.bool)]
        return str(self.rng.choice(others))

    def float8(self):
        return self.pick("torch.float8_e5m2", "torch.float8_e4m3fn")

    def indices(self):
        names = [name for name in self.trial.names if name[0] == "j"]
        if not names:
            raise NoOperand
        return self.rng.choice(names)

    def order(self):
        """Of each row along the axis that was drawn last all indices, each once."""
        if self.trial.level(self.first) > VALUE:
            raise NoOperand
        return f"{self.first}.argsort(dim={self.axis}, stable=True)"

    def mask(self):
        """Booleans that go with the first one."""
        if self.trial.level(self.first) > VALUE or self.rng.random() < 0.5:
            return self.other("bool")
        return f"({self.first} {self.pick('>', '==')} {self.pick(0, 1)})"

    def arange(self):
        return f"torch.arange({self.first}.shape[0])"

    def zeros_index(self):
        return f"torch.zeros({self.first}.shape, dtype=torch.int64)"

    def factor(self):
        """A matrix that the first one can be multiplied by."""
        axis = self.rng.choice((0, 1))
        return self.matrix(axis) + (".mT" if axis else "")

    def matrix(self, axis):
        """A matrix that is as large along an axis as the first one is along its last."""
        dtype = self.trial.scopes[0][self.first].dtype
        return self.of("float", 2, 2, lambda values: values[0].dtype == dtype and all(
            one.shape[axis] == shape[-1] for one, shape in zip(values, self.shapes())))

    def weight(self):
        return self.matrix(1)

    def kernel(self):
        value = self.trial.scopes[0][self.first]
        return self.of("float", value.dim(), value.dim(),
                       lambda values: values[0].shape[1] == value.shape[1])


def broadcasts(shape, other):
    return all(1 in pair or pair[0] == pair[1] for pair in zip(shape[::-1], other[::-1]))


def drawn_calls(rng, sizes):
    """Each of so many sizes twice, with other data; the first has none that another has."""
    found = [tuple(rng.sample(FIRST_SIZES, 2))]
    odd = rng.random() < 0.08  # Sizes that PyTorch compiles apart.
    while len(found) < sizes:
        found.append((rng.choice((0, 1) if odd else LATER_SIZES), rng.choice(LATER_SIZES)))
    seeds = iter(range(0, 1000, 100))
    return tuple((n, m, next(seeds)) for _ in range(2) for n, m in found)


def drawn_arguments(rng):
    """Lines that make arguments: tensors of many layouts, views of each other, and numbers."""
    lines = []
    for number in range(rng.randint(2, 4)):
        shape = rng.choice(IMAGES if rng.random() < 0.12 else SHAPES)
        lines.append(Line(f"x{number} = {layout(rng, shape, number)}"))
    if rng.random() < 0.12:
        of = rng.randrange(len(lines))
        how = rng.choice(("[1:]", ".mT", "", ".reshape(-1)", "[..., :1]", ".detach()"))
        lines.append(Line(f"x{len(lines)} = x{of}{how}"))
    if rng.random() < 0.5:
        count = rng.choice(("3", "n", "2, 2"))
        lines.append(Line(f"j0 = indices(({count},), seed + 50, {rng.choice((2, 4))})"))
    # PyTorch compiles anew for each value of a number that is no integer: there are two.
    for name, text, chance in (("i0", "2 + seed // 100 % 5", 0.2),
                               ("f0", "seed // 200 % 2 / 2 + 0.5", 0.2),
                               ("s0", "torch.tensor(seed / 400 - 1)", 0.25)):
        if rng.random() < chance:
            lines.append(Line(f"{name} = {text}"))
    rng.shuffle(lines)
    lines.sort(key=lambda line: any(name in line.text for name in line.reads))
    return tuple(lines)


def layout(rng, shape, number):
    """What makes one tensor: dense, or cut out of a larger one, or with axes of stride 0."""
    dtype = rng.choice(DTYPES)
    special = ", special=True" if rng.random() < 0.15 else ""

    def text(sizes):
        shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
        return f"drawn({shape}, {dtype}, seed + {number}{special})"

    sizes = shape.split(", ") if shape else []
    if sizes and rng.random() < 0.04:
        sizes[-1] = "0"
    how = rng.choice(("dense",) * 5 + ("turned", "wide", "later", "expanded", "picked"))
    if len(sizes) > 1 and how == "turned":
        return f"{text(sizes[::-1])}.permute({', '.join(map(str, range(len(sizes))[::-1]))})"
    if sizes and how == "wide":
        return f"{text([*sizes[:-1], f'2 * {sizes[-1]}'])}[..., ::2]"
    if sizes and how == "later":
        return f"{text([f'{sizes[0]} + 1', *sizes[1:]])}[1:]"
    if sizes and how == "expanded":
        return f"{text(['1', *sizes[1:]])}.expand({', '.join(sizes)})"
    if how == "picked":
        return f"{text([*sizes, '3'])}[..., 1]"
    return text(sizes)


def drawn_members(rng):
    """Lines that make parameters and buffers."""
    choices = (("p0", "torch.nn.Parameter(drawn((3, 4), torch.float32, 1))", 0.35),
               ("p1", "torch.nn.Parameter(drawn((5, 3, 3, 3), torch.float32, 2))", 0.1),
               ("p2", "torch.nn.Parameter(drawn((3, 4, 2), torch.float32, 3))", 0.1),
               ("b0", "torch.nn.Buffer(drawn((4,), torch.float32, 4))", 0.3),
               ("b1", "torch.nn.Buffer(drawn((8, 4), torch.float32, 5).t())", 0.15),
               ("b2", "torch.nn.Buffer(drawn((4, 4), torch.int64, 6))", 0.1),
               ("b3", "torch.nn.Buffer(drawn((9,), torch.float16, 7)[1:])", 0.1),
               ("b4", "torch.nn.Buffer(drawn((5, 4), torch.float32, 8))", 0.1),
               ("b5", "torch.nn.Buffer(b4[1:])", 1.0))
    lines = [Line(f"{name} = {text}") for name, text, chance in choices if rng.random() < chance]
    made = {name for line in lines for name in line.makes}
    return tuple(line for line in lines if made.issuperset(line.reads))


def draw(seed, sizes=4, train=None):
    """The program of a seed; train None: drawn as well."""
    rng = random.Random(seed)
    train = rng.random() < 0.4 if train is None else train
    program = Program(seed, train, rng.random() < 0.5, drawn_members(rng), drawn_arguments(rng),
                      (), (), drawn_calls(rng, sizes))
    try:
        trial = Trial(program)
    except Invalid:  # As of a view that an argument cannot have.
        return draw(seed + (1 << 32), sizes, train).replace(seed=seed)
    wanted, number = rng.randint(*LINES), 0
    for _ in range(ATTEMPTS):
        if len(program.lines) == wanted:
            break
        try:
            line = drawn_line(rng, trial, number)
        except NoOperand:
            continue
        try:
            trial.add(line)
        except Invalid:
            if not line.makes:
                trial = Trial(program)  # Without what it wrote.
            continue
        number += len(line.makes)
        program = program.replace(lines=(*program.lines, line))
        trial.program = program
    program = program.replace(results=drawn_results(rng, trial))
    if not program.lines or not is_valid(program):
        return draw(seed + (1 << 32), sizes, train).replace(seed=seed)
    return program


def drawn_line(rng, trial, number):
    """A line of an operator of a family, with operands that go together. Errors: NoOperand."""
    family = rng.choices(FAMILIES, [WEIGHTS.get(name, 1) for name in FAMILIES])[0]
    operator = rng.choice([one for one in OPERATORS.values() if one.family == family])
    for attempt in range(OPERANDS_ATTEMPTS):
        try:
            text = operator.write(Draw(trial, rng, operator.need))
            break
        except NoOperand:
            if attempt == OPERANDS_ATTEMPTS - 1:
                raise
    names = [f"v{number + index}" for index in range(operator.results)]
    return Line(f"{', '.join(names)} = {text}" if names else text, operator.name)


def drawn_results(rng, trial):
    """Names, the last ones more often; now and then an argument, a size or None."""
    made = [name for name in trial.names if name[0] == "v"] or trial.names[-1:]
    count = min(len(made), rng.randint(1, 5))
    chosen = made[-1:] + rng.sample(made, count)
    others = [name for name in trial.names if name[0] in "xbp"]
    if rng.random() < 0.15 and others:
        chosen.append(rng.choice(others))
    sized = [name for name in chosen if trial.scopes[0][name].dim()]
    if rng.random() < 0.1 and sized:
        chosen.append(f"{sized[0]}.shape[0]")
    if rng.random() < 0.04:
        chosen.append("None")
    rng.shuffle(chosen)
    return tuple(chosen if rng.random() < 0.1 else dict.fromkeys(chosen))
