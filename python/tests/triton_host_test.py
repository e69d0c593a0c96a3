#!/usr/bin/env python3
"""Goal: host code that launches Triton kernels runs as it is on the emulator, on PyTorch's tensors
of the CPU, and as if they were on CUDA.
Method: kernels are launched on tensors that share, overlap and forbid writing, tuned, benchmarked
and given descriptors; what a scope replaces is compared with what was there before it.

    triton_host_test.py [unittest's options]

Without Triton, PyTorch, NumPy or the extension all is skipped.
"""

import contextlib
import subprocess
import sys
import threading
import unittest
import warnings

try:
    import numpy as np
    import torch
    import triton
    import triton.language as tl
    from triton.runtime.autotuner import Autotuner
    from triton.tools.tensor_descriptor import TensorDescriptor

    import coppice
    import coppice.triton
    from coppice.triton.descriptors import Map, encoded
except ImportError as error:
    raise unittest.SkipTest(f"needs Triton, PyTorch, NumPy and the extension: {error}") from error

from coppice.errors import Error, InvalidArgument

device = coppice.device("emulator")
BLOCK = 32


@triton.jit
def add_kernel(x, y, n, amount, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n) + amount, mask=at < n)


@triton.jit
def count_kernel(y, n, amount, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.atomic_add(y + at, tl.full((B,), amount, tl.bfloat16), mask=at < n)


@triton.jit
def locked_kernel(lock, x, n, B: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) != 0:
        pass
    at = tl.arange(0, B)
    tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
    tl.atomic_xchg(lock, 0)


@triton.jit
def copy_described(x, y, B: tl.constexpr):
    y.store([0, 0], x.load([0, 0]))


@triton.jit
def sized_kernel(y, n, B: tl.constexpr, SHIFT: tl.constexpr, FULL: tl.constexpr):
    tl.static_assert(B <= 64)
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(y + at, mask=at < n) + 1 + SHIFT, mask=at < n)
    if FULL:
        tl.device_assert(n % B == 0)


def tuned(*sizes, shifts=None, **options):
    """sized_kernel with a configuration per size."""
    configs = [triton.Config({"B": size, "SHIFT": shift}, num_warps=1)
               for size, shift in zip(sizes, shifts or [0] * len(sizes))]
    chosen = triton.heuristics({"FULL": lambda given: given["n"] % given["B"] == 0})(sized_kernel)
    return triton.autotune(configs, key=["n"], **options)(chosen)


def add(x, y, amount=1.0):
    add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), amount, B=BLOCK)


def run_tuned(kernel, y):
    kernel[lambda meta: (triton.cdiv(y.numel(), meta["B"]),)](y, y.numel())


class Pointing:
    """What libraries give a kernel in place of a tensor: it points into the one that it holds."""

    def __init__(self, tensor, offset=0):
        self.held, self.dtype, self.offset = tensor, tensor.dtype, offset

    def data_ptr(self):
        return self.held.data_ptr() + self.offset * self.held.element_size()


def increment(x):
    """Host code as it is written for a GPU."""
    assert x.is_cuda and x.device.type == "cuda"
    with torch.cuda.device(x.device.index):
        y = torch.empty_like(x)
        add(x, y)
    return y


