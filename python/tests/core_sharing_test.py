#!/usr/bin/env python3
"""Goal: objects of a device are shared by copies, end with the process whatever its threads do, and
work again after a fault once the device is reset.
Method: copies and pickles of every class; processes of their own that leave while daemon threads
call, or that fault; findings that come again and again.

    core_sharing_test.py [unittest's options]
"""

import copy
import gc
import pathlib
import pickle
import subprocess
import sys
import textwrap
import unittest

import numpy as np

import coppice

HERE = pathlib.Path(__file__).resolve()
PACKAGE = HERE.parent.parent.parent / "samples" / "triton_kernels.zip"
CHILDREN, SECONDS_MAX = 5, 120

device = coppice.device("emulator")
SPEC = {"name": "plain", "claim": "row_independent", "symbols": [],
        "inputs": [{"name": "x", "dtype": "f32", "shape": [4]}],
        "outputs": [{"name": "y", "dtype": "f32", "shape": [4]}]}
PACKAGE_INPUTS = (np.ones((3, 64), np.float32), np.ones((64, 40), np.float32))
# Threads of one block store different values to one word.
RACE = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry race(.param .u64 y)
{
  .reg .b32 %r<2>; .reg .b64 %a<2>;
  ld.param.u64 %a1, [y]; mov.u32 %r1, %tid.x; st.global.u32 [%a1], %r1;
  ret;
}
"""


def run_child(code, *expected):
    """What a process prints that runs this code; it has to end with 0."""
    done = subprocess.run([sys.executable, "-B", "-c", textwrap.dedent(code)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=SECONDS_MAX)
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}: {done.stdout[-3000:]}")
    for part in expected:
        if part not in done.stdout:
            raise AssertionError(f"{part!r} is not in {done.stdout[-3000:]}")
    return done.stdout


class CopyTest(unittest.TestCase):
    def things(self):
        session = coppice.Session(device)
        self.addCleanup(session.close)
        program = session.register_callable(SPEC, lambda context: context.output(0))
        lease = program.run([np.zeros(4, np.float32)])
        wrapped = coppice.wrap(lambda x: x, device="emulator")
        loaded = coppice.load(PACKAGE, device="emulator")
        self.addCleanup(loaded.close)
        tensor = device.upload(np.arange(4, dtype=np.float32))
        kernels = device.load_kernels(RACE)
        return [device, session, program, lease, lease[0], wrapped, loaded, loaded.entry,
                loaded.package, tensor, tensor.to_host(), kernels, kernels.get("race"),
                session.chain()]

    def test_a_copy_is_the_object_itself(self):
        for thing in self.things():
            with self.subTest(of=type(thing).__name__):
                self.assertIs(copy.copy(thing), thing)

    def test_a_deep_copy_and_a_pickle_are_refused_with_what_to_do(self):
        for thing in self.things():
            for take in (copy.deepcopy, pickle.dumps, lambda one: copy.deepcopy([one]),
                         lambda one: pickle.dumps({"key": one}, protocol=2)):
                with self.subTest(of=type(thing).__name__), self.assertRaisesRegex(
                        TypeError, rf"coppice\.{type(thing).__name__}: .*copy\.copy\(\) shares"):
                    take(thing)

    def test_what_was_copied_runs_when_the_copy_has_gone(self):
        x = device.upload(np.arange(4, dtype=np.float32))
        for fn in (coppice.load(PACKAGE, device="emulator"),
                   coppice.wrap(lambda x: x, device="emulator")):
            given = PACKAGE_INPUTS if isinstance(fn, coppice.Loaded) else (x,)
            before = np.from_dlpack(fn(*given))
            copied = copy.copy(fn)
            del copied
            gc.collect()
            np.testing.assert_array_equal(np.from_dlpack(fn(*given)), before)


class FindingsTest(unittest.TestCase):
    def test_each_scope_raises_what_was_found_in_it(self):
        race, word = device.load_kernels(RACE).get("race"), device.empty([1], "i32")

        def run(threads):
            with coppice.checked():
                device.launch(race, [1], [threads], [word.data_ptr().to_bytes(8, "little")])

        for _ in range(10):
            with self.assertRaisesRegex(coppice.Error, "race"):
                run(64)
            run(1)
        self.assertLessEqual(len(device.findings()), 2)
        count = device.finding_count()
        self.assertGreaterEqual(count, 10)
        self.assertEqual(device.findings(count), [])
        self.assertEqual(len(device.findings(count - 1)), 1)


PRELUDE = """
    import threading
    import numpy as np
    import coppice
    started = threading.Semaphore(0)

    def start(body, threads=4):
        for _ in range(threads):
            threading.Thread(target=body, daemon=True).start()
        for _ in range(threads):
            started.acquire()
