"""What coppice.torch does for those who capture by PyTorch: its memory in runs of callables, graphs
that it captured, partitions of Inductor's.

Method: torch.cuda is the fake of fake_cuda.py, on the emulator's own streams, memory and graphs.
Nothing here shows that PyTorch on a GPU behaves as the fake; tools/gpu_check.sh is for that.
"""

import gc
import threading
import types
import unittest
import weakref
from unittest import mock

try:
    import numpy as np
    import torch
    import torch._inductor.config
    import torch._inductor.utils

    import coppice
    import fake_cuda
    from coppice import _core
    from coppice.torch.allocator import (StepMemory, allocator, library_path, pluggable,
                                         running_torch)
    from coppice.torch.calls import function_of
    from coppice.torch.graphs import from_graph
    from coppice.torch.partitions import partitions
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch, NumPy and the extension: {error}") from error

from coppice.devices import LEGACY_STREAM
from coppice.errors import InvalidArgument, Unavailable
from coppice.libraries import library_stream
from coppice.running import Run

device = coppice.device("emulator")
SIZE = 1000
COPY = {"name": "copy", "inputs": [{"name": "x", "dtype": "u8", "shape": [SIZE]}],
        "outputs": [{"name": "y", "dtype": "u8", "shape": [SIZE]}]}
DATA = np.arange(SIZE, dtype=np.uint8)


class CudaOfEmulator:
    """What running_torch asks of a run's device."""

    ordinal = 0


class FakedTest(unittest.TestCase):
    def setUp(self):
        scope = fake_cuda.installed(device)
        self.cuda = scope.__enter__()
        self.addCleanup(scope.__exit__, None, None, None)
        pluggable.cache_clear()
        self.addCleanup(pluggable.cache_clear)
        self.lines = []
        self.session = coppice.Session(device, log=self.lines.append)
        self.addCleanup(self.session.close)

    def register(self, body):
        """A program that copies its input to its output by way of what `body` allocates."""
        def fn(context):
            run = Run(CudaOfEmulator, context.stream, context)
            with running_torch(run):
                through = body(context)
                source = context.input(0).data_ptr()
                for tensor in through:
                    device.copy(tensor.data_ptr(), source, SIZE, context.stream)
                    source = tensor.data_ptr()
                device.copy(context.output(0).data_ptr(), source, SIZE, context.stream)
                del through, tensor

        return self.session.register_callable(COPY, fn)


class OnCuda:
    """A tensor of the CPU that says it is on CUDA, and notes which stream is to wait for it."""

    def __init__(self, tensor):
        self.tensor, self.asked = tensor, []

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None, **options):
        self.asked.append(stream)
        return self.tensor.__dlpack__()


class StepsTest(FakedTest):
    """Steps that PyTorch runs as launches of CUDA's."""

    def run_step(self, memory, stream, body=lambda: None):
        """What a step sees of PyTorch's state, and of what it is handed."""
        seen = {}

        def double(x):
            seen.update(stream=self.cuda.thread.stream, pool=self.cuda.thread.pool)
            body()
            return x * 2

        x, y = OnCuda(torch.arange(4.0)), OnCuda(torch.zeros(4))
        with torch.library._scoped_library("steps_test", "FRAGMENT") as library:
            library.define("double(Tensor x) -> Tensor")
            library.impl("double", double, "CPU")
            function_of("steps_test.double.default", memory)([x], [y], {}, stream)
        self.assertEqual([0.0, 2.0, 4.0, 6.0], y.tensor.tolist())
        return {**seen, "waits": x.asked + y.asked}

    def test_steps_launch_on_their_stream_and_wait_for_nothing(self):
        memory = StepMemory(0)
        for stream in (4096, 8192):
            seen = self.run_step(memory, stream)
            self.assertEqual({"stream": stream, "pool": memory.pool.id, "waits": [-1, -1]}, seen)
        self.assertIsNone(self.cuda.thread.pool)

    def test_what_steps_allocate_is_theirs_until_the_program_ends(self):
        memory, ended = StepMemory(0), []
        pool = memory.pool.id
        self.run_step(memory, 4096, self.cuda.multiply)
        self.run_step(memory, 4096, lambda: self.cuda.empty(SIZE))
        self.assertEqual({}, self.cuda.workspaces)
        self.assertEqual([], self.cuda.own)
        self.assertEqual(1, self.cuda.uses[pool])
        memory.pool.allocator.free = lambda address, size: ended.append(address)
        addresses = [segment["address"] for segment in memory.pool.segments]
        self.assertTrue(addresses)
        del memory
        self.assertEqual((addresses, []), (ended, self.cuda.leaked))


