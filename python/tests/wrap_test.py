#!/usr/bin/env python3
"""Goal: a wrapped callable computes what it computes unwrapped, however it runs, and says how.
Method: callables copy, fill and launch PTX on the emulator; NumPy is the oracle. Sizes of outputs
are derived from functions of known sizes. wrap_triton_test.py launches by Triton.

    wrap_test.py [unittest's options]

Without NumPy or the extension all is skipped.
"""

import gc
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import unittest
from unittest import mock

try:
    import numpy as np

    import coppice
    from coppice import learning
    from coppice.running import current_stream, empty, empty_like
    from coppice.sizing import expression_of
    from coppice.tracing import evaluate
except ImportError as error:
    raise unittest.SkipTest(f"needs NumPy and the extension: {error}") from error

from coppice.errors import (FailedPrecondition, InvalidArgument, NotFound, StaleOutput,
                            Unimplemented)

SEED = int(os.environ.get("COPPICE_TEST_SEED") or random.randrange(1 << 32))
WRAPS = int(os.environ.get("COPPICE_TEST_WRAPS") or 1000)
SCALE = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 y, .param .u32 n, .param .f32 f)
{
  .reg .b32 %r<5>; .reg .b64 %a<5>; .reg .f32 %f<4>; .reg .pred %p;
  ld.param.u64 %a1, [x]; ld.param.u64 %a2, [y]; ld.param.u32 %r1, [n]; ld.param.f32 %f1, [f];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
  mad.lo.u32 %r2, %r3, %r4, %r2; setp.ge.u32 %p, %r2, %r1; @%p bra END;
  mul.wide.u32 %a3, %r2, 4; add.u64 %a1, %a1, %a3; add.u64 %a2, %a2, %a3;
  ld.global.f32 %f2, [%a1]; mul.f32 %f3, %f2, %f1; st.global.f32 [%a2], %f3;
END: ret;
}
"""

device = coppice.device("emulator")
scale_kernel = device.load_kernels(SCALE).get("scale")
ROWS = coppice.Dim("rows", max=64)


def launch_scale(x, y, factor):
    count = x.nbytes // 4
    arguments = [struct.pack("Q", x.data_ptr()), struct.pack("Q", y.data_ptr()),
                 struct.pack("I", count), struct.pack("f", factor)]
    device.launch(scale_kernel, [max(-(-count // 128), 1)], [128], arguments, current_stream())


def scaled(x, factor=2.0):
    y = empty_like(x)
    launch_scale(x, y, factor)
    return y


def twice_scaled(x):
    return scaled(scaled(x))


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1


def wrap(fn=scaled, dynamic=None, claim="row_independent", **options):
    if dynamic is None:
        dynamic = {"x": {0: ROWS}}
    return coppice.wrap(fn, dynamic, claim=claim, device="emulator", **options)


class WrapCase(unittest.TestCase):
    def tearDown(self):
        device.synchronize()
        self.assertEqual(device.findings(), [])

    def check(self, output, expected):
        np.testing.assert_array_equal(np.from_dlpack(output), expected)


class CallTest(WrapCase):
    def test_a_bucket_warms_up_is_recorded_and_replays(self):
        with wrap() as fn:
            kinds = []
            for rows in (5, 8, 6, 7, 8):
                lease = fn.run(numbers(rows, 3))
                kinds.append((lease.kind, lease.reason))
                self.check(lease[0], 2 * numbers(rows, 3))
                del lease
            self.assertEqual(kinds, [("warm_up", "new_bucket"), ("record", "new_bucket")]
                             + [("replay", "none")] * 3)
            self.assertEqual(fn.stats(), {
                "calls": 5, "runs": {"warm_up": 1, "record": 1, "replay": 3},
                "reasons": {"new_bucket": 2}, "variants": 1, "variants_ended": 0, "traces": 3,
                "learned": {}})
            bucket, = [one for one in fn.buckets() if one["recorded"]]
            self.assertEqual((bucket["bucket"], bucket["graph_nodes"]), ([8], 1))

    def test_random_sizes_equal_the_callable_unwrapped(self):
        draw = random.Random(SEED)
        with wrap(twice_scaled) as fn:
            for _ in range(60):
                rows = draw.randint(1, 64)
                self.check(fn(numbers(rows, 5)), 4 * numbers(rows, 5), )
            self.assertGreater(fn.stats()["runs"]["replay"], 40)

    def test_padding_reaches_no_live_row(self):
        with wrap() as fn:
            for poison in ("nan", "pattern", "noise"):
                for _ in range(3):
                    lease = fn.run(numbers(5, 3), options={"poison": poison})
                    self.check(lease[0], 2 * numbers(5, 3))

    def test_an_output_is_read_where_it_lies_by_the_next_call(self):
        with wrap() as first, wrap(twice_scaled) as second:
            for _ in range(4):
                with coppice.chain():
                    self.check(second(first(numbers(8, 3))), 8 * numbers(8, 3))

    def test_an_output_that_was_written_over_is_stale(self):
        with wrap() as fn:
            for _ in range(3):
                fn(numbers(8, 3))
            kept = fn(numbers(8, 3))
            fn(numbers(8, 3))
            with self.assertRaises(StaleOutput):
                np.from_dlpack(kept)

    def test_strict_names_what_keeps_a_call_from_replaying(self):
        with wrap() as fn:
            fn(numbers(4, 3))
            with coppice.stance("strict"), self.assertRaises(FailedPrecondition):
                fn(numbers(32, 3))

    def test_explain_says_what_a_call_would_do(self):
        with wrap() as fn:
            self.assertIn("a new variant, f32[rows,3]", fn.explain(numbers(4, 3)))
            for _ in range(2):
                fn(numbers(4, 3))
            self.assertIn("replay", fn.explain(numbers(3, 3)))
            self.assertIn("new_bucket", fn.explain(numbers(33, 3)))

    def test_warm_records_ahead_and_tells_its_progress(self):
        with wrap() as fn:
            told = []
            fn.warm([4, {"rows": 16}, [64]], numbers(2, 3),
                    progress=lambda done, total: told.append((done, total)))
            self.assertEqual(told, [(1, 3), (2, 3), (3, 3)])
            for rows in (3, 16, 40):
                self.assertEqual(fn.run(numbers(rows, 3)).kind, "replay")

    def test_warm_without_a_variant_asks_for_an_example(self):
        with wrap() as fn, self.assertRaisesRegex(FailedPrecondition, "example"):
            fn.warm([4])

    def test_a_size_beyond_its_bounds_is_refused(self):
        with wrap() as fn, self.assertRaisesRegex(InvalidArgument, "rows <= 64"):
            fn(numbers(65, 3))

    def test_an_exception_of_the_callable_is_the_callers(self):
        def fails(x):
            if x.shape[0] == 4 and len(calls) > 3:
                raise ZeroDivisionError("of fn")
            calls.append(x.shape)
            return scaled(x)

        calls = []
        with wrap(fails) as fn:
            fn(numbers(2, 3))
            with self.assertRaisesRegex(ZeroDivisionError, "of fn"):
                fn(numbers(4, 3))

    def test_keywords_and_defaults_are_positions(self):
        with wrap() as fn:
            self.check(fn(x=numbers(4, 3), factor=3.0), 3 * numbers(4, 3))
            self.check(fn(numbers(4, 3), 3.0), 3 * numbers(4, 3))
            self.check(fn(numbers(4, 3)), 2 * numbers(4, 3))
            self.assertEqual(fn.stats()["variants"], 2)

    def test_threads_get_their_own_results(self):
        session, wrong = coppice.Session(device, lanes=8), []
        with wrap(session=session) as fn:

            def calls(lane):
                draw = random.Random(SEED + lane)
                for _ in range(30):
                    rows = draw.randint(1, 8)
                    tensor = fn.run(numbers(rows, 3) + lane,
                                    options={"lane": lane}).detach()[0]
                    if not np.array_equal(np.from_dlpack(tensor), 2 * (numbers(rows, 3) + lane)):
                        wrong.append(lane)

            threads = [threading.Thread(target=calls, args=(lane,)) for lane in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
            self.assertFalse(any(thread.is_alive() for thread in threads))
            self.assertEqual(wrong, [])
            self.assertEqual(fn.stats()["calls"], 240)
        session.close()


class VariantTest(WrapCase):
    def test_types_ranks_sizes_and_numbers_make_variants(self):
        with wrap() as fn:
            fn(numbers(4, 3))
            fn(numbers(4, 5))
            fn(numbers(4))
            fn(numbers(4, 3), 3.0)
            fn(numbers(4, 3).view(np.int32))
            self.assertEqual(fn.stats()["variants"], 5)
            self.assertEqual(fn.variants()[0], "f32[rows,3] factor=2.0")
            self.assertEqual(fn.variants()[4], "i32[rows,3] factor=2.0")

    def test_numbers_that_are_equal_but_of_other_types_are_apart(self):
        with wrap(lambda x, factor: scaled(x, 3.0 if factor is True else 2.0)) as fn:
            for factor in (1, 1.0, True):
                self.check(fn(numbers(4, 3), factor), (3 if factor is True else 2) * numbers(4, 3))
            self.assertEqual(fn.stats()["variants"], 3)
            with self.assertRaisesRegex(InvalidArgument, "factor is a set"):
                fn(numbers(4, 3), {1, 2})

    def test_two_wraps_of_one_function_live_side_by_side(self):
        with wrap() as one, wrap() as other:
            for fn in (one, other, one, other):
                self.check(fn(numbers(4, 3)), 2 * numbers(4, 3))

    def test_members_of_containers_have_paths(self):
        def both(pair, named):
            return {"sum": scaled(pair[0]), "of": (scaled(named["a"]), scaled(pair[1]))}

        with wrap(both, {"pair.0": {0: ROWS}, "pair.1": {0: ROWS},
                         "named.a": {0: "rows"}}) as fn:
            for rows in (4, 3, 2, 4):
                got = fn((numbers(rows, 2), numbers(rows)), {"a": numbers(rows, 4)})
                self.check(got["sum"], 2 * numbers(rows, 2))
                self.check(got["of"][0], 2 * numbers(rows, 4))
                self.check(got["of"][1], 2 * numbers(rows))

    def test_axes_of_one_name_have_one_size(self):
        def add(x, w):
            return scaled(x), scaled(w)

        with wrap(add, {"x": {0: ROWS}, "w": {0: ROWS}}) as fn:
            fn(numbers(4), numbers(4))
            with self.assertRaises(InvalidArgument):
                fn(numbers(4), numbers(5))

    def test_a_size_may_be_an_expression(self):
        with wrap(lambda x, w: scaled(w), {"x": {0: ROWS}, "w": {0: "2*rows"}}) as fn:
            for rows in (2, 3, 4):
                self.check(fn(numbers(rows), numbers(2 * rows)), 2 * numbers(2 * rows))
            with self.assertRaises(InvalidArgument):
                fn(numbers(4), numbers(9))

    def test_an_integer_may_vary_with_a_size(self):
        def filled(x, n):
            y = empty([n], "f32")
            launch_scale(x, y, 2.0)
            return y

        with wrap(filled, {"x": {0: ROWS}, "n": ROWS}) as fn:
            for rows in (4, 3, 2, 4):
                self.check(fn(numbers(rows), rows), 2 * numbers(rows))
            self.assertEqual(fn.stats()["variants"], 1)
            with self.assertRaisesRegex(InvalidArgument, "n is 5"):
                fn(numbers(4), 5)

    def test_an_integer_may_be_a_size_of_its_own(self):
        def ones(n):
            y = empty([n], "u8")
            device.fill(y.data_ptr(), n, 1, current_stream())
            return y

        with wrap(ones, {"n": ROWS}) as fn:
            for rows in (4, 3, 2, 4):
                self.check(fn(rows), np.ones(rows, np.uint8))
            self.assertEqual(fn.stats()["runs"]["replay"], 1)

    def test_a_static_argument_of_the_host_is_refused_by_its_name(self):
        for w in (numbers(5), device.upload(numbers(5)).to_host()):
            with wrap(lambda x, w: (scaled(x), scaled(w)), static="w") as fn:
                with self.assertRaisesRegex(InvalidArgument, "w is a static input.*upload"):
                    fn(numbers(3), w)

    def test_static_arguments_are_bound_where_they_lie(self):
        weight = device.upload(numbers(3))
        with wrap(lambda x, w: (scaled(x), scaled(w)), static="w") as fn:
            for factor in (1, 2, 3, 4):
                weight.copy_from(numbers(3) * np.float32(factor))
                _, copied = fn(numbers(4, 3), weight)
                self.check(copied, 2 * factor * numbers(3))
            with self.assertRaisesRegex(InvalidArgument, "upload"):
                fn(numbers(4, 3), numbers(3))

    def test_what_a_callable_mutates_is_the_callers(self):
        state = device.upload(numbers(4))

        def advance(state):
            launch_scale(state, state, 2.0)
            return scaled(state)

        with coppice.wrap(advance, static="state", mutates="state", device="emulator") as fn:
            for call in range(4):
                self.check(fn(state), numbers(4) * 2 ** (call + 2))
            self.check(state, numbers(4) * 16)


# Run by a process of its own, whose only device it ends.
FAULT = """
import gc, struct
import coppice, numpy
from coppice.running import current_stream, empty_like
from wrap_test import SCALE, device
kernel = device.load_kernels(SCALE).get("scale")
nowhere = struct.pack("Q", 64)
def launch(x):
    device.launch(kernel, [1], [32], [nowhere, nowhere, struct.pack("I", 32), struct.pack("f", 1)],
                  current_stream())
    return empty_like(x)