"""


class ExitTest(unittest.TestCase):
    def check(self, code):
        for _ in range(CHILDREN):
            run_child(f"PACKAGE = {str(PACKAGE)!r}\n{textwrap.dedent(PRELUDE)}"
                      f"{textwrap.dedent(code)}", "leaving")

    def test_a_process_ends_while_threads_call_a_package(self):
        self.check("""
            m = coppice.load(PACKAGE, device="emulator")
            x = np.ones((3, 64), np.float32), np.ones((64, 40), np.float32)
            def body():
                m(*x)
                started.release()
                while True:
                    m(*x)
            start(body)
            print("leaving")
        """)

    def test_a_process_ends_while_threads_record_and_read(self):
        self.check("""
            def body():
                n = 0
                while True:
                    n += 1
                    w = coppice.wrap(lambda x, k: x, device="emulator")
                    np.from_dlpack(w(np.ones((n % 7 + 1, 4), np.float32), n))
                    started.release()
            start(body, 2)
            print("leaving")
        """)

    def test_a_process_ends_while_threads_wait_in_a_callback(self):
        self.check("""
            for_ever = threading.Event()
            def fn(x):
                started.release()
                for_ever.wait()
                return x
            w = coppice.wrap(fn, device="emulator", outputs={"y": ("f32", [4])})
            other = coppice.wrap(lambda x: x, device="emulator")
            y = other(np.ones(4, np.float32))
            tensor = coppice.device().upload(np.ones(4, np.float32))
            start(lambda: w(np.ones(4, np.float32)), 1)
            print("leaving")
        """)

    def test_a_process_ends_while_threads_wait_for_the_device(self):
        self.check("""
            device = coppice.device("emulator")
            def body():
                while True:
                    tensor = device.upload(np.ones(1000, np.float32))
                    tensor.to_host()
                    device.synchronize()
                    started.release()
            start(body)
            print("leaving")
        """)


class ResetTest(unittest.TestCase):
    def test_the_device_works_again_after_a_fault(self):
        told = run_child(f"""
            import numpy as np
            import coppice
            device = coppice.device("emulator")
            race = device.load_kernels({RACE!r}).get("race")
            kept, old = device.upload(np.ones(4, np.float32)), coppice.session()
            identity = lambda x: x
            w = coppice.wrap(identity, device="emulator")
            w(np.ones(4, np.float32))
            def fault(kernel):
                try:
                    device.launch(kernel, [1], [1], [(4096).to_bytes(8, "little")])
                    device.synchronize()
                except coppice.Error as error:
                    print("FAULT", error)
            for turn in range(3):
                fault(device.load_kernels({RACE!r}).get("race"))
                try:
                    coppice.wrap(identity, device="emulator")(np.ones(4, np.float32))
                except coppice.Error as error:
                    print("STILL", error)
                coppice.reset_device()
                w = coppice.wrap(identity, device="emulator")
                for _ in range(3):
                    assert np.from_dlpack(w(np.full(4, turn, np.float32)))[0] == turn
                assert device.findings() == [], device.findings()
            assert old.closed and coppice.session() is not old
            for use in (lambda: device.launch(race, [1], [1], [bytes(8)]),
                        kept.to_host, lambda: old.stats()):
                try:
                    use()
                except coppice.Error as error:
                    print("OLD", error)
            own = coppice.Session(device)
            try:
                coppice.reset_device()
            except coppice.FailedPrecondition as error:
                print("OPEN", error)
            own.close()
            coppice.reset_device()
            print("done")
        """, "done")
        self.assertRegex(told, r"FAULT .*700.*: kernel race.*coppice\.reset_device\(\)")
        self.assertRegex(told, r"STILL .*coppice\.reset_device\(\)")
        self.assertEqual(told.count("OLD"), 3)
        self.assertRegex(told, "OLD kernels: loaded before the device was reset; "
                               "load again")
        self.assertRegex(told, "OPEN .*1 of its sessions.*release")


if __name__ == "__main__":
    unittest.main()
