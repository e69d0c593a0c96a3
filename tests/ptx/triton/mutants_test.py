#!/usr/bin/env python3
"""Goal: what is wrong with a kernel is seen: a barrier, a wait or a mask that is missing is found
at an access that it was there for; a wrong operand or guard is found or gives wrong results.
Method: fixtures of Triton with one line changed. For each way to change them all places of some
fixtures, chosen so that none of the changes is without effect.

    mutants_test.py COPPICE [unittest's options]
    mutants_test.py COPPICE --survey [KIND...]    every place of every fixture, counted
"""

import collections
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

import launches

SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
COPPICE = ""

GUARD = re.compile(r"^(\s*)@!?%p\d+ ")
GLOBAL = re.compile(r"^\s*@!?%p\d+ (ld|st)\.(volatile\.)?global\b")
SHARED = re.compile(r"^\s*(?:@!?%p\d+ )?(?:(?:ld|st|atom|cp\.async)\.[\w.:]*shared|ldmatrix)")
BARRIER = r"\s*bar\.sync\s"
# A first and second source that are not to be exchanged, and what is between.
ORDERED = re.compile(r"^(\s*(?:@!?%p\d+ )?(?:sub|div|shl|shr|selp|setp\.(?:lt|gt|le|ge|ne))"
                     r"\.[.\w]+\s+%\w+, )(%(\w+?)\d+)(, )(%\3\d+)(.*)$")

Mutant = collections.namedtuple("Mutant", "line text")  # The line is counted from 1.


def dropped(pattern):
    def mutants(lines):
        for number, line in enumerate(lines, 1):
            if re.match(pattern, line):
                yield Mutant(number, "")
    return mutants


def without_guard(pattern):
    def mutants(lines):
        for number, line in enumerate(lines, 1):
            if re.match(pattern, line):
                yield Mutant(number, GUARD.sub(r"\1", line))
    return mutants


def exchanged(lines):
    for number, line in enumerate(lines, 1):
        match = ORDERED.match(line)
        if match and match[2] != match[5]:
            yield Mutant(number, f"{match[1]}{match[5]}{match[4]}{match[2]}{match[6]}")


KINDS = {"product": dropped(r"\s*wgmma\.(?:fence|commit_group|wait_group)\."),
         "proxy": dropped(r"\s*fence\.proxy\.async\."), "barrier": dropped(BARRIER),
         "wait": dropped(r"\s*cp\.async\.wait_group\s"),
         "mask": without_guard(GLOBAL),
         "guard": without_guard(r"\s*@!?%p\d+ (?!ld|st|bra|cp\.async)"), "operands": exchanged}

# Fixtures in which every mutant of a kind has an effect. In others some have none: Triton puts two
# barriers in a row, masks what is inside anyway, and waits for what has been waited for.
BARRIERS = ("transpose", "softmax", "layer_norm", "group_norm", "cross_entropy", "cumsum", "argmax",
            "recurrence", "matmul_bf16", "matmul_int4", "linear_gelu", "paged_attention")
WAITS = ("matmul_bf16", "matmul_ieee", "matmul_tf32x3", "linear_gelu", "matmul_int4")
PRODUCTS = ("wgmma_f16", "wgmma_bf16", "wgmma_tf32", "wgmma_e4m3", "wgmma_s8")
MASKS = ("add_masked", "where_select", "double_math", "dropout", "rms_norm", "conv1d", "histogram",
         "locked_sum", "flash_attention")
GUARDS = ("histogram", "last_block_sum")
OPERANDS = ("softmax", "layer_norm", "rms_norm", "cumsum", "quantise_int8", "cross_entropy",
            "matmul_f16", "matmul_ieee", "paged_attention")


LONGEST = 64  # Tokens of a sequence that fills the pages of paged_attention.


