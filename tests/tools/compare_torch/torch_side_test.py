#!/usr/bin/env python3
"""Goal: torch_side.py measures what it says, and always says why it does not.

Method: it runs on a fake of PyTorch whose allocator, graphs and compiler are a few lines each, so
that every section runs to its end and its figures are known; and without any torch at all.
"""

import contextlib
import io
import json
import os
import pathlib
import signal
import sys
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "compare_torch"
sys.path[:0] = [str(TOOL), str(pathlib.Path(__file__).resolve().parent)]
sys.dont_write_bytecode = True
import fake_torch  # noqa: E402

fake_torch.install()
import torch_buckets  # noqa: E402
import torch_device  # noqa: E402
import torch_side  # noqa: E402
import torch_ways  # noqa: E402


def run(*arguments):
    """Exit code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = torch_side.main(list(arguments))
        except SystemExit as error:
            code = error.code
    return code, out.getvalue(), err.getvalue()


class FakeTorchCase(unittest.TestCase):
    def setUp(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        self.torch = fake_torch.install()
        self.patch(torch_device, "Driver", fake_torch.Driver)

    def patch(self, *arguments):
        patcher = unittest.mock.patch.object(*arguments)
        patcher.start()
        self.addCleanup(patcher.stop)

    def report(self, *arguments, code=0):
        ended, out, err = run(*arguments)
        self.assertEqual(code, ended, err)
        return json.loads(out)

    def ways(self, case):
        return {way["name"]: way for way in case["ways"]}


class ArgumentsTest(unittest.TestCase):
    def test_wrong_arguments_end_with_2_and_a_line_that_names_them(self):
        for arguments, named in (
                ([], "section"), (["dance"], "dance"), (["steps", "--device", "tpu"], "tpu"),
                (["steps", "--repetitions", "0"], "at least 1"), (["steps", "--sizes", "3,x"],
                                                                  "3,x"),
                (["decode", "--model", "{"], "--model")):
            with self.subTest(arguments):
                code, out, err = run(*arguments)
                self.assertEqual((2, ""), (code, out))
                self.assertIn(named, err.splitlines()[-1])

    def test_the_buckets_are_67_batch_sizes(self):
        self.assertEqual(67, len(set(torch_side.BUCKETS)))
        self.assertEqual(([1, 2, 4, 8, 16], 512), (torch_side.BUCKETS[:5], torch_side.BUCKETS[-1]))


class NoTorchTest(unittest.TestCase):
    def test_without_torch_it_ends_with_3_and_one_line(self):
        with unittest.mock.patch.dict(sys.modules, torch=None):
            code, out, err = run("steps", "--device", "cpu")
        self.assertEqual((3, "", 1), (code, out, len(err.splitlines())))
        self.assertIn("torch", err)

    def test_without_a_device_it_ends_with_3_and_one_line(self):
        self.addCleanup(fake_torch.install)
        fake_torch.install(has_cuda=False)
        code, out, err = run("steps")
        self.assertEqual((3, "", 1), (code, out, len(err.splitlines())))
        self.assertIn("sees no CUDA device", err)


class SampleTest(unittest.TestCase):
    def setUp(self):
        self.calls = []
        self.ways = [torch_ways.Way(name, lambda name=name: self.calls.append(name), calls=2)
                     for name in "abc"]

    def sample(self, call, calls):
        for _ in range(calls):
            call()
        return 2, 1

    def test_every_round_has_a_sample_of_each_way_in_an_order_of_its_own(self):
        torch_ways.sample_ways(self, self.ways, samples=60)
        warm_up = 3 * torch_ways.WARM_UP_CALLS
        self.assertEqual([name for way in "abc" for name in way * torch_ways.WARM_UP_CALLS],
                         self.calls[:warm_up])
        timed = "".join(self.calls[warm_up:])
        rounds = [timed[start:start + 6] for start in range(0, len(timed), 6)]
        orders = {"aabbcc", "aaccbb", "bbaacc", "bbccaa", "ccaabb", "ccbbaa"}
        self.assertEqual(orders, set(rounds))
        self.assertEqual(60, len(rounds))
        for way in self.ways:
            self.assertEqual(([2] * 60, [1] * 60), (way.host_us, way.gpu_us))

    def test_a_way_that_fails_while_it_is_sampled_costs_no_other(self):
        def fail():
            self.calls.append("b")
            if self.calls.count("b") > torch_ways.WARM_UP_CALLS + 1:
                raise RuntimeError("out of\n memory")

        self.ways[1].call = fail
        with contextlib.redirect_stderr(io.StringIO()):
            torch_ways.sample_ways(self, self.ways, samples=5)
        self.assertEqual({"name": "b", "skipped": "RuntimeError: out of memory"},
                         self.ways[1].json(True))
        self.assertEqual([5, 5], [len(self.ways[i].host_us) for i in (0, 2)])
        self.assertEqual(torch_ways.WARM_UP_CALLS + 2, self.calls.count("b"))

    def test_a_sample_of_a_graph_has_ten_calls_however_many_kernels_an_eager_one_launches(self):
        self.kind = "cuda"
        options = unittest.mock.Mock(repetitions=1)
        builders = [(name, lambda: [lambda: None]) for name in ("eager", "cuda_graph")]
        for kernels, eager_calls in ((1, 10), (300, 3), (5000, 1)):
            case = torch_ways.measure_case(self, {}, builders, options, kernels)
            self.assertEqual({"eager": eager_calls, "cuda_graph": 10},
                             {way["name"]: way["calls"] for way in case["ways"]})


class StepsAndDecodeTest(FakeTorchCase):
    def test_a_sample_is_the_time_per_call_of_its_calls_alone(self):
        device, ticks = torch_device.Cuda(), iter(range(0, 100_000, 1000))
        with unittest.mock.patch.object(torch_device.time, "perf_counter_ns", ticks.__next__):
            host_us, gpu_us = device.sample(torch_device.time.perf_counter_ns, calls=4)
        self.assertEqual((5 / 4, 500 / 4), (host_us, gpu_us))  # A tick per call, and one to end.

    def test_a_step_has_as_many_nodes_as_kernels_in_every_graph(self):
        report = self.report("steps", "--sizes", "10,30", "--repetitions", "3")
        self.assertEqual(("steps", "fake", "fake GPU", "13.0"),
                         tuple(report[key] for key in ("section", "torch", "device", "driver")))
        graphs = ("cuda_graph", "reduce_overhead", "reduce_overhead_static")
        for case, kernels in zip(report["cases"], (10, 30), strict=True):
            self.assertEqual(kernels, case["kernels"])
            self.assertEqual(dict.fromkeys(graphs, kernels), case["nodes"])
            self.assertEqual({"eager", *graphs}, set(self.ways(case)))
            for way in case["ways"]:
                self.assertEqual([50.0] * 3, way["gpu_us"])  # 0.5 ms of ten calls.
                self.assertEqual(3, len(way["host_us"]))
        self.assertNotIn("replay", vars(torch_device.KeptGraph))  # Nothing is in the timed path.

    def test_every_way_of_a_decode_step_is_measured_at_every_batch_size(self):
        report = self.report("decode", "--sizes", "1,4", "--repetitions", "2")
        self.assertEqual(torch_side.MODEL, report["model"])
        self.assertEqual("highest", report["precision"])
        for case, batch in zip(report["cases"], (1, 4), strict=True):
            self.assertEqual(batch, case["batch"])
            self.assertEqual({"reduce_overhead": 7, "cuda_graph": 7}, case["nodes"])
            self.assertEqual({"reduce_overhead": 1, "cuda_graph": 3}, case["copied_inputs"])
            self.assertEqual([2, 2, 2], [len(way["host_us"]) for way in case["ways"]])

    def test_a_graph_that_the_compiler_gives_up_is_skipped_with_the_reason(self):
        self.torch.gives_up = True
        case, = self.report("decode", "--sizes", "1", "--repetitions", "2")["cases"]
        ways = self.ways(case)
        self.assertEqual("RuntimeError: skipping cudagraphs due to mutated inputs in line 3",
                         ways["reduce_overhead"]["skipped"])
        self.assertEqual(2, len(ways["eager"]["host_us"]))
        self.assertEqual({"cuda_graph": 7}, case["nodes"])

    def test_a_compiled_function_that_replays_nothing_is_skipped(self):
        self.torch.compile = lambda function, **_: function
        case, = self.report("steps", "--sizes", "10", "--repetitions", "2")["cases"]
        self.assertIn("replays no graph", self.ways(case)["reduce_overhead"]["skipped"])

    def test_a_way_that_computes_something_else_is_skipped(self):
        self.patch(torch_device.Cuda, "compile",
                   lambda _, function, *arguments: (function, fake_torch.Tensor(-1), 10, 1))
        case, = self.report("steps", "--sizes", "10", "--repetitions", "2")["cases"]
        self.assertIn("its results differ", self.ways(case)["reduce_overhead"]["skipped"])
        self.assertNotIn("skipped", self.ways(case)["cuda_graph"])

    def test_nodes_that_cannot_be_read_are_null_with_a_note(self):
        self.patch(torch_device, "Driver", unittest.mock.Mock(side_effect=OSError("no libcuda")))
        report = self.report("steps", "--sizes", "10", "--repetitions", "1")
        self.assertEqual([None] * 3, list(report["cases"][0]["nodes"].values()))
        self.assertEqual(["nodes are not counted: OSError: no libcuda"], report["notes"])
        self.assertIsNone(report["driver"])

    def test_on_the_cpu_there_are_host_times_and_reasons(self):
        report = self.report("steps", "--device", "cpu", "--sizes", "10", "--repetitions", "2")
        case, = report["cases"]
        ways = self.ways(case)
        self.assertIsNone(ways["eager"]["gpu_us"])
        self.assertEqual(2, len(ways["eager"]["host_us"]))
        self.assertEqual("needs a CUDA device", ways["cuda_graph"]["skipped"])
        self.assertEqual("needs a CUDA device", ways["reduce_overhead"]["skipped"])

    def test_a_signal_ends_it_with_1_and_what_was_finished(self):
        begun = []

        def forget_compiled(device):
            begun.append(device)
            if len(begun) == 2:
                os.kill(os.getpid(), signal.SIGTERM)

        self.patch(torch_device.Cuda, "forget_compiled", forget_compiled)
        report = self.report("steps", "--sizes", "10,30,100", "--repetitions", "1", code=1)
        self.assertEqual(([10], "SIGTERM"),
                         ([case["kernels"] for case in report["cases"]], report["stopped"]))


class BucketsTest(FakeTorchCase):
    def setUp(self):
        super().setUp()
        self.patch(torch_buckets, "STALL_S_MIN", 0.0)

    def cases(self, report):
        return {(case["order"], case["outputs"]): case for case in report["cases"]}

    def test_every_order_is_recorded_with_held_and_with_dropped_outputs(self):
        report = self.report("buckets")
        cases = self.cases(report)
        self.assertEqual({(order, outputs) for order in torch_buckets.ORDERS
                          for outputs in ("held", "dropped")} | {("largest", "dropped")},
                         set(cases))
        for (order, _), case in cases.items():
            batches = [512] if order == "largest" else torch_buckets.in_order(
                torch_side.BUCKETS, order)
            self.assertEqual(batches, case["recorded"])
            self.assertEqual((len(batches), 7 * len(batches)), (case["buckets"], case["nodes"]))
            self.assertEqual(len(batches), len(case["record_ms"]))

    def test_a_pool_is_weighed_by_its_own_segments_and_the_driver_by_all(self):
        for (order, _), case in self.cases(self.report("buckets")).items():
            self.assertEqual(case["buckets"] * fake_torch.MIB, case["own_bytes"], order)
            self.assertEqual(case["own_bytes"], case["driver_bytes"], order)
            self.assertEqual(0, case["left_bytes"])

    def test_a_case_that_fails_costs_no_other(self):
        capture, calls = torch_device.Cuda.capture, []

        def fail(device, work, pool=None):
            calls.append(pool)
            if len(calls) == 5:  # In the first order, after prepare() and the largest.
                raise RuntimeError("no memory")
            return capture(device, work, pool)

        self.patch(torch_device.Cuda, "capture", fail)
        cases = self.cases(self.report("buckets", "--sizes", "1,2,4,8"))
        self.assertEqual("RuntimeError: no memory", cases["asc", "dropped"]["skipped"])
        self.assertEqual(7, len(cases))
        self.assertEqual(1, sum("skipped" in case for case in cases.values()))

    def test_the_rounds_of_the_other_thread_are_told_apart(self):
        stall = self.report("buckets", "--sizes", "1,2,4,8")["stall"]
        for name in ("idle", "beside", "control"):
            self.assertEqual(min(stall["rounds"][name], torch_buckets.STALL_ROUNDS_MAX),
                             len(stall[f"{name}_us"]))

    def test_a_thread_that_fails_is_a_reason_and_no_crash(self):
        self.patch(torch_device.Cuda, "ticker", lambda _: lambda: 1 // 0)
        stall = self.report("buckets", "--sizes", "1,2")["stall"]
        self.assertTrue(stall["skipped"].startswith("ZeroDivisionError"), stall)


class RecaptureTest(FakeTorchCase):
    def test_dropping_gives_the_whole_pool_back(self):
        report = self.report("recapture", "--repetitions", "3")
        self.assertEqual((64, torch_side.BUCKETS[:64]), (report["graphs"], report["batches"]))
        self.assertEqual(64 * fake_torch.MIB, report["bytes"])
        self.assertEqual(report["bytes"], report["driver_bytes"])
        self.assertEqual((3, 3), (len(report["drop_us"]), len(report["recapture_us"])))


if __name__ == "__main__":
    unittest.main()
