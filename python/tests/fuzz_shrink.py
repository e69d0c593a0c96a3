"""Makes a failing program small: the fewest results, lines, arguments and calls with which it still
fails in the same way; and prints it as a script that shows it.
"""

import inspect

import fuzz_data
from fuzz_programs import NAMES, Invalid, Line, Trial, is_valid, source

RUNS_MAX = 80
SCRIPT = '''"""Seed {seed}: {outcome}"""
import torch
import torch.nn.functional as F

import coppice.torch


{data}

{source}

eager, module = Program(), Program()
compiled = torch.compile(module, backend=coppice.torch.backend, dynamic={dynamic})
for n, m, seed in {calls}:
    with torch.set_grad_enabled({train}):
        given = [arguments(n, m, seed), arguments(n, m, seed)]
{grads}        right, got = eager(*given[0]), compiled(*given[1])
    print(n, m, "eager", right, "written", given[0])
    print(n, m, "compiled", got, "written", given[1])
{backward}for one in coppice.torch.report(compiled):
    print(one)
'''
GRADS = '''        from fuzz_programs import differentiable
        given = [differentiable({names}, values) for values in given]
'''
BACKWARD = '''    for results, values in zip((right, got), given):
        wanted = [one for one in results if isinstance(one, torch.Tensor) and one.requires_grad]
        torch.autograd.backward(wanted, [torch.ones_like(one) for one in wanted])
        print("gradients", [one.grad for one in values if isinstance(one, torch.Tensor)])
'''


def script(program, outcome):
    """A program that shows the difference."""
    data = inspect.getsource(fuzz_data).split("import torch\n", 1)[1].strip()
    return SCRIPT.format(
        seed=program.seed, outcome=outcome, data=data, source=source(program).rstrip(),
        dynamic=None if program.marked else True, calls=program.calls, train=program.train,
        grads=GRADS.format(names=program.given()) if program.train else "",
        backward=BACKWARD if program.train else "")


class Shrinker:
    """Tries smaller programs one after another. `run` gives the Outcome of a program."""

    def __init__(self, program, outcome, run, runs_max=RUNS_MAX):
        self.program, self.outcome, self.run = program, outcome, run
        self.left = runs_max

    def shrink(self):
        """The smallest program found, and its Outcome."""
        self.attempt(self.program.replace(calls=self.needed_calls()))
        before = None
        while before != self.program and self.left > 0:
            before = self.program
            self.attempt(self.program.replace(calls=self.program.calls[:1]))
            self.fewer_results()
            self.fewer_lines()
            self.simpler_arguments()
        self.attempt(self.program.replace(train=False))
        return self.program, self.outcome

    def attempt(self, program):
        """Takes a program if it fails in the same way."""
        program = without_unused(program)
        if program == self.program or self.left <= 0 or not is_valid(program):
            return False
        self.left -= 1
        outcome = self.run(program)
        same = (outcome.kind == self.outcome.kind
                and outcome.classes() & self.outcome.classes())
        if same:
            self.program, self.outcome = program, outcome
        return bool(same)

    def needed_calls(self):
        """The first call, which compiles, and the one that failed."""
        calls, failed = self.program.calls, max(self.outcome.call, 0)
        return tuple(dict.fromkeys((calls[0], calls[failed])))

    def fewer_results(self):
        for result in self.program.results if len(self.program.results) > 1 else ():
            if self.attempt(self.program.replace(results=(result,))):
                return
        index = 0
        while index < len(self.program.results):
            results = self.program.results
            if not self.attempt(self.program.replace(
                    results=results[:index] + results[index + 1:])):
                index += 1

    def fewer_lines(self):
        """Drops halves, quarters, then each line; where it made something that is read, one of what
        it read takes its place."""
        step = max(len(self.program.lines) // 2, 1)
        while step:
            end = len(self.program.lines)
            while end > 0:
                self.drop(max(end - step, 0), end)
                end = min(end - step, len(self.program.lines))
            step //= 2

    def drop(self, begin, end):
        lines = self.program.lines
        dropped = lines[begin:end]
        reads = list(dict.fromkeys(name for line in dropped for name in line.reads))
        made = {name for line in dropped for name in line.makes}
        rest = self.program.replace(lines=lines[:begin] + lines[end:])
        if not made & used(rest) and self.attempt(rest):
            return
        for read in [name for name in reads if name not in made]:
            if self.attempt(renamed(rest, dict.fromkeys(made, read))):
                return

    def simpler_arguments(self):
        """Dense tensors in place of those cut out of others, without NaNs."""
        for kind in ("members", "arguments"):
            for index, line in enumerate(getattr(self.program, kind)):
                lines = getattr(self.program, kind)
                if index >= len(lines) or lines[index] != line:
                    continue
                for text in simpler(line.text):
                    changed = lines[:index] + (Line(text),) + lines[index + 1:]
                    if self.attempt(self.program.replace(**{kind: changed})):
                        break


def simpler(text):
    """Texts that make a tensor in a simpler way."""
    plain = text.replace(", special=True", "")
    if plain != text:
        yield plain
    end = plain.rfind("))") if "Buffer" in plain else plain.rfind(")")
    dense = plain[:plain.find(")", plain.find("seed + ")) + 1] if "seed + " in plain else ""
    if dense and end >= 0 and dense != plain:
        yield dense


def used(program):
    """Names that anything reads."""
    return {name for text in (*(line.text for line in program.lines), *program.results)
            for name in NAMES.findall(text)}


def renamed(program, names):
    def rename(text):
        return NAMES.sub(lambda found: names.get(found[0], found[0]), text)

    return program.replace(
        lines=tuple(Line(rename(line.text), line.operator) for line in program.lines),
        results=tuple(map(rename, program.results)))


def without_unused(program):
    """Without lines whose results nobody reads, and that write nothing."""
    wanted, lines = set(), []
    for text in program.results:
        wanted |= set(NAMES.findall(text))
    for line in reversed(program.lines):
        if not line.makes or wanted & set(line.makes):
            wanted |= set(NAMES.findall(line.text))
            lines.append(line)
    kept = {"lines": tuple(reversed(lines))}
    for kind in ("arguments", "members"):
        rest = []
        for line in reversed(getattr(program, kind)):
            if wanted & set(line.makes):
                wanted |= set(line.reads)
                rest.append(line)
        kept[kind] = tuple(reversed(rest))
    return program.replace(**kept)
