#!/usr/bin/env python3
"""Goal: what a user of `torch.compile(backend="coppice")` gets wrong is told: claims that do not
hold, options of sizes that there are not, policies that are none, code that stays in Python.
Method: functions are compiled with wrong options and right ones; results with poison in the padding
are compared with eager ones, and errors, the log and the report are read. What ends a device runs
in a process of its own.

    backend_told_test.py [unittest's options]

Without torch, or without the extension, all is skipped.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

try:
    import torch
    from torch import nn

    import coppice.torch
    from coppice import learning
    from coppice.torch import reports
    from coppice.torch.options import bounded, parse
except ImportError:
    torch = None

SECONDS_MAX = 300
FAULTY = """
import torch, triton, triton.language as tl, coppice.torch

@triton.jit
def scatter(x, y, step: tl.constexpr):
    at = tl.arange(0, 64)
    tl.store(y + at * step // 64, tl.load(x + at))

def launch(x, step):
    y = coppice.empty_like(x)
    scatter[(1,)](x, y, step)
    return y

wrapped, x = coppice.wrap(launch), torch.randn(64)
with coppice.checked():
    wrapped(x, 64)
try:
    with coppice.checked():
        wrapped(x, 1)
except coppice.Error as error:
    print("raced", error)
with coppice.checked():
    wrapped(x, 64)
for call in (lambda: wrapped(x, 1 << 20), lambda: torch.compile(torch.sin, backend="coppice")(x)):
    try:
        call()
    except Exception as error:
        print("faulty", error)
"""
TRACED = """
import sys, torch, coppice.torch

with coppice.prof.trace(sys.argv[1]):
    compiled = torch.compile(torch.nn.Linear(4, 4), backend=coppice.torch.backend, dynamic=True)
    with torch.no_grad():
        print(compiled(torch.randn(3, 4)).shape)
"""
OUTSIDE = """
import sys, torch, coppice.torch

options = {"inductor": {"assert_indirect_indexing": True}} if sys.argv[1] == "checked" else {}
compiled = torch.compile(lambda x, i: x[i] + 1, backend="coppice", options=options)
x, index = torch.arange(3.0), torch.tensor([1, 2])
print(compiled(x, index).tolist())
index[1] = 7
try:
    print(len(compiled(x, index)), coppice.device().findings())
except coppice.Error as error:
    print(error)
"""


def centred(x):
    return x - x.mean(0)


def doubled(x):
    return x * 2


def printed(x):
    y = x * 2
    print(end="")
    return y + 1


def printed_first(x):
    print(end="")
    return x + 1


@unittest.skipUnless(torch, "torch or the extension is not there")
class BackendToldTest(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(1)
        reports.told.clear()

    def compiled(self, function, dynamic=True, **options):
        return torch.compile(function, backend=coppice.torch.backend, dynamic=dynamic,
                             options=options or None)

    def off_by(self, function, rows=3, **options):
        """How far results are from eager ones, at most; twice, so that the second is a replay."""
        compiled, x = self.compiled(function, **options), torch.randn(rows, 4)
        with torch.no_grad():
            compiled(x)
            return float((compiled(x) - function(x)).abs().nan_to_num(torch.inf).max())

    def refused(self, pattern, function, *inputs, **options):
        """That a call is an error of this kind; Dynamo's own, which has the message."""
        with torch.no_grad(), self.assertRaisesRegex(Exception, pattern):
            self.compiled(function, **options)(*inputs)

    # Claims.

    def test_a_wrong_claim_shows_with_poison_in_the_padding(self):
        for claim in ("any", "finite"):
            for poison in ("nan", "pattern", "noise"):
                with self.subTest(claim=claim, poison=poison):
                    torch._dynamo.reset()
                    self.assertGreater(self.off_by(centred, policy={"x:0": ("pow2", 8)},
                                                   claim=claim, poison=poison), 1000)

    def test_a_claim_that_holds_stands_poison(self):
        for poison in ("nan", "pattern", "noise"):
            with self.subTest(poison):
                torch._dynamo.reset()
                self.assertLess(self.off_by(nn.Linear(4, 4), policy={"args[0]:0": ("pow2", 8)},
                                            claim="any", poison=poison), 1e-5)

    def test_no_poison_is_without_padding(self):
        for options, pattern in (
                ({"poison": "acid", "policy": "pow2", "claim": "any"}, "poison is 'acid', not one"),
                ({"poison": "nan"}, "nothing is padded without a claim")):
            with self.assertRaisesRegex(ValueError, pattern):
                parse(options)

    # Names of sizes.

    def test_a_name_that_no_size_has_is_told_once_with_those_that_there_are(self):
        compiled = self.compiled(nn.Linear(4, 4), policy={"x:0": "pow2"}, claim="any")
        with self.assertLogs("coppice", "WARNING") as logged, torch.no_grad():
            for rows in (3, 1):  # Of which each has a graph.
                compiled(torch.randn(rows, 4))
        self.assertEqual(1, len(logged.output))
        self.assertRegex(logged.output[0],
                         r"the options name x:0, but no .*sizes are args\[0\]:0, args")
        for one in coppice.torch.report(compiled):
            self.assertEqual((["x:0"], ("args[0]:0", "args[0]:1")), (one.ignored, one.sizes))
        self.assertEqual(1, coppice.torch.stats(compiled)["ignored"])

    def test_a_name_that_no_size_has_is_an_error_under_strict(self):
        self.refused(r"NotLifted.*the options name x:2, z:0, but.*x:0, x:1", centred,
                     torch.randn(3, 4), policy={"x:0": "pow2", "x:2": "pow2", "z:0": "pow2"},
                     claim="any", strict=True)

    def test_a_name_is_right_although_its_size_does_not_vary_yet(self):
        compiled = self.compiled(centred, dynamic=None, policy={"x:0": "pow2"}, claim="fill",
                                 strict=True)
        with self.assertNoLogs("coppice", "WARNING"), torch.no_grad():
            for rows in (1, 3, 5):
                compiled(torch.randn(rows, 4))
        ignored = [one.ignored for one in coppice.torch.report(compiled)]
        self.assertEqual((["x:0"], []), (ignored[0], ignored[-1]))
        self.assertEqual(0, coppice.torch.stats(compiled)["ignored"])

    def test_a_name_may_be_of_another_graph_of_the_function(self):
        compiled = self.compiled(printed, policy={"x:0": "pow2", "y:0": "pow2"}, claim="any")
        with self.assertNoLogs("coppice", "WARNING"), torch.no_grad():
            compiled(torch.randn(3, 4))
        self.assertEqual([["y:0"], ["x:0"]],
                         [one.ignored for one in coppice.torch.report(compiled)])
        self.assertEqual(0, coppice.torch.stats(compiled)["ignored"])

    # Policies.

    def test_a_policy_that_is_none_is_an_error_and_no_fallback(self):
        for policy, pattern in (
                ("linear:0", "policy of all sizes: .*step 0 is below 1"), ("twos", "spellings are"),
                ({"x:0": ("ramp:8:4", 64)}, "policy of x:0: .*minimum 8 and step 4"),
                (("1,2,4", 2), "bucket 4 is outside"), (3, "all sizes: 3 is not a policy"),
                ({"x:0": "missing.json"}, "policy of x:0: missing.json"),
                ('{"version": 1, "ladder": "pow2"}', 'no field "maximum"')):
            with self.subTest(policy=policy):
                torch._dynamo.reset()
                self.refused(f"ValueError: coppice: .*{pattern}", centred, torch.randn(3, 4),
                             policy=policy, claim="fill")

    def test_policies_are_spelled_as_those_of_dims(self):
        learned = coppice.learn([2, 5], 2)
        for policy in ([2, 5], (2, 5), "2,5", ("2,5", 5), learned, json.dumps(learned),
                       torch.tensor([2, 5])):
            with self.subTest(policy=policy):
                torch._dynamo.reset()
                compiled = self.compiled(nn.Linear(4, 4), policy=policy, claim="any")
                with torch.no_grad():
                    compiled(torch.randn(3, 4))
                (one,) = coppice.torch.report(compiled)
                self.assertEqual([[5]], [bucket["bucket"] for bucket in coppice.session().buckets()
                                         if bucket["program"] == one.program])

    def test_buckets_end_where_torch_says_that_a_size_does(self):
        listed = {"version": 1, "buckets": [4, 32]}
        ladder = {"version": 1, "ladder": "pow2", "maximum": 64}
        for policy, buckets in (
                (("pow2", 64), [[4], [10]]), ("pow2", [[4], [10]]), (("pow2", 8), [[4], [8]]),
                ([4, 32], [[4], [10]]), (("4,32", 64), [[4], [10]]), (listed, [[4], [10]]),
                (ladder, [[4], [10]]), (("learn", 64), [[3], [9]])):
            with self.subTest(policy=policy), torch.no_grad():
                torch._dynamo.reset()
                compiled = self.compiled(nn.Linear(4, 4), policy={"args[0]:0": policy}, claim="any",
                                         strict=True, dynamic=None)
                for rows in (3, 8, 9) if policy != ("pow2", 8) else (3, 8, 8):
                    x = torch.randn(rows, 4)
                    torch._dynamo.mark_dynamic(x, 0, min=2, max=10)
                    compiled(x)
                (one,) = coppice.torch.report(compiled)
                self.assertEqual((2, 10), one.symbols["args[0]:0"])
                found = sorted(self.buckets(one))
                self.assertEqual(buckets, [found[0], found[-1]])

    def test_a_maximum_beyond_the_usual_one_is_kept(self):
        self.assertEqual(("pow2", 1 << 17), bounded(("pow2", 1 << 17), 1 << 20))
        self.assertEqual(("pow2", 1 << 16), bounded(("pow2", 0), 1 << 20))

    def test_buckets_are_learned_while_calls_go_on(self):
        linear = nn.Linear(4, 4)
        compiled = self.compiled(linear, policy=("learn", 64), claim="any")
        with torch.no_grad(), mock.patch.object(learning, "PERIOD", 30):
            for call in range(31):
                x = torch.randn(33 + call % 2, 4)
                torch.testing.assert_close(compiled(x), linear(x))
        (one,) = coppice.torch.report(compiled)
        self.assertEqual({"swapped": 1}, one.learned)
        self.assertIn([34], self.buckets(one))

    def buckets(self, report):
        return [bucket["bucket"] for bucket in coppice.session().buckets()
                if bucket["program"] == report.program]

    def test_sizes_with_a_claim_alone_are_learned_from_powers_of_two_on(self):
        linear = nn.Linear(4, 4)
        for options, learned, bucket in (({}, {"swapped": 1}, [34]),
                                         ({"policy": {"y:0": "pow2"}}, {"swapped": 1}, [34]),
                                         ({"policy": "pow2"}, {}, [64])):
            with self.subTest(options=options):
                torch._dynamo.reset()
                compiled = self.compiled(linear, claim="any", **options)
                with torch.no_grad(), mock.patch.object(learning, "PERIOD", 30):
                    for call in range(31):
                        x = torch.randn(33 + call % 2, 4)
                        torch.testing.assert_close(compiled(x), linear(x))
                        if call == 28:
                            (one,) = coppice.torch.report(compiled)
                            self.assertEqual([[64]], self.buckets(one))
                self.assertEqual(learned, one.learned)
                self.assertIn(bucket, self.buckets(one))

    def test_a_bound_that_nobody_gave_does_not_matter_to_padding(self):
        sizes, padded = [2 + 7 * call % 43 for call in range(360)], {}
        for most in (44, None):
            torch._dynamo.reset()
            compiled = self.compiled(nn.Linear(4, 4), claim="any", dynamic=None)
            with torch.no_grad(), mock.patch.object(learning, "PERIOD", 60):
                for call, rows in enumerate(sizes):
                    if call == len(sizes) - 43:
                        before = coppice.session().stats()["padded_elements"]
                    x = torch.randn(rows, 4)
                    torch._dynamo.mark_dynamic(x, 0, **({"min": 2, "max": most} if most else {}))
                    compiled(x)
            padded[most] = coppice.session().stats()["padded_elements"] - before
        real = 4 * sum(sizes[-43:])
        self.assertLessEqual(padded[None] - real, 1.15 * (padded[44] - real) + 0.01 * real)

    def test_two_sizes_are_padded_together(self):
        document = {"version": 1, "buckets": [[2, 16], [4, 8]]}
        for policy in ("2x16,4x8", [(2, 16), (4, 8)], document, ("2x16,4x8", (4, 16)),
                       "pow2/linear:8"):
            with self.subTest(policy=policy):
                torch._dynamo.reset()
                compiled = self.compiled(doubled, policy={("x:0", "x:1"): policy}, claim="any",
                                         strict=True)
                with torch.no_grad():
                    for _ in range(2):
                        x = torch.randn(3, 7)
                        torch.testing.assert_close(compiled(x), doubled(x))
                (one,) = coppice.torch.report(compiled)
                self.assertEqual(([[4, 8]], {}), (self.buckets(one), one.learned))

    def test_a_size_of_a_pair_that_a_graph_has_alone_is_padded_alone(self):
        compiled = self.compiled(doubled, policy={("x:0", "y:0"): "64x64"}, claim="any")
        with torch.no_grad():
            compiled(torch.randn(3, 7))
        (one,) = coppice.torch.report(compiled)
        self.assertEqual(([[4, 8]], ["y:0"]), (self.buckets(one), one.ignored))

    def test_one_size_has_no_policy_of_two(self):
        compiled = self.compiled(lambda x, y: x + y, policy={("x:0", "y:0"): "8x8"}, claim="any")
        with self.assertLogs("coppice", "WARNING") as logged, torch.no_grad():
            compiled(torch.randn(3), torch.randn(3))
        self.assertIn("x:0 and y:0 are always equal", logged.output[0])

    def test_policies_of_two_that_are_none_are_told(self):
        pair, good = ("x:0", "x:1"), "1x8"
        for policy, claim, pattern in (
                ({pair: "pow3/pow2"}, "any", "policy of x:0 and x:1: .*pow3"),
                ({pair: "learn"}, "any", "learned from a log"),
                ({("x:0", 1): good}, "any", "neither the name of a size nor a pair"),
                ({pair: good, "x:1": "pow2"}, "any", "x:1 is in two policies"),
                ({pair: "missing.json"}, "any", "missing.json"),
                ({pair: good}, None, "a policy for x:0 pads nothing without a claim"),
                ({pair: good}, {"x:0": "any"}, "a policy for x:1 pads nothing without a claim")):
            with self.subTest(pattern=pattern), self.assertRaisesRegex(
                    ValueError, f"coppice: .*{pattern}"):
                parse({"policy": policy, **({"claim": claim} if claim else {})})

    # Python between graphs.

    def test_a_graph_break_is_an_error_under_strict(self):
        self.refused(r"graph break at backend_told_test.py:\d+: .*strict=False leaves", printed,
                     torch.randn(3, 4), strict=True)
        torch._dynamo.reset()
        self.refused("printed_first.*graph break: Python runs the code", printed_first,
                     torch.randn(3, 4), strict=True)

    def test_a_graph_break_is_reported(self):
        for function, pattern, others in ((printed, r"at backend_told_test.py:\d+: ", 1),
                                          (printed_first, "Python runs the code", 0)):
            torch._dynamo.reset()
            compiled = self.compiled(function)
            compiled(torch.randn(3, 4))
            first, *rest = coppice.torch.report(compiled)
            self.assertRegex(first.graph_break, f"graph break:? ?{pattern}")
            self.assertEqual(others, len(rest))
            self.assertEqual(1 + others, coppice.torch.stats(compiled)["graph_breaks"])
        torch._dynamo.reset()
        compiled = self.compiled(centred, strict=True)
        compiled(torch.randn(3, 4))
        self.assertEqual("", coppice.torch.report(compiled)[0].graph_break)

    # Kernels.

    @staticmethod
    def printed_by(code, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "program.py")  # Triton reads where a kernel is from.
            path.write_text(code, encoding="utf-8")
            done = subprocess.run([sys.executable, path, *arguments], text=True, check=False,
                                  capture_output=True, timeout=SECONDS_MAX)
        return done.stdout + done.stderr

    def test_races_are_raised_where_they_are_asked_for_and_faults_say_where(self):
        shown = self.printed_by(FAULTY)
        self.assertRegex(shown, "raced the emulator found race: kernel scatter, .* thread ")
        self.assertEqual(2, len(list(re.finditer(
            r"ILLEGAL_ADDRESS.*: illegal address: kernel scatter, block \(0, 0, 0\), thread",
            shown))), shown)
        self.assertNotIn("Traceback", shown)

    def test_what_a_trace_ended_goes_in_silence(self):
        with tempfile.TemporaryDirectory() as folder:
            shown = self.printed_by(TRACED, str(pathlib.Path(folder, "t.trace")))
        self.assertIn("torch.Size([3, 4])", shown)
        self.assertNotIn("ignored", shown)

    def test_indices_are_checked_if_inductor_is_told_to_and_may_not_leave_their_tensor(self):
        for word, pattern in (("checked", "710.*index out of bounds"),
                              ("plain", r"700.*16 bytes past the end of argument \d+ \(.*\), "
                                        r"a range of 12 ")):
            shown = self.printed_by(OUTSIDE, word)
            self.assertRegex(shown, rf"(?s)\[2.0, 3.0\].*{pattern}")
            self.assertNotIn("Traceback", shown)

    def test_a_stance_that_forbids_a_call_says_its_sizes(self):
        compiled = self.compiled(nn.Linear(4, 4))
        with torch.no_grad():
            compiled(torch.randn(3, 4))
            with coppice.stance("strict"):
                compiled(torch.randn(3, 4))
                with self.assertRaisesRegex(coppice.FailedPrecondition,
                                            r"cannot replay.*; the sizes of the call are "
                                            r"args\[0\]:0 = 5$"):
                    compiled(torch.randn(5, 4))


if __name__ == "__main__":
    unittest.main()