class Bench:
    """Runs changed fixtures, each on the same inputs."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.known = launches.read()

    def lines(self, name):
        return (launches.FIXTURES / self.known[name]["file"]).read_text().splitlines()

    def run(self, name, mutant):
        """What was found, and what is wrong with what was computed."""
        launch, lines = self.known[name], self.lines(name)
        lines[mutant.line - 1] = mutant.text
        path = self.folder / "mutant.ptx"
        path.write_text("\n".join(lines) + "\n")
        drawn = launches.draw(launch, SEED)
        if name == "paged_attention":
            # Its loop goes round: of one draw in 64, no sequence has a second page.
            drawn["lengths"][0] = LONGEST
        done = launches.run(COPPICE, launch, drawn, self.folder, ptx=path,
                            options=["--seed", str(SEED % (1 << 31))])
        if done.report is None:
            raise AssertionError(f"{name}:{mutant.line}: {done.errors}")
        return done.findings(), launches.differences(launch, drawn, done)


def is_near(lines, mutant, line):
    """Whether a line is an access that what was dropped was there for: one between it and the
    barrier before, or the first accesses behind it up to a barrier."""
    def accesses(number):
        return SHARED.match(lines[number - 1])

    def barrier(number):
        return re.match(BARRIER, lines[number - 1])
    first, last = mutant.line - 1, mutant.line + 1
    while first > 1 and not barrier(first):
        first -= 1
    some = False
    while last < len(lines) and not (barrier(last) and some):
        some = some or bool(accesses(last))
        last += 1
    return first <= line <= last and bool(accesses(line))


def is_of_product(lines, line):
    """Whether a line is a product of a warpgroup, orders them, names a register of one, or accesses
    shared memory, as what such a product reads."""
    products = [text for text in lines if "wgmma.mma_async" in text]
    registers = {register for text in products
                 for register in re.findall(r"%\w+", text[text.index("{"):text.index("}")])}
    text = lines[line - 1]
    names_one = bool(registers & set(re.findall(r"%\w+", text)))
    return "wgmma." in text or bool(SHARED.match(text)) or names_one


def verdict(bench, name, kind, mutant):
    """What became of a mutant: "at its line", or what falls short of it."""
    found, wrong = bench.run(name, mutant)
    lines = bench.lines(name)
    if kind == "mask":
        right = any(finding["line"] == mutant.line and finding["kind"] == "illegal address"
                    for finding in found)
    elif kind in ("product", "proxy"):
        right = any(is_of_product(lines, finding["line"]) for finding in found)
    else:
        right = any(is_near(lines, mutant, finding["line"]) for finding in found)
    if found:
        return "at its line" if right else "found elsewhere"
    return "wrong" if wrong else "unseen"


def survey(bench, kinds):
    for kind in kinds:
        for name in bench.known:
            counts = collections.Counter()
            for mutant in KINDS[kind](bench.lines(name)):
                try:
                    counts[verdict(bench, name, kind, mutant)] += 1
                except subprocess.TimeoutExpired:
                    counts["endless"] += 1
            if counts:
                print(f"{kind:8} {name:16} {dict(counts)}", flush=True)


class MutantsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.bench = Bench(scratch.name)

    def expect(self, kind, names, *verdicts):
        for name in names:
            mutants = list(KINDS[kind](self.bench.lines(name)))
            self.assertNotEqual([], mutants, name)
            for mutant in mutants:
                with self.subTest(kernel=name, line=mutant.line):
                    self.assertIn(verdict(self.bench, name, kind, mutant), verdicts)

    def test_a_missing_barrier_is_found_at_an_access_beside_it(self):
        self.expect("barrier", BARRIERS, "at its line")

    def test_a_missing_wait_is_found_at_what_reads_too_early(self):
        self.expect("wait", WAITS, "at its line")

    def test_what_orders_products_is_missed_at_one(self):
        self.expect("product", (*PRODUCTS, "wgmma_attention"), "at its line")
        self.expect("proxy", PRODUCTS, "at its line")

    def test_a_missing_mask_is_found_at_the_access(self):
        self.expect("mask", MASKS, "at its line")

    def test_a_missing_guard_is_found_or_gives_wrong_results(self):
        self.expect("guard", GUARDS, "at its line", "found elsewhere", "wrong")

    def test_exchanged_operands_are_found_or_give_wrong_results(self):
        self.expect("operands", OPERANDS, "at its line", "found elsewhere", "wrong")


if __name__ == "__main__":
    COPPICE = sys.argv.pop(1)
    print(f"seed {SEED}; COPPICE_TEST_SEED repeats it", file=sys.stderr)
    if sys.argv[1:2] == ["--survey"]:
        with tempfile.TemporaryDirectory() as scratch:
            survey(Bench(scratch), sys.argv[2:] or KINDS)
    else:
        unittest.main()
