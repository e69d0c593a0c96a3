#!/usr/bin/env python3
"""Goal: what the backend of torch.compile does on CUDA alone: which device a graph runs on, what
runs it where it is not lifted, and how the results lie then.
Method: PyTorch here has no CUDA. Stand-ins say so much of it as a test needs, on tensors of the
CPU, or of an emulator's memory (device_tensors.py); nothing here shows that PyTorch on a GPU
behaves as they do, for which there is device_check.py.

    backend_cuda_test.py [unittest's options]
"""

import concurrent.futures
import contextlib
import functools
import gc
import logging
import pathlib
import tempfile
import types
import unittest
from unittest import mock

try:
    import torch
    import triton
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor import compile_fx, select_algorithm
    from torch._inductor.runtime import hints, triton_helpers, triton_heuristics

    import coppice
    import coppice.torch
    from coppice import devices
    from coppice.export import inductor, pretending
    from coppice.export.manifest import ExportError
    from coppice.torch import compiler, graph, lowering, registered, session
    from device_tensors import as_on_cuda
    from torch._subclasses import FakeTensorMode
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch and the extension: {error}") from error

from coppice.errors import FailedPrecondition, InvalidArgument, Unavailable


def turned(tensor):
    """The same with strides that ascend."""
    if tensor.dim() < 2:
        return tensor
    axes = list(range(tensor.dim()))[::-1]
    return tensor.permute(axes).contiguous().permute(axes)


class Inductor:
    """Stands for compile_fx_inner: its results lie as it likes, of which it tells AOTAutograd, and
    its arguments have to lie as it was told."""

    def __init__(self):
        self.compiled, self.told, self.lower = [], [], compile_fx.compile_fx_inner

    def __call__(self, module, inputs, **flags):
        if flags.get("fx_wrapper"):  # As the lifting asks it.
            return self.lower(module, inputs, **flags)
        self.compiled.append(flags["is_backward"])
        context = torch._guards.TracingContext.try_get()
        results = module.graph.output_node().args[0]
        self.told.append(context is not None and context.output_strides is not None)
        if self.told[-1]:
            context.output_strides.extend(
                turned(torch.empty(result.meta["val"].shape)).stride()
                if isinstance(result, torch.fx.Node) else None for result in results)
        told = [value.stride() for value in inputs]

        def run(arguments):
            strides = [argument.stride() for argument in arguments]
            assert strides == told, f"{strides}, not {told}"
            found = module.forward(*arguments)
            arguments.clear()
            return [turned(one) if isinstance(one, torch.Tensor) else one for one in found]

        run._boxed_call = True
        return run


class Opened:
    """Stands for coppice.Device on a machine with two GPUs."""

    there = ("cuda", "emulator")
    log = []

    def __init__(self, kind="auto", ordinal=0, **options):
        self.kind = self.there[0] if kind == "auto" else kind
        if self.kind not in self.there or ordinal > 1:
            raise Unavailable(f"no {kind} {ordinal}")
        if (self.kind, 0) in self.log and self.kind == "emulator":
            raise FailedPrecondition("the process has an emulator")
        self.ordinal = ordinal
        self.log.append((self.kind, ordinal))