class Increment(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return increment(x)

    @staticmethod
    def backward(context, gradient):
        return increment(gradient.contiguous()) - 1


@torch.library.custom_op("coppice_host_test::increment", mutates_args=())
def increment_operator(x: torch.Tensor) -> torch.Tensor:
    return increment(x) + torch.zeros(1, device="cuda")


class TensorsTest(unittest.TestCase):
    def setUp(self):
        scope = coppice.triton.launching(device)
        self.driver = self.enterContext(scope)
        self.since = device.finding_count()
        self.addCleanup(lambda: self.assertEqual([], device.findings(self.since)))

    def test_what_a_kernel_wrote_is_there_when_the_launch_returns(self):
        x, y = torch.arange(100.0), torch.zeros(100)
        seen = y.numpy()
        add(x, y)
        np.testing.assert_array_equal(seen, np.arange(100) + 1)
        x.mul_(2)  # What the host writes between launches is what the next one reads.
        add(x, y)
        np.testing.assert_array_equal(seen, 2 * np.arange(100) + 1)

    def test_views_of_one_memory_are_one_on_the_device(self):
        whole = torch.zeros(3 * BLOCK)
        add(whole[:BLOCK], whole[BLOCK:2 * BLOCK], 5.0)
        add(whole[BLOCK:2 * BLOCK], whole[2 * BLOCK:], 2.0)
        self.assertEqual([0.0, 5.0, 7.0], whole[::BLOCK].tolist())
        memory = np.zeros(3 * BLOCK, np.float32)
        low, high = torch.from_numpy(memory[:2 * BLOCK]), torch.from_numpy(memory[BLOCK:])
        for source, made in ((low[:BLOCK], high), (low[BLOCK:], high[BLOCK:])):
            add_kernel[(1,)](source, made, BLOCK, 3.0, B=BLOCK)
        self.assertEqual([0.0, 3.0, 6.0], memory[::BLOCK].tolist())

    def test_what_points_into_a_tensor_is_an_argument(self):
        x, y = torch.arange(3.0 * BLOCK), torch.zeros(2 * BLOCK)
        add_kernel[(1,)](Pointing(x, BLOCK), Pointing(y[BLOCK:]), BLOCK, 1.0, B=BLOCK)
        self.assertEqual([0.0] * BLOCK + list(range(BLOCK + 1, 2 * BLOCK + 1)), y.tolist())
        add_kernel[(1,)](triton.reinterpret(x, triton.language.float32), y, BLOCK, 1.0, B=BLOCK)
        self.assertEqual(list(range(1, BLOCK + 1)), y[:BLOCK].tolist())
        for foreign in (Pointing(x, 1 << 20), Pointing(x, -BLOCK)):
            with self.assertRaisesRegex(InvalidArgument, "Pointing that is not on the emulator"):
                add_kernel[(1,)](foreign, y, BLOCK, 1.0, B=BLOCK)

    def test_an_atomic_of_16_bits_takes_the_word_around_it(self):
        y = torch.zeros(11, dtype=torch.bfloat16)
        count_kernel[(1,)](y, 11, 1.0, B=16)
        self.assertEqual([1.0] * 11, y.tolist())

    def test_an_atomic_of_16_bits_is_found_behind_an_odd_end(self):
        """In processes of their own, since the device is lost with the fault."""
        for what in ("--atomic-beyond", "--load-beyond"):
            done = subprocess.run([sys.executable, __file__, what], capture_output=True,
                                  text=True, check=False)
            self.assertRegex(done.stdout, r"^True .*kernel (count|locked)_kernel.*"
                                          r"triton_host_test\.py:\d+", done.stderr)

    def test_memory_that_is_only_read_may_forbid_writing(self):
        memory = np.arange(64, dtype=np.float32)
        memory.flags.writeable = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = torch.from_numpy(memory)
        y = torch.empty(64)
        add(x, y)
        self.assertEqual(64.0, y[63])

    def test_empty_tensors_and_grids_launch_nothing(self):
        add(torch.empty(0), torch.empty(0))
        add_kernel[(1,)](torch.empty(0), torch.empty(0), 0, 1.0, B=BLOCK)
        self.assertEqual(1, self.driver.launches)

    def test_tensors_of_both_kinds_are_arguments_of_one_launch(self):
        x = device.upload(np.arange(64, dtype=np.float32))
        y = torch.empty(64)
        add_kernel[(2,)](x, y, 64, 1.0, B=BLOCK)
        self.assertEqual(64.0, y[63])

    def test_wrapped_callables_take_none(self):
        weight = torch.zeros(BLOCK)

        def fn(x):
            add(weight, x)
            return x

        with self.assertRaisesRegex(InvalidArgument, "torch.Tensor that is not on the"), \
                coppice.wrap(fn, mutates="x", device="emulator") as wrapped:
            wrapped(torch.zeros(BLOCK))

    def test_the_end_of_memory_is_where_it_ends(self):
        """In a process of its own, since the device is lost with the fault."""
        done = subprocess.run([sys.executable, __file__, "--beyond"], capture_output=True,
                              text=True, check=False)
        self.assertRegex(done.stdout, r"^True .*kernel add_kernel.*triton_host_test\.py:\d+",
                         done.stderr)

    def test_where_a_kernel_takes_tensors_of_is_told(self):
        self.assertEqual("cpu", self.driver.get_active_torch_device().type)


class DescriptorsTest(unittest.TestCase):
    def test_descriptors_of_the_host_are_taken_apart_below_90(self):
        x = np.arange(256, dtype=np.float32).reshape(16, 16)
        for capability in (80, 89, 90):
            for given, made in ((torch.from_numpy(x), torch.empty(16, 16)),
                                (device.upload(x), device.empty([16, 16], "f32"))):
                with coppice.triton.launching(device, capability=capability):
                    copy_described[(1,)](*(TensorDescriptor(one, [16, 16], [16, 1], [16, 16])
                                           for one in (given, made)), 16)
                device.synchronize()
                np.testing.assert_array_equal(made.numpy(), x)

    def test_a_descriptor_of_a_coppice_tensor_is_checked_as_any(self):
        x = device.empty([4, 4], "i8")
        with coppice.triton.launching(device), self.assertRaisesRegex(AssertionError, "strides"):
            TensorDescriptor(x, [4, 4], [4, 1], [4, 4])
        with coppice.triton.launching(device), self.assertRaisesRegex(AssertionError, "nan"):
            TensorDescriptor(x, [4, 16], [16, 1], [4, 16], padding="nan")

    def test_maps_are_what_the_driver_encodes(self):
        x = torch.zeros(64, 64, dtype=torch.float16)
        known = {"swizzle": 3, "elem_size": 2, "elem_type": 6, "block_size": [32, 64],
                 "fp4_padded": False}
        memory = device.empty([64, 64], "f16")

        def bytes_of(address=memory.data_ptr(), shape=(64, 64), **more):
            descriptor = TensorDescriptor(x, list(shape), [64, 1], [32, 64])
            return encoded(device, address, Map(descriptor, {**known, **more}))

        made = [bytes_of(), bytes_of(swizzle=0), bytes_of(shape=(48, 64)),
                bytes_of(address=memory.data_ptr() + 16), bytes_of(block_size=[16, 64])]
        self.assertEqual([128] * 5, [len(one) for one in made])
        self.assertEqual(5, len(set(made)))
        self.assertEqual(made[0], bytes_of())
        for wrong in ({"block_size": [512, 64]}, {"address": memory.data_ptr() + 8}):
            with self.assertRaisesRegex(InvalidArgument, "cuTensorMapEncodeTiled"):
                bytes_of(**wrong)


class TuningTest(unittest.TestCase):
    def test_the_first_configuration_that_compiles_is_taken(self):
        kernel, y = tuned(128, 64, 32), torch.zeros(100)
        with coppice.triton.launching(device):
            for count in (1, 2):
                run_tuned(kernel, y)
                self.assertEqual(64, kernel.best_config.kwargs["B"])
                self.assertEqual([count] * 100, y.tolist())  # Nothing ran beside.
        self.assertEqual({}, kernel.cache)

    def test_the_first_configuration_that_fits_is_taken(self):
        @triton.autotune([triton.Config({"S": 256}), triton.Config({"S": 16})], key=[])
        @triton.jit
        def product(a, S: tl.constexpr):
            at = tl.arange(0, S)[:, None] * S + tl.arange(0, S)[None, :]
            value = tl.load(a + at)
            tl.store(a + at, tl.dot(value, value))

        a = torch.eye(256) * 2
        with coppice.triton.launching(device):
            product[(1,)](a)
        self.assertEqual(16, product.best_config.kwargs["S"])
        self.assertEqual(4.0, a.flatten()[0])

    def test_if_none_fits_it_is_said_why(self):
        with coppice.triton.launching(device), \
                self.assertRaises(triton.compiler.errors.CompileTimeAssertionFailure):
            run_tuned(tuned(128, 256), torch.zeros(100))

    def test_configurations_are_compared_and_undone(self):
        for shifts, said in (((0, 0, 0), None),
                             ((0, 1, 0), "100 of 100 elements by up to 1: .*32")):
            kernel, y = tuned(128, 64, 32, shifts=shifts), torch.zeros(100)
            with coppice.triton.launching(device, autotune="compare"):
                if said is None:
                    run_tuned(kernel, y)
                    self.assertEqual([1.0] * 100, y.tolist())
                    continue
                with self.assertRaisesRegex(Error, f"sized_kernel: y differs .*{said}"):
                    run_tuned(kernel, y)
                self.assertEqual([0.0] * 100, y.tolist())

    def test_hooks_of_the_tuner_run_while_it_compares(self):
        kernel, y = tuned(64, 32, restore_value=["y"]), torch.full((100,), 7.0)
        with coppice.triton.launching(device, autotune="compare"):
            run_tuned(kernel, y)
        self.assertEqual([8.0] * 100, y.tolist())
        kernel, y = tuned(64, 32, shifts=(0, 1), reset_to_zero=["y"]), torch.full((100,), 7.0)
        with coppice.triton.launching(device, autotune="compare"), self.assertRaises(Error):
            run_tuned(kernel, y)

    def test_other_words_are_refused(self):
        for wrong in ({"autotune": "fastest"}, {"capability": 100}):
            with self.assertRaises(InvalidArgument), coppice.triton.launching(device, **wrong):
                pass

    def test_benchmarks_answer(self):
        x, y = torch.zeros(64), torch.zeros(64)
        with coppice.triton.launching(device) as driver:
            self.assertGreater(triton.testing.do_bench(lambda: add(x, y)), 0)
            self.assertLess(driver.launches, 50)
            self.assertGreater(triton.testing.do_bench(lambda: None, return_mode="median"), 0)
            self.assertEqual(3, len(driver.get_benchmarker()(lambda: add(x, y),
                                                             quantiles=(0.5, 0.2, 0.8))))

    def test_hooks_of_launches_run(self):
        told = []
        with coppice.triton.launching(device), contextlib.ExitStack() as stack:
            for chain in (triton.knobs.runtime.launch_enter_hook,
                          triton.knobs.runtime.launch_exit_hook):
                hook = lambda metadata: told.append(metadata.get()["name"])  # noqa: E731
                chain.add(hook)
                stack.callback(chain.remove, hook)
            add(torch.zeros(4), torch.zeros(4))
        self.assertEqual(["add_kernel"] * 2, told)


class PretendTest(unittest.TestCase):
    def setUp(self):
        self.enterContext(coppice.triton.launching(device))
        self.enterContext(coppice.triton.pretend_cuda())

    def assert_on(self, kind, *tensors):
        for tensor in tensors:
            self.assertEqual((kind, kind == "cuda", kind == "cpu"),
                             (tensor.device.type, tensor.is_cuda, tensor.is_cpu))
            self.assertEqual(0 if kind == "cuda" else -1, tensor.get_device())

    def test_host_code_and_its_gradients_run(self):
        x = torch.randn(100, device="cuda", requires_grad=True)
        y = Increment.apply(x)
        y.backward(torch.full_like(y, 3.0))
        torch.testing.assert_close(y, x + 1)
        torch.testing.assert_close(x.grad, torch.full((100,), 3.0, device="cuda"))
        self.assert_on("cuda", y, x.grad)

    def test_gradients_that_are_asked_for_run(self):
        x = torch.randn(10, device="cuda", requires_grad=True)
        gradient, = torch.autograd.grad(Increment.apply(x).sum(), x)
        self.assertEqual([1.0] * 10, gradient.tolist())

    def test_operators_of_the_code_run(self):
        x = torch.zeros(10, device="cuda")
        for operator in (increment_operator, torch.ops.coppice_host_test.increment,
                         torch.ops.coppice_host_test.increment.default):
            y = operator(x)
            self.assertEqual([1.0] * 10, y.tolist())
            self.assert_on("cuda", y)

    def test_tensors_say_where_they_were_asked_for(self):
        x = torch.zeros(4, device="cuda")
        self.assert_on("cuda", x, torch.tensor([1], device="cuda:0"), torch.ones(2, device=0),
                       x + 1, x[1:], x.new_empty(3), x.new_tensor([1]), torch.cat([x, x]),
                       torch.empty_like(x), torch.zeros(3, device=x.device), x.sum(), x.half(),
                       torch.empty(2, pin_memory=True).cuda(), torch.ones(2).to(x),
                       torch.as_tensor([1.0], device="cuda"), torch.nn.Linear(2, 2).cuda().weight,
                       torch.rand(2, device="cuda", generator=torch.Generator(device="cuda")))
        self.assert_on("cpu", torch.zeros(4), x.cpu(), x.to("cpu"), x.cpu() * 2, torch.tensor(1),
                       torch.empty_like(x, device="cpu"), torch.from_numpy(np.zeros(2)),
                       x.to(torch.zeros(1)), torch.nn.Linear(2, 2).weight)
        with torch.device("cuda"):
            self.assert_on("cuda", torch.zeros(2))
        torch.set_default_device("cuda")
        self.assert_on("cuda", torch.zeros(2), torch.as_tensor([1]))
        torch.set_default_device(None)
        self.assert_on("cpu", torch.zeros(2))

    def test_moves_copy_only_between_devices(self):
        array = np.zeros(4, np.float32)
        host = torch.from_numpy(array)
        for moved in (host.cuda(), host.to("cuda"), host.to(device="cuda", dtype=torch.float32),
                      torch.as_tensor(array, device="cuda"), torch.as_tensor(host, device="cuda"),
                      host.to(torch.zeros(1, device="cuda")), host.to("cuda", torch.float32, True)):
            self.assert_on("cuda", moved)
            self.assertIs(moved, moved.cuda())
            self.assertIs(moved, moved.to("cuda"))
            back = moved.cpu()
            moved.add_(1)
            self.assertEqual((0.0, 0.0), (float(array[0]), float(back[0])))
        self.assertIs(host, host.cpu())

    def test_a_tensor_of_the_host_is_refused(self):
        x = torch.zeros(BLOCK)
        with self.assertRaisesRegex(ValueError, "add_kernel: x cannot be accessed from Triton"):
            add(x, torch.zeros(BLOCK, device="cuda"))

    def test_torch_cuda_answers(self):
        known = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.assertEqual((8, 0), (known.major, known.minor))
        self.assertEqual((8, 0), torch.cuda.get_device_capability())
        self.assertGreater(known.multi_processor_count, 0)
        self.assertEqual((True, 1), (torch.cuda.is_available(), torch.cuda.device_count()))
        stream, before = torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(before)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream), stream:
            self.assertIs(stream, torch.cuda.current_stream())
            first.record()
            increment(torch.zeros(4, device="cuda"))
            last.record(stream)
        self.assertIs(before, torch.cuda.current_stream())
        torch.cuda.synchronize()
        self.assertGreater(first.elapsed_time(last), 0)
        torch.manual_seed(7)
        drawn = torch.rand(3, device="cuda")
        torch.cuda.manual_seed_all(7)
        self.assertTrue(torch.equal(drawn, torch.rand(3, device="cuda")))

    def test_other_threads_see_what_is_so(self):
        x, seen = torch.zeros(4, device="cuda"), []
        other = threading.Thread(target=lambda: seen.append(x.device.type))
        other.start()
        other.join()
        self.assertEqual(["cpu"], seen)


