"""Runs a program by eager PyTorch and by a backend of torch.compile, and says what differs."""

import contextlib
import dataclasses
import logging
import warnings

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import coppice.torch
from fuzz_compare import Difference, Done, compare, slack_of
from fuzz_operators import BITS, OPERATORS
from fuzz_programs import NAMES, Trial, built, differentiable

logging.getLogger("coppice").setLevel(logging.ERROR)
logging.getLogger("torch").setLevel(logging.CRITICAL)
warnings.filterwarnings("ignore")

PEERS = ("aot_eager", "inductor")
TEXT_MAX = 300
GRADIENT_LEVEL = 3  # Of gradients of f32, the best that they are held to.


@dataclasses.dataclass
class Outcome:
    """What became of a program. `kind` is "right", "silent" or "error"; `differences` of the first
    call that has any, which `call` numbers."""

    kind: str
    call: int = -1
    differences: list = dataclasses.field(default_factory=list)
    error: str = ""
    whose: str = ""  # The peer that does the same, if one does.
    graphs: int = 0
    lifted: int = 0
    refused: int = 0
    reasons: list = dataclasses.field(default_factory=list)

    def classes(self):
        """What failures have in common: kinds of differences, or the error without its numbers."""
        if self.kind == "error":
            return {self.error.partition(":")[0]}
        return {one.kind for one in self.differences}

    def __str__(self):
        if self.kind == "right":
            return "right"
        what = self.error or "; ".join(map(str, self.differences))
        return f"{self.kind} at call {self.call}: {what[:TEXT_MAX]}"


class Side:
    """A program as one of the two runs it: eagerly, if `compile_it` is None. Attention is then
    computed in the way of its definition: the faster way of CPUs turns some NaNs into 0."""

    def __init__(self, program, compile_it=None):
        self.program = program
        self.attention = contextlib.nullcontext if compile_it else (
            lambda: sdpa_kernel(SDPBackend.MATH))
        make, self.arguments = built(program)
        self.module = make()
        self.initial = {
            name: (value.detach().clone(), (value.shape, value.stride(), value.storage_offset()))
            for name, value in self.module.state_dict().items()}
        self.function = compile_it(self.module) if compile_it else self.module

    def members(self):
        return {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}

    def forward(self, number, marked=()):
        """The Done of a call, which begins with the members as they were made."""
        program = self.program
        members = self.members()
        with torch.no_grad():
            for name, value in members.items():
                first, layout = self.initial[name]
                if not torch.equal(value, first):
                    value.as_strided_(*layout).copy_(first)
        values = self.arguments(*program.calls[number])
        if program.train:
            values = differentiable(program.given(), values)
        for position, axis in marked:
            torch._dynamo.maybe_mark_dynamic(values[position], axis)
        with torch.set_grad_enabled(program.train), self.attention():
            results = self.function(*values)
        given = {**members, **dict(zip(program.given(), values))}
        return Done(given, {f"result {index}": value for index, value in enumerate(results)}, {})

    def backward(self, done):
        """Adds the gradients of what was given."""
        wanted = [value for value in done.results.values()
                  if isinstance(value, torch.Tensor) and value.requires_grad]
        leaves = {place: value for place, value in done.given.items()
                  if isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf}
        found = torch.autograd.grad(wanted, list(leaves.values()), list(map(weights, wanted)),
                                    allow_unused=True) if wanted else [None] * len(leaves)
        done.gradients = {f"gradient of {place}": value for place, value in zip(leaves, found)}
        return done

    def call(self, number):
        done = self.forward(number)
        return self.backward(done) if self.program.train else done


def weights(result):
    """What a result's gradient is."""
    with torch.no_grad():
        numbers = torch.arange(result.numel()) % 7 - 3
        return (numbers / 4).to(result.dtype).reshape(result.shape)


def levels_of(program):
    """How exact each place is."""
    trial = Trial(program)
    worst = max([GRADIENT_LEVEL, *trial.levels.values()])
    levels = {name: trial.level(name) for name in trial.names}
    for index, text in enumerate(program.results):
        name = NAMES.fullmatch(text)
        levels[f"result {index}"] = trial.level(text) if name else BITS
    gradients = {f"gradient of {name}": worst for name in trial.names}
    return {**levels, **gradients}