class DevicesTest(unittest.TestCase):
    def setUp(self):
        Opened.log = []
        for scope in (mock.patch.dict(devices._devices, clear=True),
                      mock.patch.object(devices, "_implied", set()),
                      mock.patch.dict(devices._sessions, clear=True),
                      mock.patch.object(devices, "_told", set()),
                      mock.patch.object(devices._core, "Device", Opened),
                      mock.patch.object(devices._core, "Session",
                                        lambda on, **options: [on, *options])):
            scope.__enter__()
            self.addCleanup(scope.__exit__, None, None, None)

    def test_there_is_one_device_per_ordinal(self):
        for kinds in (("cuda", "auto"), ("auto", "cuda")):
            with self.subTest(kinds):
                devices._devices.clear()
                Opened.log = []
                first, *others = [coppice.device(kind) for kind in kinds]
                self.assertEqual([first], others)
                other = coppice.device("auto", 1)
                self.assertIs(other, coppice.device("cuda", 1))
                self.assertEqual([("cuda", 0), ("cuda", 1)], Opened.log)
                self.assertEqual([[first], [other]],
                                 [coppice.session(one) for one in (first, other)])
                self.assertIs(coppice.session(other), devices.find_session(other))

    def test_an_emulator_for_tensors_of_the_cpu_is_not_what_auto_is(self):
        emulator = devices.device_of_tensors("emulator")
        self.assertEqual("cuda", coppice.device().kind)
        self.assertIs(emulator, coppice.device("emulator"))
        self.assertEqual("cuda", coppice.device().kind)

    def test_the_session_that_is_shown_is_where_functions_ran(self):
        emulator = devices.device_of_tensors("emulator")
        self.assertEqual("cuda", coppice.session()[0].kind)  # Nothing ran yet.
        devices._sessions.clear()
        ran = coppice.session(emulator)
        with self.assertNoLogs("coppice"):
            self.assertIs(ran, coppice.session())
            self.assertIs(emulator, devices.device_in_use())
        self.assertEqual([coppice.device("cuda"), "stance"], coppice.session(stance="eager"))

    def test_of_several_sessions_the_one_of_auto_is_shown_and_the_log_says_so(self):
        emulator = devices.device_of_tensors("emulator")
        for ordinals, shown in (((1, 0), ("cuda", 0)), ((1,), ("cuda", 1))):
            with self.subTest(ordinals=ordinals):
                devices._sessions.clear()
                for on in (*(coppice.device("cuda", ordinal) for ordinal in ordinals), emulator):
                    coppice.session(on)
                with self.assertLogs("coppice", logging.WARNING) as told:
                    found = [coppice.session()[0] for _ in range(3)]
                self.assertEqual([shown] * 3, [(one.kind, one.ordinal) for one in found])
                (line,) = told.output
                self.assertIn(f"cuda 1, {'cuda 0, ' if 0 in ordinals else ''}emulator; "
                              f"coppice.session() and the functions that show its figures use "
                              f"cuda {shown[1]}, unless you give a device: ", line)

    def test_an_emulator_that_was_asked_for_is_what_auto_is(self):
        emulator = coppice.device("emulator")
        self.assertIs(emulator, coppice.device())
        cuda = devices.device_of_tensors("cuda")
        self.assertIs(cuda, coppice.device())

    def test_without_a_gpu_auto_is_the_one_emulator(self):
        with mock.patch.object(Opened, "there", ("emulator",)):
            emulator = devices.device_of_tensors("emulator")
            self.assertIs(emulator, coppice.device())
            with self.assertRaises(FailedPrecondition):
                coppice.device(seed=1)


