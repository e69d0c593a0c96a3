#!/usr/bin/env python3
"""Goal: what an operator that PyTorch runs raises, finds or calls belongs to the call that it is
part of, and to no other.
Method: operators of this file's own in compiled functions: they raise, race, and call compiled
functions; calls that are in order stand between those that are not, and write caches. Eager PyTorch
is the oracle.

    backend_operators_test.py [unittest's options]
"""

import subprocess
import sys
import textwrap
import unittest
from unittest import mock

try:
    import torch

    import coppice
    import coppice.torch
    from coppice.torch import compiler
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch and the extension: {error}") from error

SECONDS_MAX = 300


@torch.library.custom_op("operators_test::positive_root", mutates_args=())
def positive_root(x: torch.Tensor) -> torch.Tensor:
    if float(x.min()) < 0:
        raise ValueError(f"a root of {float(x.min())}")
    return x.sqrt()


@positive_root.register_fake
def _(x):
    return torch.empty_like(x)


def compiled(fn, **options):
    return torch.compile(fn, backend="coppice", dynamic=True, options=options)


def rooted(x):
    return positive_root(x + 1) * 2


def bump(cache):
    cache.add_(1)
    return cache * 2


def scattered(x, index, cache):
    cache.add_(1)
    made = torch.zeros(4)
    made[index] = x
    return made


class OrderTest(unittest.TestCase):
    def test_operators_that_pytorch_runs_come_one_after_another(self):
        """They share what PyTorch keeps for a stream, though none reads what another writes."""
        def roots(x, y):
            return positive_root(x + 1), positive_root(y + 2), torch.mm(x, x)

        lower, lowered = compiler.lower, []
        with mock.patch.object(compiler, "lower", lambda *arguments: lowered.append(
                lower(*arguments)) or lowered[-1]):
            found = compiled(roots)(torch.ones(4, 4), torch.ones(5))
        torch.testing.assert_close(found, roots(torch.ones(4, 4), torch.ones(5)))
        (one,) = lowered
        orders = [[output["buffer"] for output in step["outputs"]][1:]
                  for step in one.program["steps"] if step["op"] == "call"
                  and step["function"] != "gemm"]
        self.assertEqual(2, len(orders))
        self.assertEqual(orders[0], orders[1])
        self.assertEqual(1, len(orders[0]))