class MemoryTest(FakedTest):
    def test_what_a_callable_allocates_is_the_runs_in_every_phase(self):
        seen = []

        def body(context):
            tensors = [self.cuda.empty(SIZE), self.cuda.empty(3 << 20)]
            seen.append(context.phase)
            return tensors

        program, before = self.register(body), _core.external_stats()["run_blocks"]
        kinds = []
        for shift in range(4):
            lease = program.run([DATA + np.uint8(shift)])
            kinds.append(lease.kind)
            np.testing.assert_array_equal(np.from_dlpack(lease[0]), DATA + np.uint8(shift))
            del lease
        self.assertEqual(kinds, ["warm_up", "record", "replay", "replay"])
        self.assertEqual(seen, ["warm_up", "record"])
        self.assertEqual(_core.external_stats()["run_blocks"] - before, 4)
        self.assertEqual(self.cuda.own, [])
        self.assertEqual(device.findings(), [])

    def test_a_runs_pool_is_gone_before_the_next(self):
        pools = []

        def body(context):
            self.assertEqual([known() for known in pools], [None] * len(pools))
            tensor = self.cuda.empty(SIZE)
            pools.append(weakref.ref(next(iter(self.cuda.pools))))
            return [tensor]

        program = self.register(body)
        for _ in range(3):
            program.run([DATA])
        gc.collect()
        self.assertEqual([known() for known in pools], [None] * 2)
        self.assertEqual(len(self.cuda.pools), 0)

    def test_ten_thousand_recordings_leave_no_memory_behind(self):
        run = Run(CudaOfEmulator, 0, types.SimpleNamespace(phase="record"))
        own = fake_cuda.Segments()
        own.allocator = lambda: own
        with mock.patch.object(own, "free") as freed, \
                mock.patch("coppice.torch.allocator.pluggable", lambda: own):
            for _ in range(10_000):
                with running_torch(run):
                    self.cuda.empty(SIZE)
        self.assertEqual(([], 10_000), (self.cuda.leaked, freed.call_count))

    def test_workspaces_of_cublas_are_part_of_each_run(self):
        def body(context):
            self.cuda.multiply()
            return [self.cuda.empty(SIZE)]

        self.cuda.multiply()  # Before, as eager code does.
        program, before = self.register(body), _core.external_stats()["run_blocks"]
        kinds = [program.run([DATA]).kind for _ in range(3)]
        self.assertEqual(["warm_up", "record", "replay"], kinds)
        self.assertEqual(4, _core.external_stats()["run_blocks"] - before)
        self.assertEqual({}, self.cuda.workspaces)

    def test_snapshots_of_the_oldest_pytorch_have_no_option_to_leave_out_traces(self):
        with mock.patch.object(torch.cuda, "memory_snapshot", lambda mempool_id=None: []):
            program = self.register(lambda context: [self.cuda.empty(SIZE)])
            self.assertEqual([program.run([DATA]).kind for _ in range(3)],
                             ["warm_up", "record", "replay"])

    def test_memory_of_other_pools_in_a_recording_is_named(self):
        kept = []

        def body(context):
            kept.append(self.cuda.empty(SIZE, pool=(9, 9)))  # As another thread would get it.
            return [self.cuda.empty(SIZE)]

        program = self.register(body)
        leases = [program.run([DATA]).kind for _ in range(3)]
        self.assertNotIn("replay", leases)
        told = "\n".join(self.lines)
        self.assertIn("1000 bytes at model.py:7", told)

    def test_memory_for_another_stream_in_a_recording_is_nobodys_business(self):
        kept = []

        def elsewhere():
            self.cuda.thread.stream = 12345
            kept.append(self.cuda.empty(SIZE))

        def body(context):
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            return [self.cuda.empty(SIZE)]

        program = self.register(body)
        self.assertEqual([program.run([DATA]).kind for _ in range(3)],
                         ["warm_up", "record", "replay"])

    def test_blocks_outside_of_runs_are_the_named_devices(self):
        device.lend_memory()
        self.addCleanup(device.lend_memory, False)
        pool = fake_cuda.MemPool(pluggable().allocator())
        before = _core.external_stats()["device_blocks"]
        tensor = self.cuda.empty(SIZE, pool=pool.id)
        device.fill(tensor.data_ptr(), SIZE, 7)
        shown = device.view(tensor.data_ptr(), [SIZE], "u8").numpy()
        self.assertEqual(set(shown.tolist()), {7})
        self.assertEqual(_core.external_stats()["device_blocks"] - before, 1)

    def test_the_emulators_memory_is_none_of_pytorchs(self):
        with self.assertRaises(Unavailable):
            allocator(device)

    def test_the_library_is_the_one_that_is_loaded(self):
        self.assertIn("libcoppice.so", library_path())