class PlaceTest(unittest.TestCase):
    """Which device a graph runs on, on a machine with GPUs."""

    def setUp(self):
        torch._dynamo.reset()
        self.module = torch.fx.symbolic_trace(torch.nn.Identity())
        place_of = session.place_of

        def placed(*arguments):
            """PyTorch has two GPUs, of which its compilers may not hear."""
            with mock.patch.object(torch.cuda, "is_available", lambda: True), \
                    mock.patch.object(torch.cuda, "current_device", lambda: 1):
                return place_of(*arguments)

        self.place_of = placed
        scope = mock.patch.object(compiler, "place_of", placed)
        scope.__enter__()
        self.addCleanup(scope.__exit__, None, None, None)

    def on(self, *places):
        with FakeTensorMode():
            return [torch.empty(2, device=place) for place in places]

    def test_auto_is_where_the_tensors_are(self):
        for places, wanted in (([], ("emulator", 0)), (["cpu"], ("emulator", 0)),
                               (["cpu", "cuda:0"], ("cuda", 0)), (["cuda:1"], ("cuda", 1))):
            with self.subTest(places):
                found = self.place_of("auto", self.module, [3, *self.on(*places)])
                self.assertEqual(wanted, found)
        next(iter(self.module.graph.nodes)).meta["example_value"] = self.on("cuda:1")
        self.assertEqual(("cuda", 1), self.place_of("auto", self.module, self.on("cpu")))

    def test_a_device_that_does_not_serve_the_tensors_says_why(self):
        for kind, ordinals, wanted in (
                ("emulator", set(), ""), ("cuda", {1}, ""),
                ("emulator", {0}, "its tensors are on CUDA, but the device is the emulator"),
                ("cuda", set(), "its tensors are not on CUDA"),
                ("cuda", {1, 0}, "its tensors are on several GPUs: 0, 1")):
            with self.subTest(kind=kind, ordinals=ordinals):
                self.assertEqual(wanted, compiler.why_not(kind, ordinals))

    def test_functions_of_the_cpu_run_on_the_emulator(self):
        """Where what they write is copied, wherever it lies."""
        def add(cache, x):
            cache.add_(x)
            return cache * 2

        compiled = torch.compile(add, backend=coppice.torch.backend)
        cache, right = torch.zeros(2, 5)
        for _ in range(3):
            x = torch.randn(5)
            torch.testing.assert_close(compiled(cache, x), add(right, x))
            torch.testing.assert_close(cache, right)
        (report,) = coppice.torch.report(compiled)
        self.assertEqual((True, 0, []), (report.lifted, report.refused, report.in_place))

    def test_device_code_that_is_missing_is_one_warning(self):
        def missing(*_):
            raise Unavailable("KernelLibrary::Load: the image has no code for a GPU")

        compiler.warn_once.cache_clear()
        with mock.patch.object(compiler, "shared", missing), \
                self.assertLogs("coppice", logging.WARNING) as told:
            for factor in (2, 3):
                compiled = torch.compile(lambda x, factor=factor: x * factor,
                                         backend=coppice.torch.backend)
                torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), factor * 1.0))
                (report,) = coppice.torch.report(compiled)
                self.assertFalse(report.lifted)
                self.assertIn("no code for a GPU", report.reasons[0])
        warned = [line for line in told.output if "PyTorch runs every compiled function" in line]
        self.assertEqual(1, len(warned), told.output)