class ScopeTest(unittest.TestCase):
    def state(self):
        """What scopes replace."""
        return (dict(vars(torch.cuda)), {name: getattr(torch, name) for name in (
            "Generator", "from_numpy", "from_dlpack", "frombuffer", "set_default_device")},
            dict(vars(Autotuner)), dict(vars(TensorDescriptor)),
            dict(triton.backends.backends), triton.runtime.driver._active,
            torch._C._len_torch_function_stack())

    def test_scopes_leave_nothing_behind(self):
        before, held = self.state(), torch.zeros(2)
        for _ in range(2):
            with coppice.triton.launching(device), coppice.triton.pretend_cuda():
                self.assertNotEqual(before, self.state())
                self.assertTrue(held.is_cuda)
            self.assertEqual(before, self.state())
            with self.assertRaises(ZeroDivisionError), coppice.triton.launching(device), \
                    coppice.triton.pretend_cuda(), coppice.triton.pretend_cuda():
                1 / 0
            self.assertEqual(before, self.state())
        self.assertFalse(held.is_cuda)

    def test_a_scope_may_pretend_alone(self):
        with coppice.triton.pretend_cuda(capability=89):
            self.assertEqual((8, 9), torch.cuda.get_device_capability(0))
            self.assertEqual(0.0, torch.zeros(2, device="cuda").sum().item())
            self.assertEqual(0, torch.cuda.current_stream().cuda_stream)


def launch_beyond():
    """Reads past the end of x, which is in the middle of the host's memory."""
    x, y = torch.zeros(1 << 12), torch.zeros(1 << 13)
    add_kernel[(1,)](x, y, 1 << 13, 1.0, B=1 << 13)


def count_beyond():
    count_kernel[(1,)](torch.zeros(11, dtype=torch.bfloat16), 12, 1e30, B=16)


def load_beyond():
    locked_kernel[(1,)](torch.zeros(1, dtype=torch.int32), torch.zeros(
        33, dtype=torch.float16), 34, B=64)


BEYOND = {"--beyond": launch_beyond, "--atomic-beyond": count_beyond, "--load-beyond": load_beyond}

if __name__ == "__main__":
    if launch := BEYOND.get(sys.argv[-1]):
        with coppice.triton.launching(device):
            try:
                launch()
            except Error as error:
                print(error.driver_result == 700, error)
    else:
        unittest.main()
