#!/usr/bin/env python3
"""What coppice does with PyTorch on a device: compiled models, wrapped callables, graphs, memory.

    device_check.py cuda|emulator [WHEEL]

With a WHEEL of coppice the package is unpacked from it, else it is the installed one. On the
emulator runs what needs no GPU. tools/gpu_check.sh runs this; what each test is about is shown on
the emulator, or with a stand-in of torch.cuda, by the other tests of this folder.
"""

import pathlib
import sys
import tempfile
import unittest
import zipfile

DEVICE = sys.argv[1] if sys.argv[1:] and sys.argv[1] in ("cuda", "emulator") else None
if DEVICE is None or len(sys.argv) > 3:
    sys.exit("device_check.py: give cuda or emulator, and at most one wheel")
if sys.argv[2:]:
    unpacked = tempfile.TemporaryDirectory(prefix="coppice.")
    with zipfile.ZipFile(sys.argv[2]) as wheel:
        wheel.extractall(unpacked.name)
    sys.path.insert(0, unpacked.name)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from torch import nn  # noqa: E402

import coppice  # noqa: E402
import coppice.torch  # noqa: E402
from coppice.dashboard import own_modules as own  # noqa: E402
from coppice.running import empty_like  # noqa: E402

PLACE = "cuda" if DEVICE == "cuda" else "cpu"
SIZES = (3, 5, 5, 5, 9, 5)
on_cuda = unittest.skipUnless(DEVICE == "cuda", "needs a GPU")


@triton.jit
def softmax_rows(x, y, columns: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, columns)
    values = tl.exp(tl.load(x + at))
    tl.store(y + at, values / tl.sum(values, axis=0))


def softmax(x):
    y = empty_like(x)
    softmax_rows[(x.shape[0],)](x, y, 32)
    return y


def rows(count, width=32):
    return torch.randn(count, width, device=PLACE)


class DeviceTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def assert_close(self, result, expected):
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


class CompiledTest(DeviceTest):
    """torch.compile(backend="coppice") beside eager PyTorch on the same device."""

    def compare(self, module, draw):
        module = module.to(PLACE).eval().requires_grad_(False)
        compiled = torch.compile(module, backend="coppice", dynamic=True)
        for size in SIZES:
            given = draw(size)
            self.assert_close(compiled(given), module(given))
        reports = coppice.torch.report(compiled)
        self.assertTrue(reports)
        for report in reports:
            print(f"{type(module).__name__}: lifted {report.lifted}, kernels {report.kernels}, "
                  f"gemms {report.gemms}, calls {report.calls}, runs {report.runs}, "
                  f"{'; '.join(report.reasons)}", flush=True)

    def test_perceptron(self):
        self.compare(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)), rows)

    def test_convolutions(self):
        self.compare(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(),
                                   nn.Linear(8 * 64, 5)),
                     lambda count: torch.randn(count, 3, 8, 8, device=PLACE))

    def test_attention(self):
        self.compare(own.Attention(), lambda length: torch.randn(2, length, 32, device=PLACE))

    def test_training(self):
        compiled_module = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 4)).to(PLACE)
        module = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 4)).to(PLACE)
        module.load_state_dict(compiled_module.state_dict())
        compiled = torch.compile(compiled_module, backend="coppice", dynamic=True)
        both = [torch.optim.SGD(each.parameters(), 0.1) for each in (compiled_module, module)]
        for size in SIZES:
            given = rows(size)
            for run, optimizer in zip((compiled, module), both):
                optimizer.zero_grad()
                run(given).square().mean().backward()
                optimizer.step()
        for ours, right in zip(compiled_module.parameters(), module.parameters()):
            self.assert_close(ours, right)


class WrappedTest(DeviceTest):
    """Callables on the current stream, recorded and replayed."""

    def replayed(self, fn):
        run = coppice.wrap(fn, dynamic={"x": {0: coppice.Dim("n", max=64)}},
                           claim="row_independent")
        kinds = []
        for count in (4, 4, 3, 4):
            given = rows(count)
            result = run(given)
            kinds.append(result.lease.kind)
            self.assert_close(torch.from_dlpack(result).to(PLACE), torch.softmax(given, -1))
        self.assertEqual(kinds, ["warm_up", "record", "replay", "replay"])
        run.close()

    def test_triton(self):
        self.replayed(softmax)

    @on_cuda
    def test_eager_pytorch(self):
        def eager(x):
            return torch.softmax(x * 2 - x, -1)

        self.replayed(eager)


@on_cuda
class GraphsTest(DeviceTest):
    def captured(self, body):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            body()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.cuda.graph(graph):
            body()
        return graph

    def test_a_graph_that_pytorch_captured(self):
        x, y = rows(8), rows(8)
        captured = coppice.from_graph(self.captured(lambda: y.copy_(x.exp())))
        kinds = []
        for _ in range(4):
            x.normal_()
            kinds.append(captured().kind)
            self.assert_close(y, x.exp())
        self.assertEqual(kinds, ["warm_up", "record", "replay", "replay"])

    def test_a_graph_that_draws_random_numbers_is_refused(self):
        y = rows(8)
        graph = self.captured(lambda: y.normal_())
        with self.assertRaisesRegex(coppice.InvalidArgument, "draws random numbers"):
            coppice.from_graph(graph)


@on_cuda
class MemoryTest(DeviceTest):
    def test_a_pool_of_pytorch_has_memory_of_coppice(self):
        pool = torch.cuda.MemPool(coppice.torch.allocator())
        with torch.cuda.use_mem_pool(pool):
            cache = torch.full((1024, 1024), 3.0, device="cuda")
        self.assertEqual(float(cache.sum()), 3.0 * 1024 * 1024)
        self.assertTrue(pool.snapshot())


@on_cuda
class PartitionsTest(DeviceTest):
    def test_partitions_of_inductor_replay(self):
        module = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).to(PLACE)
        module.requires_grad_(False)
        torch._dynamo.reset()
        with coppice.torch.partitions() as made:
            compiled = torch.compile(module)
            for _ in range(4):
                given = rows(8)
                self.assert_close(compiled(given), module(given))
        self.assertTrue(made)
        for partition in made:
            print(f"partition: {partition.stats()}", flush=True)
            self.assertGreater(partition.stats()["runs"].get("replay", 0), 0)
            partition.close()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