class OperatorErrorTest(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        self.addCleanup(torch.set_grad_enabled, before)
        coppice.device("emulator").synchronize()

    def test_an_exception_is_the_call_s_that_raised_it(self):
        fn, innocent = compiled(rooted), compiled(bump)
        cache = torch.zeros(3, 4)
        for turn in range(1, 6):
            with self.assertRaisesRegex(ValueError, f"a root of -{turn}"):
                fn(torch.full((3, 4), -1.0 - turn))
            torch.testing.assert_close(innocent(cache), torch.full((3, 4), 2.0 * turn))
            torch.testing.assert_close(cache, torch.full((3, 4), float(turn)))
            torch.testing.assert_close(fn(torch.ones(3, 4)), rooted(torch.ones(3, 4)))

    def test_a_call_that_fails_writes_nothing_of_the_caller_s(self):
        def both(x, cache):
            cache.add_(1)
            return positive_root(x) + cache

        fn, cache = compiled(both), torch.zeros(3, 4)
        for turn in range(1, 5):
            torch.testing.assert_close(fn(torch.ones(3, 4), cache), torch.full((3, 4), 1.0 + turn))
            with self.assertRaises(ValueError):
                fn(torch.full((3, 4), -1.0), cache)
            torch.testing.assert_close(cache, torch.full((3, 4), float(turn)))

    def test_a_race_is_raised_by_each_call_that_has_it_and_by_no_other(self):
        fn, innocent = compiled(scattered), compiled(bump)
        # Of several blocks; what a warp stores one after the other does not race.
        same, own = torch.zeros(4096, dtype=torch.int64), torch.arange(4)
        cache, other = torch.zeros(2), torch.zeros(3, 4)
        for turn in range(1, 13):
            with self.assertRaisesRegex(coppice.Error, "race"):
                fn(torch.arange(4096.0), same, cache)
            torch.testing.assert_close(innocent(other), torch.full((3, 4), 2.0 * turn))
            torch.testing.assert_close(cache, torch.full((2,), turn - 1.0))
            torch.testing.assert_close(fn(torch.arange(4.0), own, cache), torch.arange(4.0))
            torch.testing.assert_close(cache, torch.full((2,), float(turn)))

    def test_an_exception_inside_of_checked_does_not_hide_a_later_call(self):
        fn, innocent = compiled(rooted), compiled(bump)
        for _ in range(2):
            with coppice.checked():
                innocent(torch.zeros(3, 4))
            with self.assertRaises(ValueError), coppice.checked():
                fn(torch.full((3, 4), -3.0))


class ResetTest(unittest.TestCase):
    def test_what_was_compiled_before_a_reset_says_what_to_do_and_runs_again(self):
        weight, cache = torch.randn(4, 4), torch.zeros(3, 4)

        def step(cache):
            cache.add_(1)
            return cache @ weight

        with torch.no_grad():
            for turn in range(1, 3):
                torch._dynamo.reset()
                fn = compiled(step)
                torch.testing.assert_close(fn(cache), torch.full((3, 4), float(turn)) @ weight)
                coppice.reset_device()
                for _ in range(2):
                    with self.assertRaisesRegex(coppice.FailedPrecondition, "_dynamo.reset"):
                        fn(cache)
                torch.testing.assert_close(cache, torch.full((3, 4), float(turn)))


NESTED = """
    import threading

    import torch
    import coppice.torch

    torch.set_grad_enabled(False)
    def g(x):
        return x.sin() + 1
    inner = torch.compile(g, backend="coppice", dynamic=True)
    x, device = torch.randn(3, 4), coppice.device()
    tensor, other = device.upload(x), coppice.wrap(lambda x: x)
    other(x)
    kept = [device.upload(torch.ones(1 << 20)) for _ in range(3)]
    waits = [device.synchronize, tensor.to_host, lambda: device.upload(x), lambda: other(x),
             lambda: tensor.copy_from(x), lambda: device.empty([4], "f32")]
    told = []

    def operator(name, body):
        op = torch.library.custom_op(f"operators_test::{name}", body, mutates_args=())
        op.register_fake(torch.empty_like)
        return torch.compile(lambda x: op(x * 2) + 1, backend="coppice", dynamic=True)

    def call(x: torch.Tensor) -> torch.Tensor:
        return inner(x).clone()

    def wait(x: torch.Tensor) -> torch.Tensor:
        for one in waits:
            try:
                one()
            except coppice.FailedPrecondition as error:
                told.append(str(error))
        if kept:
            kept.pop()  # Whose memory is freed when the operator has ended.
        return x.clone()

    def join(x: torch.Tensor) -> torch.Tensor:
        found = []

        def run():
            with torch.no_grad():
                found.append(inner(x).clone())

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return found.pop()

    calls, waiting, joins = (operator(body.__name__, body) for body in (call, wait, join))
    for _ in range(2):
        for n in (3, 5, 3, 3):
            x = torch.randn(n, 4)
            torch.testing.assert_close(calls(x), g(x * 2) + 1)
            torch.testing.assert_close(joins(x), g(x * 2) + 1)
        torch.testing.assert_close(inner(x), g(x))  # Now it is compiled outside, too.
    reasons = [reason for report in coppice.torch.report(inner) for reason in report.reasons]
    assert any("called by an operator" in reason for reason in reasons), reasons
    refusals = [reason for report in coppice.torch.report(inner) for reason in report.refusals]
    assert any("waits for another thread" in reason for reason in refusals), refusals
    assert any(report.lifted for report in coppice.torch.report(inner))
    x = torch.randn(3, 4)
    for _ in range(5):
        torch.testing.assert_close(waiting(x), x * 2 + 1)
    assert not kept
    assert len(told) == 5 * len(waits), told
    assert all("wait for itself" in text for text in told), told
    assert device.findings() == [], device.findings()
    print("done")
"""


FORKED = """
    import os
    import torch
    import coppice.torch

    torch.set_grad_enabled(False)
    fn = torch.compile(lambda x: x * 2, backend="coppice", dynamic=True)
    for n in (3, 5):
        fn(torch.ones(n))
    child = os.fork()
    if child == 0:
        try:
            fn(torch.ones(3))
        except coppice.Error as error:
            os._exit(0 if "forked process" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert fn(torch.ones(3)).tolist() == [2, 2, 2]
    print("done")
"""


class NestedTest(unittest.TestCase):
    def test_an_operator_that_calls_what_it_is_part_of_waits_for_nothing(self):
        self.run_alone(NESTED)

    def test_a_forked_child_is_refused_and_its_parent_goes_on(self):
        self.run_alone(FORKED)

    def run_alone(self, text):
        """In a process of its own, which ends if it does what it should."""
        done = subprocess.run([sys.executable, "-B", "-c", textwrap.dedent(text)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              timeout=SECONDS_MAX)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:])
        self.assertIn("done", done.stdout)


if __name__ == "__main__":
    unittest.main()