class GraphTest(FakedTest):
    def captured(self, **options):
        graph = torch.cuda.CUDAGraph(keep_graph=True, **options)
        x, y = device.upload(DATA), device.empty([SIZE], "u8")
        with torch.cuda.graph(graph):
            device.copy(y.data_ptr(), x.data_ptr(), SIZE, self.cuda.stream)
        return graph, x, y

    def test_a_graph_is_replayed_on_the_memory_that_it_was_captured_on(self):
        graph, x, y = self.captured()
        with from_graph(graph, session=self.session) as replayed:
            kinds = []
            for shift in range(4):
                x.copy_from(DATA + np.uint8(shift))
                kinds.append(replayed().kind)
                device.synchronize()
                np.testing.assert_array_equal(y.numpy(), DATA + np.uint8(shift))
            self.assertEqual(kinds, ["warm_up", "record", "replay", "replay"])
            self.assertEqual(len(replayed.buckets()), 1)
            self.assertIn("replay", replayed.explain())
        self.assertEqual(graph.replays, 1)  # To see whether it draws.

    def test_a_graph_that_draws_random_numbers_is_refused_and_the_state_kept(self):
        graph, *memory = self.captured(draws=4)
        with self.assertRaisesRegex(InvalidArgument, "random"):
            from_graph(graph, session=self.session)
        self.assertEqual(self.cuda.generators[0].offset, 0)
        del memory

    def test_a_graph_that_is_not_kept_is_refused(self):
        with self.assertRaisesRegex(InvalidArgument, "keep_graph"):
            from_graph(torch.cuda.CUDAGraph(), session=self.session)

    def test_two_graphs_of_one_name_live_side_by_side(self):
        first, second = self.captured(), self.captured()
        with from_graph(first[0], session=self.session) as one, \
                from_graph(second[0], session=self.session) as other:
            self.assertNotEqual(one.program.variant, other.program.variant)


class StreamTest(FakedTest):
    def test_the_stream_is_pytorchs_current_one(self):
        for current, stream in ((5, 5), (0, LEGACY_STREAM)):
            self.cuda.current = current
            self.assertEqual(library_stream("torch"), stream)
        self.assertEqual(library_stream(None), 0)

    def test_runs_on_the_legacy_stream_have_pytorchs_default_one(self):
        for stream, seen in ((4096, 4096), (LEGACY_STREAM, 0)):
            with StepMemory(0).running(stream):
                self.assertEqual(seen, self.cuda.thread.stream)


class PartitionTest(FakedTest):
    """Partitions as Inductor's code calls them, whose bodies copy on the emulator."""

    def partition(self, scope, index, count, fn):
        metadata = types.SimpleNamespace(partition_index=index, num_partitions=count)
        wrapper = torch._inductor.utils._unstable_customized_partition_wrapper.wrapper
        return wrapper(fn, metadata)

    def copied(self, arguments):
        from coppice.running import current_stream, empty_like

        x = arguments.pop(0)
        arguments.clear()
        y = empty_like(x)
        device.copy(y.data_ptr(), x.data_ptr(), x.nbytes, current_stream())
        return (y,)

    def test_each_partition_replays_and_empties_its_list(self):
        with partitions(session=self.session) as made:
            self.assertTrue(torch._inductor.config.graph_partition)
            first = self.partition(made, 0, 2, self.copied)
            second = self.partition(made, 1, 2, self.copied)
        for shift in range(4):
            arguments = [DATA + np.uint8(shift), 5]
            middle, = first(arguments)
            self.assertEqual(arguments, [])
            result, = second([middle])
            np.testing.assert_array_equal(np.from_dlpack(result), DATA + np.uint8(shift))
            self.assertIsInstance(result, coppice.Tensor)  # The last one's are copies.
        self.assertEqual([partition.stats()["runs"] for partition in made],
                         [{"warm_up": 1, "record": 1, "replay": 2}] * 2)
        for partition in made:
            partition.close()

    def test_sizes_that_inductor_passes_tell_variants_apart(self):
        with partitions(session=self.session) as made:
            first = self.partition(made, 0, 1, self.copied)
        for size in (8, 9, 8, 9):
            first([DATA[:size].copy(), size])
        self.assertEqual(first.stats()["variants"], 2)
        first.close()

    def test_a_call_that_failed_leaves_no_chain_behind(self):
        def fails(arguments):
            raise ZeroDivisionError

        with partitions(session=self.session) as made:
            first = self.partition(made, 0, 2, self.copied)
            second = self.partition(made, 1, 2, fails)
        for _ in range(2):
            with self.assertRaises(ZeroDivisionError):
                second(list(first([DATA])))

    def test_the_wrapper_is_reset_as_it_was(self):
        known = torch._inductor.utils._unstable_customized_partition_wrapper.wrapper
        enabled = torch._inductor.config.graph_partition
        with self.assertRaises(ZeroDivisionError):
            with partitions(session=self.session):
                raise ZeroDivisionError
        self.assertIs(torch._inductor.utils._unstable_customized_partition_wrapper.wrapper, known)
        self.assertEqual(torch._inductor.config.graph_partition, enabled)


if __name__ == "__main__":
    unittest.main()