class FallbackTest(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        self.x = torch.randn(3, 4, requires_grad=True)
        self.w = torch.randn(4, 5, requires_grad=True)

    @staticmethod
    def function(x, w):
        return torch.sin((x @ w).exp()) * 2

    def check(self, compiled):
        got, right = compiled(self.x, self.w), self.function(self.x, self.w)
        torch.testing.assert_close(got, right)
        weight = torch.randn_like(right)
        for one, other in zip(*(torch.autograd.grad(result, (self.x, self.w), weight)
                                for result in (got, right))):
            torch.testing.assert_close(one, other)

    def check_on_cuda(self, lift, run):
        """With `lift` in place of Compiler.lift, and `run` of LiftedGraph.run."""
        inductor, fallback = Inductor(), compiler.Compiler.fallback

        def on_cuda(self, *arguments):
            self.cuda, before = True, self.cuda
            try:
                return fallback(self, *arguments)
            finally:
                self.cuda = before

        with mock.patch.object(compile_fx, "compile_fx_inner", inductor), \
                mock.patch.object(compiler.Compiler, "fallback", on_cuda), \
                mock.patch.object(compiler.Compiler, "lift", lift), \
                mock.patch.object(graph.LiftedGraph, "run", run):
            compiled = torch.compile(self.function, backend=coppice.torch.backend, dynamic=False)
            self.check(compiled)
        return inductor, {one.kind: (one.lifted, one.refused)
                          for one in coppice.torch.report(compiled)}

    def test_what_inductor_runs_is_compiled_when_its_graph_is(self):
        """AOTAutograd compiles the backward graph by the strides that it hears of then."""
        def fail(*_):
            raise ExportError("not lifted")

        inductor, reports = self.check_on_cuda(fail, None)
        self.assertEqual([False, True], inductor.compiled)
        self.assertEqual([True, False], inductor.told)  # Nobody asks a backward graph.
        self.assertEqual({"forward": (False, 0), "backward": (False, 0)}, reports)

    def test_results_of_refused_calls_lie_as_was_promised(self):
        """By which the backward graph was compiled, whatever compiler runs the forward call."""
        lift = compiler.Compiler.lift

        def lift_forward(self, module, original, inputs, report, *rest):
            if report.kind == "backward":
                raise ExportError("not lifted")
            return lift(self, module, original, inputs, report, *rest)

        def refuse(*_):
            raise InvalidArgument("refused")

        _, reports = self.check_on_cuda(lift_forward, refuse)
        self.assertEqual({"forward": (True, 1), "backward": (False, 0)}, reports)


class PretendedTest(unittest.TestCase):
    """A thread that compiles pretends to have a device; others launch kernels on theirs."""

    def setUp(self):
        there = types.SimpleNamespace(multi_processor_count=7, major=9, minor=0)
        self.real = {"capability": (9, 0), "processors": 7, "device": 3, "driver": "there",
                     "active": True, "compiler": triton.backends.backends["nvidia"].compiler,
                     "big": True}
        for owner, name, value in (
                (torch.cuda, "get_device_capability", lambda device=None: (9, 0)),
                (CudaInterface, "get_device_properties", staticmethod(lambda device=None: there)),
                (CudaInterface.Worker, "current_device", staticmethod(lambda: 3)),
                (triton.runtime.driver, "_active", "there"),
                (triton.backends.backends["nvidia"].driver, "is_active",
                 staticmethod(lambda: True)),
                (torch._inductor.utils, "is_big_gpu", functools.cache(lambda index=0: True))):
            scope = mock.patch.object(owner, name, value)
            scope.__enter__()
            self.addCleanup(scope.__exit__, None, None, None)
        pool = concurrent.futures.ThreadPoolExecutor(1)
        self.addCleanup(pool.shutdown)
        self.elsewhere = lambda function: pool.submit(function).result()

    @staticmethod
    def seen():
        """What compilers are told."""
        backend = triton.backends.backends["nvidia"]
        compiler = getattr(backend.compiler, "now", lambda: backend.compiler)()
        driver = triton.runtime.driver.active
        return {"capability": torch.cuda.get_device_capability(), "active":
                backend.driver.is_active(), "compiler": compiler,
                "processors": CudaInterface.get_device_properties().multi_processor_count,
                "device": CudaInterface.Worker.current_device(),
                "driver": getattr(driver, "capability", driver),
                "big": torch._inductor.utils.is_big_gpu(0)}

    def test_other_threads_see_what_there_is(self):
        self.assertEqual(self.real, self.seen())
        with pretending.pretended_device(80, cubins=False):
            told, elsewhere = self.seen(), self.elsewhere(self.seen)
        self.assertEqual(self.real, elsewhere)
        self.assertEqual(self.real, self.seen())
        self.assertEqual(((8, 0), 108, 0, 80), tuple(
            told[name] for name in ("capability", "processors", "device", "driver")))
        self.assertIsNot(self.real["compiler"], told["compiler"])

    def test_scopes_of_threads_end_in_any_order(self):
        kept = contextlib.ExitStack()
        with pretending.pretended_device(80):
            self.elsewhere(lambda: kept.enter_context(pretending.pretended_driver(89)))
            with pretending.pretended_driver(86):
                self.assertEqual(86, self.seen()["driver"])
            self.assertEqual(80, self.seen()["driver"])
        self.assertEqual(self.real, self.seen())
        self.assertEqual(89, self.elsewhere(self.seen)["driver"])
        self.elsewhere(kept.close)
        self.assertEqual([self.real] * 2, [self.seen(), self.elsewhere(self.seen)])

    def test_functions_that_remember_nothing_are_left_alone(self):
        """As stand-ins of tests, which may have what clears them."""
        for cleared in ({}, {"cache_clear": lambda: None}):
            stand_in = mock.Mock(spec=[*cleared], return_value=7, **cleared)
            with mock.patch.object(torch.utils._triton, "has_triton", stand_in), \
                    pretending.pretended_device(80):
                self.assertEqual(7, torch.utils._triton.has_triton())

    def test_nothing_is_left_behind(self):
        def state():
            return [dict(vars(owner)) for owner in (
                CudaInterface, torch.cuda, triton.runtime.driver, type(triton.runtime.driver),
                torch._inductor.utils, hints.DeviceProperties)], dict(triton.backends.backends)

        before = state()
        with self.assertRaises(ZeroDivisionError), pretending.pretended_device(80):
            self.assertNotEqual(before, state())
            triton_helpers.set_driver_to_gpu()  # As Inductor does where it loads a kernel.
            self.assertEqual("there", self.elsewhere(self.seen)["driver"])
            raise ZeroDivisionError
        self.assertEqual(before, state())


class TimedTest(unittest.TestCase):
    """Templates of products, of which Inductor takes the fastest where there is a device."""

    def setUp(self):
        torch._dynamo.reset()

    def templates(self, timed):
        """The templates among which a product's is chosen by time, and that which is taken."""
        caller, offered, taken = select_algorithm.TritonTemplateCaller, [], []
        cache = select_algorithm.AlgorithmSelectorCache
        node, compiling = caller.output_node, inductor.compiling

        def output_node(choice):
            taken.append(choice)
            return node(choice)

        def times(choices):
            """The last one is the fastest."""
            offered.extend(choices)
            return {choice: float(-index) for index, choice in enumerate(choices)}

        def looked_up(self, choices, name, inputs, benchmark, **_):
            """Leaves nothing on the disk."""
            return benchmark(choices) if benchmark else {}

        @contextlib.contextmanager
        def compiling_for_what_is_there(capability, configurations=1, **_):
            with pretending.pretended_device(capability, cubins=False), \
                    compiling(capability, configurations, pretended=not timed):
                yield

        with contextlib.ExitStack() as stack:
            for owner, name, value in (
                    (caller, "output_node", output_node),
                    (lowering.inductor, "compiling", compiling_for_what_is_there),
                    (cache, "make_precompile_fn", lambda *_, **__: lambda: None),
                    (cache, "make_benchmark_fn", lambda *_, **__: times),
                    (cache, "lookup", looked_up)):
                stack.enter_context(mock.patch.object(owner, name, value))
            compiled = torch.compile(torch.matmul, backend=coppice.torch.backend)
            x, y = torch.randn(16, 64), torch.randn(64, 64)
            torch.testing.assert_close(compiled(x, y), x @ y, rtol=1e-3, atol=1e-3)
        (report,) = coppice.torch.report(compiled)
        self.assertEqual((True, 1, 0, []), (
            report.lifted, report.kernels, report.gemms, report.calls), report.reasons)
        return offered, taken

    def test_inductor_times_all_templates_on_a_device(self):
        offered, taken = self.templates(timed=True)
        self.assertGreater(len(offered), 5)
        self.assertEqual({select_algorithm.TritonTemplateCaller}, set(map(type, offered)))
        self.assertEqual([offered[-1]], taken)

    def test_without_a_device_the_tile_that_fits_is_taken(self):
        offered, (taken,) = self.templates(timed=False)
        self.assertEqual([], offered)
        for part in ("BLOCK_M=16", "BLOCK_N=64", "BLOCK_K=32"):
            self.assertIn(part, taken.description)

    def test_kernels_that_are_timed_are_loaded_and_others_are_not(self):
        done = []
        tuner = triton_heuristics.CachingAutotuner
        with mock.patch.object(tuner, "precompile", lambda self: done.append("loaded")), \
                mock.patch.object(tuner, "_precompile_worker", lambda self: done.append("made")):
            for timed, kind in ((True, "TEMPLATE"), (True, "POINTWISE"), (False, "TEMPLATE")):
                one = tuner.__new__(tuner)
                one.heuristic_type, one.compile_results = hints.HeuristicType[kind], []
                one.custom_kernel, one.configs = False, []
                with inductor.observed(1, timed):
                    one.precompile()
        self.assertEqual(["loaded", "made", "made"], done)


ROWS, WIDTH = 8, 4  # Of a cache.


def step(cache, x, w, scratch):
    """Reads and writes a cache, as a decoder does, and another tensor."""
    cache[:x.shape[0]].add_(x)
    scratch.mul_(2)
    return (cache * w).sum(1), x + 1


class InPlaceTest(unittest.TestCase):
    """Caches that stay where they are, in programs that an emulator runs on its own memory."""

    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(2)
        self.shared = session.shared(coppice.device("emulator"), {})
        scopes = contextlib.ExitStack()
        self.addCleanup(scopes.close)
        self.memory = scopes.enter_context(as_on_cuda(self.shared))
        self.compiled = torch.compile(step, backend="coppice")
        self.weights = torch.randn(ROWS, WIDTH)
        self.given_weights = self.memory.put(self.weights)
        torch._dynamo.mark_static_address(self.given_weights)
        self.caches = {}

    def cache(self, name):
        """A tensor of the device, and what is right on the CPU. "M" does not begin at a multiple of
        16 bytes."""
        if name not in self.caches:
            right = torch.randn(ROWS, WIDTH)
            self.caches[name] = self.memory.put(right, offset=1 if name == "M" else 0), right
        return self.caches[name]

    def call(self, name, rows=3, scratch=None):
        """Compares a call with eager. Returns whether the cache was copied."""
        given, right = self.cache(name)
        x, more = torch.randn(rows, WIDTH), torch.randn(5)
        given_x = self.memory.put(x)
        given_more = self.memory.put(more) if scratch is None else scratch
        if rows != 3:
            torch._dynamo.mark_dynamic(given_x, 0)
        before = self.shared.session.stats()["real_elements"]
        results = self.compiled(given, given_x, self.given_weights, given_more)
        staged = self.shared.session.stats()["real_elements"] - before - x.numel()
        expected = step(right, x, self.weights, more)
        for one, other in zip((*results, given), (*expected, right)):
            torch.testing.assert_close(self.memory.read(one), other)
        if scratch is None:
            torch.testing.assert_close(self.memory.read(given_more), more)
        return staged >= right.numel()

    def graph(self):
        (found,) = [one for one in devices.followers(self.shared.session)
                    if isinstance(one, graph.LiftedGraph) and one.report is self.report()]
        return found

    def graph_begins_anew(self):
        if not coppice.torch.report(self.compiled):
            return
        one = self.graph()
        one.in_place.end()
        one.in_place, one.report.in_place = one.in_place.fresh(), []

    def report(self):
        (report,) = coppice.torch.report(self.compiled)
        self.assertEqual((True, 0), (report.lifted, report.refused))
        return report

    def test_caches_are_copied_until_they_lie_where_they_lay_before(self):
        for places, copied in (("AAAA", "1000"), ("ABABAB", "110000"), ("AABBAA", "101000"),
                               ("MMMM", "1111"), ("AAMMA", "10110"), ("ABCDEF", "111111")):
            with self.subTest(places):
                self.graph_begins_anew()
                found = [self.call(name) for name in places]
                self.assertEqual(copied, "".join(str(int(one)) for one in found))
                self.assertEqual(["cache"] if "0" in copied else [], self.report().in_place)

    def test_weights_and_what_moves_are_read_as_ever(self):
        before = [self.call("A") for _ in range(3)]
        self.assertEqual([True, False, False], before)
        self.weights = torch.randn(ROWS, WIDTH)
        self.memory.write(self.given_weights, self.weights)
        self.assertFalse(self.call("A"))
        bound = self.graph().in_place
        self.assertEqual(["cache"], self.report().in_place)
        self.assertEqual(2, len(bound.indices))  # The weights, too.

    def test_each_becomes_static_by_itself(self):
        scratch = self.memory.put(torch.randn(5))
        copied = [self.call(name, scratch=scratch) for name in "ABCDD"]
        self.assertEqual(([True] * 5, ["scratch"]), (copied, self.report().in_place))

    def test_bound_caches_are_freed_with_their_last_tensor(self):
        for _ in range(2):
            self.call("A")
        address, known = self.cache("A")[0].data_ptr(), self.graph().in_place.registered
        self.assertEqual(1, len(known.bindings))
        self.assertTrue(self.shared.device.holds(address))
        recorded = len(self.shared.session.buckets())
        del self.caches["A"]
        gc.collect()
        taken = self.memory.device.empty([ROWS * WIDTH], "f32")  # Perhaps what was just freed.
        for _ in range(3):
            self.assertNotEqual(taken.data_ptr(), self.cache("B")[0].data_ptr())
            self.call("B")
        (key,) = known.bindings
        self.assertIn(self.cache("B")[0].data_ptr(), key)
        self.assertEqual(recorded, len(self.shared.session.buckets()))

    def test_a_cache_that_comes_to_lie_where_another_lay_is_bound_already(self):
        for _ in range(2):
            self.call("A")
        records = self.shared.session.stats()["runs"]["record"]
        given, right = self.caches["A"]
        self.caches["A"] = self.memory.sharing(given), right
        self.assertEqual(given.data_ptr(), self.cache("A")[0].data_ptr())
        del given
        gc.collect()
        self.assertEqual([False, False], [self.call("A") for _ in range(2)])
        self.assertEqual(records, self.shared.session.stats()["runs"]["record"])

    def test_caches_that_move_for_ever_record_graphs_only_so_often(self):
        with mock.patch.object(registered, "MOVES_MAX", 2):
            copied = [self.call(name) for name in "AABBCCCBA"]
        self.assertEqual([True, False, True, False, True, True, True, False, False], copied)

    def test_of_many_caches_the_oldest_binding_goes(self):
        with mock.patch.object(registered, "BINDINGS_MAX", 2):
            copied = [self.call(name) for name in "AABBCCAA"]
        self.assertEqual([True, False] * 4, copied)
        self.assertEqual(2, len(self.graph().in_place.registered.bindings))

    def test_a_stance_that_wants_graphs_has_those_of_the_first_program(self):
        self.call("A", 5)
        self.call("A", 6)
        self.assertFalse(self.call("A", 7))
        with coppice.stance("strict"):
            self.assertTrue(self.call("A", 5))
            self.assertFalse(self.call("A", 7))
            with self.assertRaisesRegex(FailedPrecondition, "strict"):
                self.call("B", 4)
        self.assertFalse(self.call("A", 5))

    def test_another_session_begins_with_copies(self):
        """As within coppice.prof.trace; behind it all is as before."""
        for _ in range(2):
            self.call("A")
        first = self.graph().in_place
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace"
            with coppice.prof.trace(path, self.shared.device) as traced, \
                    mock.patch.object(session.shared_by(traced), "emulated", False):
                self.shared, before = session.shared_by(traced), self.shared
                self.assertEqual([], self.report().in_place)
                self.assertEqual([True, False, False], [self.call("A") for _ in range(3)])
                self.assertIsNot(first, self.graph().in_place)
                self.assertEqual(["cache"], self.report().in_place)
            self.shared = before
        self.assertIs(first, self.graph().in_place)
        self.assertEqual(["cache"], self.report().in_place)
        self.assertFalse(self.call("A"))

    def test_a_graph_that_dies_ends_both_programs(self):
        before = len(self.shared.session.buckets())
        for _ in range(2):
            self.call("A")
        self.assertEqual(before + 2, len(self.shared.session.buckets()))
        torch._dynamo.reset()
        del self.compiled
        gc.collect()
        self.assertEqual(before, len(self.shared.session.buckets()))

    def test_what_cannot_be_registered_is_copied(self):
        def refuse(*_):
            raise coppice.ResourceExhausted("no room")

        self.call("A")
        with mock.patch.object(registered.Registered, "__init__", refuse), \
                self.assertLogs("coppice", logging.WARNING) as told:
            copied = [self.call("A") for _ in range(3)]
        self.assertEqual([True] * 3, copied)
        self.assertEqual(1, len(told.output))
        self.assertIn("no room", told.output[0])
        self.assertEqual([], self.report().in_place)


if __name__ == "__main__":
    unittest.main()