def varying(program):
    """Axes of arguments whose sizes are not those of the first call, as (position, axis)."""
    _, arguments = built(program)
    calls = [arguments(*call) for call in program.calls]
    return [(position, axis) for position, value in enumerate(calls[0])
            if isinstance(value, torch.Tensor) for axis in range(value.dim())
            if len({call[position].shape[axis] for call in calls}) > 1]


def compiler(program, backend):
    """What compiles a program's module, once, for sizes that vary."""
    def compile_it(module):
        torch._dynamo.reset()
        return torch.compile(module, backend=coppice.torch.backend if backend == "coppice" else
                             backend, dynamic=None if program.marked else True)

    return compile_it


def steps(program):
    """(number of a call, whether it goes backward), in their order: that of every second program
    that trains is a forward pass later, but of those that may write what their members hold."""
    writes = program.members and any(not OPERATORS[line.operator].results for line in program.lines)
    count, late = len(program.calls), program.train and program.seed % 2 and not writes
    for number in range(count):
        yield number, False
        if program.train and number >= late:
            yield number - late, True
    if late:
        yield count - 1, True


def run(program, backend="coppice", tamper=None):
    """The Outcome. `tamper` changes the Done of each call, so that tests see whether that is
    found."""
    levels, marked = levels_of(program), varying(program) if program.marked else ()
    eager, other = Side(program), Side(program, compiler(program, backend))
    outcome, rights, gots, before = Outcome("right"), {}, {}, {}
    for number, back in steps(program):
        right = rights[number] = (eager.backward(rights[number]) if back
                                  else eager.forward(number))
        try:
            got = gots[number] = (other.backward(gots[number]) if back
                                  else other.forward(number, marked))
        except Exception as error:  # Whatever it is, it is counted and shown.
            outcome.kind, outcome.call, outcome.error = "error", number, first_line(error)
            break
        if tamper and back == program.train:
            tamper(got)
        outcome.differences = judged(program, number, *(
            Done({}, {}, done.gradients) if back else done for done in (got, right)), levels)
        if outcome.differences:
            outcome.kind, outcome.call = "silent", number
            break
        before.setdefault(number, (got.copied(), right.copied()))
    if outcome.kind == "right":
        outcome.differences = [one for number, done in gots.items() for one in changed_alone(
            done, rights[number], *before[number])]
        outcome.kind = "silent" if outcome.differences else "right"
    if backend == "coppice":
        note_reports(outcome, other.function)
        if outcome.kind == "error":
            coppice.reset_device()  # A fault of this program is none of the next.
    return outcome


def changed_alone(got, right, got_before, right_before):
    """Differences of results from what they held, where eager's still hold it."""
    as_eager = {one.place for one in right.changed(right_before)}
    return [one for one in got.changed(got_before) if one.place not in as_eager]


def judged(program, number, got, right, levels):
    """Differences that are none of rounding, nor of the bits of NaNs."""
    if len(got.results) != len(right.results):
        return [Difference("count", "results", f"{len(got.results)}, not {len(right.results)}")]
    found = compare(got, right, levels)
    if any(one.kind in ("value", "written") for one in found):
        found = compare(got, right, levels, slack_of(lambda: Side(program).call(number), right))
    return found


def note_reports(outcome, function):
    for one in coppice.torch.report(function):
        outcome.graphs += 1
        outcome.lifted += one.lifted
        outcome.refused += one.refused
        outcome.reasons += one.reasons


def whose(program, outcome, run_as=run):
    """The first peer that fails as well, in all places where this one does; "" if none."""
    for peer in PEERS:
        other = run_as(program, peer)
        if other.kind == "error" == outcome.kind or outcome.kind == "silent" and (
                places(outcome) <= places(other)):
            return peer
    return ""


def places(outcome):
    return {(one.kind, one.place) for one in outcome.differences}


def first_line(error):
    """Class and message of what an error came from."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])}"[:TEXT_MAX]