fn = coppice.wrap(launch, {"x": {0: coppice.Dim("rows", max=64)}})
try:
    fn(numpy.zeros(3, numpy.float32))
except coppice.Error as error:
    print("raised", error.driver_result)
del fn
gc.collect()
"""


class FaultTest(unittest.TestCase):
    def test_what_a_fault_ended_goes_in_silence(self):
        done = subprocess.run([sys.executable, "-B", "-c", FAULT], capture_output=True, text=True,
                              cwd=pathlib.Path(__file__).parent)
        self.assertEqual((0, "raised 700\n"), (done.returncode, done.stdout), done.stderr)
        self.assertNotIn("ignored", done.stderr)


class OutputTest(WrapCase):
    def test_what_is_returned_may_be_an_input(self):
        with wrap(lambda x: (x, scaled(x))) as fn:
            for rows in (4, 3, 4):
                same, other = fn(numbers(rows, 2))
                self.check(same, numbers(rows, 2))
                self.check(other, 2 * numbers(rows, 2))

    def test_given_outputs_need_no_run_to_find_them(self):
        with wrap(outputs={"y": ("f32", ["rows", 3])}) as fn:
            for rows in (4, 3, 4, 4):
                self.check(fn(numbers(rows, 3)), 2 * numbers(rows, 3))
            self.assertEqual(fn.stats()["traces"], 0)

    def test_outputs_that_are_given_wrong_are_told(self):
        with wrap(outputs={"y": ("f32", ["rows", 4])}) as fn:
            with self.assertRaisesRegex(FailedPrecondition, r"f32\[4,3\].*f32\[4,4\]"):
                fn(numbers(4, 3))

    def test_what_is_no_tensor_is_told(self):
        with wrap(lambda x: 3) as fn, self.assertRaisesRegex(InvalidArgument, "int"):
            fn(numbers(4, 3))

    def test_tensors_of_the_host_are_no_results_on_the_emulator(self):
        host = np.ones((3, 4), np.float32)
        results = {"array": lambda x: host, "copy": lambda x: x.to_host()}
        for name, fn in results.items():
            for outputs in (None, {"y": ("f32", [3, 4])}):
                with self.subTest(name=name, outputs=outputs), \
                        self.assertRaisesRegex(InvalidArgument, "on the host; on the emulator"):
                    coppice.wrap(fn, outputs=outputs, name=name)(numbers(3, 4))

    def test_a_callable_that_calls_what_it_is_wrapped_as_is_told(self):
        fn = coppice.wrap(lambda x: fn(x))
        with self.assertRaisesRegex(FailedPrecondition, "call the function itself"):
            fn(numbers(3, 4))
        inner = wrap()
        inner(numbers(3, 4))
        outer = coppice.wrap(lambda x: inner(x), name="outer")
        with self.assertRaisesRegex(FailedPrecondition, "one of its own callables or callbacks"):
            outer(numbers(3, 4))

    def test_sizes_are_found_again(self):
        draw = random.Random(SEED)
        dims = {name: coppice.Dim(name) for name in ("n", "m", "k")}
        for text in ("7", "n", "n + m", "2*n + 3", "3*n + 2*m - 1", "n*m", "2*n*m", "n // 2",
                     "(n + 1) // 2", "(n + 15) // 16", "2*((n + 3) // 4)", "n - 1", "n*m*k"):
            for _ in range(20):
                sizes = {name: draw.randint(2, 300) for name in dims}
                found = expression_of(lambda point: evaluate(text, point), sizes, dims, "y")
                for _ in range(10):
                    point = {name: draw.randint(2, 300) for name in dims}
                    value = found if isinstance(found, int) else evaluate(found, point)
                    self.assertEqual(value, evaluate(text, point), f"{text} as {found}, {sizes}")

    def test_a_size_that_is_no_expression_is_told(self):
        dims = {"n": coppice.Dim("n")}
        with self.assertRaisesRegex(InvalidArgument, "outputs="):
            expression_of(lambda point: point["n"] ** 2, {"n": 30}, dims, "y")


class DimTest(WrapCase):
    def kinds(self, policy, sizes, **options):
        with wrap(dynamic={"x": {0: coppice.Dim("rows", policy=policy, **options)}}) as fn:
            for rows in sizes:
                fn(numbers(rows))
            return sorted(bucket["bucket"][0] for bucket in fn.buckets())

    def test_policies_are_words_lists_and_files(self):
        self.assertEqual(self.kinds("linear:16", [3, 17], max=64), [16, 32])
        self.assertEqual(self.kinds([4, 10], [3, 5]), [4, 10])
        self.assertEqual(self.kinds("4,10", [3, 5]), [4, 10])
        self.assertEqual(self.kinds("exact", [3, 5]), [3, 5])
        self.assertEqual(self.kinds(np.array([4, 10]), [3, 5]), [4, 10])
        self.assertEqual(self.kinds(("4,10", 64), [3, 5, 30]), [4, 10, 64])
        self.assertEqual(self.kinds(("learn", 64), [3, 6]), [3, 7])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "buckets.json"
            path.write_text(json.dumps({"version": 1, "buckets": [6, 12]}))
            self.assertEqual(self.kinds(str(path), [3, 9]), [6, 12])
            path.write_text("{")
            with self.assertRaisesRegex(InvalidArgument, "buckets.json"):
                self.kinds(path, [3])
        with self.assertRaises(NotFound):
            coppice.Dim("rows", policy="nowhere.json")
        self.assertEqual(coppice.Dim("rows", policy={"version": 1, "buckets": [6]}).buckets(), [6])

    def test_a_policy_that_there_is_not_is_told_with_its_dim(self):
        for policy in ("pow3", "pow2", "linear:0", [0, 4], [], ("pow2", -1), 3, [1.5],
                       ("linear", 8), ("pow2", "4")):
            with self.assertRaisesRegex(InvalidArgument, "Dim rows: "):
                coppice.Dim("rows", policy=policy)
        with self.assertRaisesRegex(Unimplemented, "Dim rows: .*version"):
            coppice.Dim("rows", policy={"buckets": [1]})

    def test_a_dim_tells_its_buckets(self):
        self.assertEqual(coppice.Dim("rows", max=6).buckets(), [1, 2, 4, 6])
        self.assertEqual(coppice.Dim("rows", policy="vllm", max=8).buckets(), [1, 2, 4, 8])
        self.assertEqual(coppice.Dim("rows", policy="vllm").buckets()[-1], 512)
        self.assertEqual(coppice.Dim("rows", kind="static", max=6).buckets(most=3), [1, 2, 3])

    def test_what_learn_finds_is_a_policy(self):
        policy = coppice.learn([3, 3, 5, 17, 17, 17], 2, limit=20, prior=0)
        self.assertEqual(policy["buckets"], [5, 20])
        self.assertEqual(policy["learned"]["mass"], "6")
        self.assertEqual(coppice.learn({3: 2, 5: 1, 17: 3}, 2, limit=20, prior=0), policy)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "learned.json"
            path.write_text(json.dumps(policy))
            self.assertEqual(self.kinds(path, [3, 9]), [5, 20])
        for sizes, options in (([], {}), ([-1], {}), ([4], {"limit": -1}), ([4], {"buckets": 9}),
                               ({4: 0}, {}), ([4], {"forced": [99]})):
            with self.assertRaises(InvalidArgument):
                coppice.learn(sizes, **{"buckets": 1, **options})
        with self.assertRaises(TypeError):
            coppice.learn([1.5], 1)

    def test_buckets_are_learned_while_calls_go_on(self):
        dims = {"x": {0: coppice.Dim("rows", max=256, policy="learn")}}
        with mock.patch.object(learning, "PERIOD", 60), wrap(dynamic=dims) as fn:
            for call in range(60):
                rows = 130 + call % 5
                self.check(fn(numbers(rows)), 2 * numbers(rows))
            self.assertEqual({"swapped": 1}, fn.stats()["learned"])
            variant, = fn._variants.values()
            self.assertIn(134, json.loads(variant.program.policy("rows"))["buckets"])
            self.assertEqual(60, json.loads(variant.program.observed("rows"))["calls"])
            replays = fn.stats()["runs"]["replay"]
            self.check(fn(numbers(134)), 2 * numbers(134))
            self.assertEqual(replays + 1, fn.stats()["runs"]["replay"])

    def test_a_maximum_far_above_the_sizes_does_not_matter(self):
        draw = random.Random(SEED)
        sizes = [max(2, min(60, int(draw.lognormvariate(2.6, .7)))) for _ in range(480)]

        def waste_of(buckets):
            padded = sum(min(bucket for bucket in buckets if bucket >= size) for size in sizes)
            return 100 * (padded / sum(sizes) - 1)

        for policy in (None, "learn"):
            waste = {}
            for most in (max(sizes), 256, 4096, 1 << 16):
                dims = {"x": {0: coppice.Dim("rows", max=most, policy=policy)}}
                with mock.patch.object(learning, "PERIOD", 120), wrap(dynamic=dims) as fn:
                    for rows in sizes:
                        fn(numbers(rows))
                    variant, = fn._variants.values()
                    buckets = json.loads(variant.program.policy("rows"))["buckets"]
                    self.assertEqual(most, buckets[-1])
                    waste[most] = waste_of(buckets)
            best = waste.pop(max(sizes))
            # A swap has to save a point.
            self.assertLessEqual(max(waste.values()), max(1.15 * best, best + 1), (policy, waste))
        for most in (64, 4096, 1 << 20):
            learned = coppice.learn(sizes, 13, limit=most)
            self.assertLessEqual(waste_of(learned["buckets"]),
                                 1.15 * waste_of(coppice.learn(sizes, 13)["buckets"]))

    def test_what_may_not_record_learns_another_time(self):
        dims = {"x": {0: coppice.Dim("rows", max=256, policy="learn")}}
        with mock.patch.object(learning, "PERIOD", 8), wrap(dynamic=dims) as fn:
            for _ in range(7):
                fn(numbers(130))
            with coppice.stance("strict"):
                self.check(fn(numbers(130)), 2 * numbers(130))
            self.assertEqual({"refused": 1}, fn.stats()["learned"])

    def test_a_size_without_a_policy_is_learned_from_powers_of_two_on(self):
        for dim, learned in ((coppice.Dim("rows", max=256), {"swapped": 1}),
                             (coppice.Dim("rows", max=256, kind="auto"), {"swapped": 1}),
                             (coppice.Dim("rows", max=256, policy="pow2"), {})):
            with self.subTest(dim), mock.patch.object(learning, "PERIOD", 60), wrap(
                    dynamic={"x": {0: dim}}) as fn:
                for call in range(59):
                    rows = 130 + call % 5
                    self.check(fn(numbers(rows)), 2 * numbers(rows))
                self.assertIn([256], [one["bucket"] for one in fn.buckets()])
                y = fn(numbers(134))  # Which learns, and is read behind that.
                self.check(y, 2 * numbers(134))
                self.assertEqual(learned, fn.stats()["learned"])
                variant, = fn._variants.values()
                buckets = json.loads(variant.program.policy("rows"))
                if learned:
                    self.assertIn(134, buckets["buckets"])
                    self.assertLessEqual(sum(one <= 134 for one in buckets["buckets"]), 9,
                                         "as many as powers of two")
                else:
                    self.assertEqual(("pow2", 256), (buckets["ladder"], buckets["maximum"]))

    def test_ranks_that_vote_keep_their_buckets(self):
        with coppice.Session(device, vote=lambda bucket, kind, _: (bucket, kind, True),
                             barrier=lambda: None) as voting, mock.patch.object(
                                 learning, "PERIOD", 8), wrap(session=voting) as fn:
            for _ in range(9):
                self.check(fn(numbers(33)), 2 * numbers(33))
            self.assertEqual({"refused": 1}, fn.stats()["learned"])
            self.assertEqual([[64]], [one["bucket"] for one in fn.buckets()])

    def test_a_size_that_cannot_be_learned_keeps_its_buckets(self):
        state = device.upload(numbers(4))
        with coppice.wrap(lambda x, state: scaled(x), {"x": {0: ROWS}}, claim="row_independent",
                          static="state", mutates="state", device="emulator") as fn:
            self.check(fn(numbers(3), state), 2 * numbers(3))
            variant, = fn._variants.values()
            self.assertEqual(([], [4]), (variant.learner.symbols, fn.buckets()[0]["bucket"]))
        for dim in (coppice.Dim("rows"), coppice.Dim("rows", max=1 << 17),
                    coppice.Dim("rows", max=64, kind="static")):
            with self.subTest(dim), wrap(dynamic={"x": {0: dim}}) as fn:
                fn(numbers(3))
                variant, = fn._variants.values()
                self.assertEqual([], variant.learner.symbols)

    def test_learning_needs_a_maximum_and_leaves_what_is_written_alone(self):
        with self.assertRaisesRegex(InvalidArgument, "rows.*max"):
            coppice.Dim("rows", policy="learn")
        state = device.upload(numbers(4))
        dims = {"x": {0: coppice.Dim("rows", max=256, policy="learn")}}
        with coppice.wrap(lambda x, state: scaled(x), dims, claim="row_independent", static="state",
                          mutates="state", device="emulator") as fn:
            with self.assertRaisesRegex(InvalidArgument, "state; give another policy"):
                fn(numbers(3), state)

    def pair(self, policies, batch=None, length=None, **options):
        """A callable of two Dims, and the buckets of a call of 3 x 100."""
        dims = {"x": {0: batch or coppice.Dim("batch", max=8),
                      1: length or coppice.Dim("length", max=512)}}
        with wrap(dynamic=dims, policies=policies, **options) as fn:
            self.check(fn(numbers(3, 100)), 2 * numbers(3, 100))
            return [bucket["bucket"] for bucket in fn.buckets()]

    def test_two_dims_are_padded_together(self):
        document = {"version": 1, "buckets": [[1, 512], [4, 128]]}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "joint.json"
            path.write_text(json.dumps(document))
            for policy, bucket in (("1x512,4x128", [4, 128]), ([(1, 512), (4, 128)], [4, 128]),
                                   (document, [4, 128]), (path, [4, 128]),
                                   ("pow2/linear:64", [4, 128]), ("pow2/512", [4, 512])):
                with self.subTest(policy=policy):
                    self.assertEqual([bucket], self.pair({("batch", "length"): policy}))
        self.assertEqual([[8, 512]], self.pair({("length", "batch"): "512x8"}))

    def test_a_policy_by_name_takes_the_place_of_the_dims(self):
        self.assertEqual([[3, 104]], self.pair({"batch": "exact", "length": "linear:8"},
                                               batch=coppice.Dim("batch", max=8, policy="pow2")))

    def test_a_dim_of_a_pair_is_padded_alone_where_the_other_one_is_not(self):
        with wrap(lambda x, n=0: scaled(x), {"x": {0: coppice.Dim("rows", max=64)},
                                             "n": coppice.Dim("count", max=8)},
                  policies={("rows", "count"): "64x8"}) as fn:
            self.check(fn(numbers(3)), 2 * numbers(3))
            self.check(fn(numbers(3), 3), 2 * numbers(3))
            self.assertEqual([[64, 8]], [one["bucket"] for one in fn.buckets()][:1])

    def test_policies_of_two_that_are_none_are_told(self):
        pair, good = ("batch", "length"), "1x512,4x128"
        for policies, options, message in (
                ({pair: "pow3/pow2"}, {}, "policy of batch and length: .*pow3"),
                ({pair: "learn"}, {}, "learned from a log"),
                ({("batch", "width"): good}, {}, "no Dim width; valid names: batch, length"),
                ({"width": "pow2"}, {}, "no Dim width"),
                ({pair: good, "length": "pow2"}, {}, "length is in two policies"),
                ({pair: good}, {"batch": coppice.Dim("batch", max=8, policy="pow2")},
                 "Dim batch has its own policy"),
                ({pair: good}, {"length": coppice.Dim("length", max=256)},
                 "symbol length has the bucket 512, but its max is 256"),
                ({pair: good}, {"claim": "exact"}, "symbol batch .*has no claim"),
                ({pair: good}, {"batch": coppice.Dim("batch", kind="static")},
                 "make it dynamic")):
            with self.subTest(message=message), self.assertRaisesRegex(InvalidArgument, message):
                self.pair(policies, **options)

    def test_without_a_claim_nothing_is_padded(self):
        with wrap(claim="exact") as fn:
            for rows in (3, 5, 3, 3):
                self.check(fn(numbers(rows)), 2 * numbers(rows))
            self.assertEqual(sorted(bucket["bucket"] for bucket in fn.buckets()), [[3], [5]])

    def test_what_can_never_be_right_is_refused(self):
        for bad in ({"name": "2n"}, {"name": "n", "max": 0}, {"name": "n", "min": 5, "max": 4},
                    {"name": "n", "kind": "odd"}):
            with self.assertRaises(InvalidArgument):
                coppice.Dim(**bad)
        for policy in ([4, 32], "4,32", ("pow2", 32), {"version": 1, "buckets": [4, 32]},
                       {"version": 1, "ladder": "pow2", "maximum": 32}):
            with self.assertRaisesRegex(InvalidArgument, "Dim n: .*bucket 32, beyond max 20"):
                coppice.Dim("n", max=20, policy=policy)
            self.assertEqual(32, coppice.Dim("n", max=32, policy=policy).buckets()[-1])
        with self.assertRaisesRegex(InvalidArgument, "parameter z"):
            wrap(dynamic={"z": {0: ROWS}})
        with self.assertRaisesRegex(InvalidArgument, "different Dims"):
            wrap(lambda x, w: x, {"x": {0: ROWS}, "w": {0: coppice.Dim("rows", max=3)}})
        with wrap(dynamic={"x": {3: ROWS}}) as fn, self.assertRaisesRegex(InvalidArgument, "axes"):
            fn(numbers(4, 3))


class MemoryTest(WrapCase):
    def test_dims_that_no_size_fits_are_refused(self):
        for arguments in ((3,), ("",), ("n", -1), ("n", 5, 2), ("n", "a"), ("n", 0, 2.5),
                          ("n", 0, 8, None, 0), ("n", 0, 8, None, -3)):
            with self.subTest(arguments=arguments), self.assertRaises(InvalidArgument):
                coppice.Dim(*arguments)

    def test_wrapping_leaves_nothing_behind(self):
        data = numbers(4, 3)

        def once():
            with wrap(outputs={"y": ("f32", ["rows", 3])}) as fn:
                for _ in range(3):
                    fn(data)

        for _ in range(20):
            once()
        gc.collect()
        session = coppice.session()
        tracemalloc.start()
        before, held = tracemalloc.get_traced_memory()[0], session.memory()["total"]
        for _ in range(WRAPS):
            once()
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        self.assertLess(after - before, 64 << 10)
        self.assertEqual(session.memory()["total"], held)

    def test_a_wrapped_callable_that_goes_ends_its_programs(self):
        fn = wrap()
        fn(numbers(4, 3))
        names = {bucket["program"] for bucket in coppice.session().buckets()}
        self.assertIn("scaled", names)
        del fn
        gc.collect()
        self.assertNotIn("scaled", {bucket["program"] for bucket in coppice.session().buckets()})


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
