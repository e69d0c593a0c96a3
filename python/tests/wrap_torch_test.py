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

try:
    import numpy as np
    import torch
    import torch._inductor.config
    import torch._inductor.utils

    import coppice
    import fake_cuda
    from coppice import _core
    from coppice.torch.allocator import allocator, library_path, pluggable, running_torch
    from coppice.torch.graphs import from_graph
    from coppice.torch.partitions import partitions
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch, NumPy and the extension: {error}") from error

from coppice.errors import InvalidArgument, Unavailable
from coppice.libraries import library_stream, ordered
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
    def test_runs_come_behind_the_legacy_stream_and_it_behind_them(self):
        self.cuda.current = 0
        own = types.SimpleNamespace(stream=77, ordinal=0)
        with ordered(own, "torch"):
            self.assertEqual(self.cuda.waits, [(77, 0)])
        self.assertEqual(self.cuda.waits, [(77, 0), (0, 77)])

    def test_the_stream_is_pytorchs_current_one(self):
        self.cuda.current = 5
        self.assertEqual(library_stream("torch"), 5)
        self.assertEqual(library_stream(None), 0)


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
