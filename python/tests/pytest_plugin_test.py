#!/usr/bin/env python3
"""Goal: `pytest --coppice` runs tests of Triton kernels as they are; what the emulator finds fails
the test that caused it, and no other.
Method: pytest runs files of tests that are written here, in processes of its own, and tells by
JUnit XML how each ended.

    pytest_plugin_test.py [unittest's options]

Without Triton, PyTorch, pytest or the extension all is skipped, without pytest-xdist its test.
"""

import importlib
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest
import xml.etree.ElementTree

try:
    import pytest
    import torch  # noqa: F401
    import triton  # noqa: F401

    import coppice._core  # noqa: F401
except ImportError as error:
    raise unittest.SkipTest(f"needs Triton, PyTorch, pytest and the extension: {error}") from error

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS_MAX = 600

KERNELS = """
import pytest, torch, triton, triton.language as tl, unittest

@triton.jit
def add_kernel(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)

@triton.jit
def beyond_kernel(x, y, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at) + 1)  # No mask.

@triton.jit
def racing_kernel(x):
    tl.store(x, tl.program_id(0))

@triton.jit
def ordered_kernel(x):
    tl.atomic_xchg(x, tl.program_id(0) + 1)

@triton.autotune([triton.Config({"B": B, "MORE": B == 64}) for B in (32, 64)], key=[])
@triton.jit
def tuned_kernel(x, B: tl.constexpr, MORE: tl.constexpr):
    tl.store(x, 1 + MORE)

def add(count=100):
    x = torch.zeros(count, device="cuda")
    y = torch.empty_like(x)
    add_kernel[(triton.cdiv(count, 32),)](x, y, count, B=32)
    return y

def beyond(count=100):
    x = torch.zeros(count, device="cuda")
    beyond_kernel[(triton.cdiv(count, 32),)](x, x, B=32)

def race():
    racing_kernel[(8,)](torch.zeros(1, dtype=torch.int32, device="cuda"))
"""
# How tests end: None passed, else what their report says.
OUTCOMES = """
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)
assert triton.runtime.driver.active.get_current_target().backend == "cuda"
WHOLE = add()  # On the device of no test.

def test_right():
    assert add().is_cuda and torch.equal(add(), WHOLE)

def test_wrong():
    assert add()[0] == 7

def test_fault():
    beyond()

def test_right_behind_a_fault():
    assert torch.equal(add(), WHOLE)

def test_race():
    race()

def test_race_and_wrong():
    race()
    assert False, "and wrong"

@pytest.fixture
def raced():
    race()

def test_race_of_a_fixture(raced):
    assert add()[0] == 1

@pytest.fixture
def races_at_its_end():
    yield
    race()

def test_race_of_the_end_of_a_fixture(races_at_its_end):
    assert add()[0] == 1

@pytest.mark.xfail(strict=True)
def test_race_that_is_known():
    race()

class KindsTest(unittest.TestCase):
    def test_right_of_unittest(self):
        self.assertEqual(1, add()[0])

    def test_race_of_unittest(self):
        race()

@pytest.fixture(scope="module")
def kept():
    import coppice
    return coppice.device("emulator").empty([4], "f32")

def test_keeps_memory_of_the_device(kept):
    assert kept.numpy().shape == (4,)

def test_right_behind_what_is_kept(kept):
    assert torch.equal(add(), WHOLE)

def test_tuned():
    x = torch.zeros(1, dtype=torch.int32, device="cuda")
    tuned_kernel[(1,)](x)
    assert x.item() == 1
"""
ORDERS = """
import pathlib

def test_of_any_order():
    with open("runs", "a") as runs:
        runs.write("once\\n")
    assert add()[0] == 1

def test_of_one_order():
    x = torch.zeros(1, dtype=torch.int32, device="cuda")
    ordered_kernel[(8,)](x)
    assert x.item() != LAST
"""
RACED = "race: kernel racing_kernel, block .*thread .*tested.py:[0-9]+"


class Ran:
    """What pytest said."""

    def __init__(self, done, report):
        self.code, self.printed = done.returncode, done.stdout
        self.ended = {}  # By names of tests: None, or what their reports say.
        if report.exists():
            for case in xml.etree.ElementTree.parse(report).iter("testcase"):
                told = [f"{one.tag}: {one.get('message')}{one.text}" for one in case
                        if one.tag in ("failure", "error", "skipped")]
                self.ended[case.get("name")] = "\n".join(told) or None

    def figures(self, kernel):
        """launches, instructions, bytes and findings of the summary."""
        line = re.search(rf"^{kernel} +(.*)$", self.printed, re.M)
        return [int(number.replace(",", "")) for number in line[1].split()] if line else None


class PluginTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def run_pytest(self, *options, source=""):
        (self.folder / "tested.py").write_text(KERNELS + source)
        # What pyproject.toml says, as an installed package has it.
        known = self.folder / "coppice_of_test-1.dist-info"
        known.mkdir(exist_ok=True)
        entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
        (known / "METADATA").write_text("Name: coppice_of_test\nVersion: 1\n")
        (known / "entry_points.txt").write_text("[pytest11]\n" + "".join(
            f"{name} = {of}\n" for name, of in entries["pytest11"].items()))
        report = self.folder / "report.xml"
        report.unlink(missing_ok=True)
        # The package that this test has: the folder of sources, or an installed one.
        package = pathlib.Path(coppice.__file__).parents[1]
        path = os.pathsep.join([str(self.folder), str(package)])
        done = subprocess.run(
            [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "tested.py",
             f"--junitxml={report}", *options], cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False,
            env={**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""})
        return Ran(done, report)

    def assert_outcomes(self, ran):
        said = {"test_wrong": "failure: .*assert", "test_race": f"failure: .*{RACED}",
                "test_fault": "failure: .*illegal address: kernel beyond_kernel, block .*"
                              "thread .*tested.py:[0-9]+",
                "test_race_and_wrong": "failure: .*and wrong",
                "test_race_of_a_fixture": f"error: .*{RACED}",
                "test_race_of_the_end_of_a_fixture": f"error: .*{RACED}",
                "test_race_of_unittest": f"failure: .*{RACED}",
                "test_race_that_is_known": "skipped: "}
        self.assertEqual(14, len(ran.ended), ran.printed)
        for name, told in ran.ended.items():
            with self.subTest(name):
                if name in said:
                    self.assertRegex(told or "passed", f"(?s){said[name]}")
                else:
                    self.assertIsNone(told)
        self.assertEqual(1, ran.code)
        self.assertRegex(ran.printed, f"(?s)and wrong.*Captured coppice call.*{RACED}")

    def test_each_test_ends_by_itself(self):
        ran = self.run_pytest("--coppice", "-rA", source=OUTCOMES)
        self.assert_outcomes(ran)
        self.assertRegex(ran.printed, r"coppice: kernels run on the emulator, sm_80")
        launches, instructions, touched, findings = ran.figures("racing_kernel")
        self.assertEqual((6, 6), (launches, findings), touched)
        self.assertEqual([1, 3], ran.figures("beyond_kernel")[::3])  # Two of them are races.
        launches, instructions, touched, findings = ran.figures("add_kernel")
        self.assertEqual((8, 8 * 800, 0), (launches, touched, findings))
        self.assertGreater(instructions, 8 * 100 * 4)
        self.assertRegex(ran.printed, "something still refers to memory of this test")

    def test_processes_of_xdist_tell_the_same(self):
        if importlib.util.find_spec("xdist") is None:
            self.skipTest("needs pytest-xdist")
        ran = self.run_pytest("--coppice", "-n", "2", source=OUTCOMES)
        self.assert_outcomes(ran)
        self.assertEqual([6, 6], ran.figures("racing_kernel")[::3])

    def test_orders_differ_and_are_repeated(self):
        source = ORDERS.replace("LAST", "0")
        ran = self.run_pytest("--coppice", "--coppice-seeds=5", source=source)
        self.assertEqual({"test_of_any_order": None, "test_of_one_order": None}, ran.ended)
        self.assertEqual(5, len((self.folder / "runs").read_text().splitlines()))
        self.assertEqual(5, ran.figures("ordered_kernel")[0])
        # The value that the first order leaves is no longer right.
        source = source.replace("x.item() != 0", "print('left', x.item()) or x.item() == 0")
        left = []
        for seed in (1, 2, 3, 1):
            ran = self.run_pytest("--coppice", f"--coppice-seed={seed}", "-k", "one_order",
                                  source=source)
            left.append(int(re.search(r"^left (\d)", ran.printed, re.M)[1]))
        self.assertEqual(left[0], left[-1])
        other = next((seed for seed, value in zip((1, 2, 3), left) if value != left[0]), None)
        self.assertIsNotNone(other, left)
        ran = self.run_pytest("--coppice", "--coppice-seeds=5", "-k", "one_order",
                              source=ORDERS.replace("LAST", str(left[other - 1])))
        self.assertIsNotNone(ran.ended["test_of_one_order"], ran.printed)
        self.assertIn(f"--coppice-seed={other} repeats this order", ran.printed)

    def test_configurations_are_compared_if_asked_for(self):
        ran = self.run_pytest("--coppice", "--coppice-autotune=compare", "-k", "tuned",
                              source=OUTCOMES)
        self.assertRegex(ran.ended["test_tuned"], "tuned_kernel: x differs between configurations")

    def test_another_device_is_asked_for(self):
        ran = self.run_pytest("--coppice", "--coppice-capability=89", source="""
def test_capability():
    assert torch.cuda.get_device_capability() == (8, 9)
    assert triton.runtime.driver.active.get_current_target().arch == 89
""")
        self.assertEqual({"test_capability": None}, ran.ended)
        self.assertRegex(ran.printed, "(?s)sm_89.*none was launched")

    def test_without_the_option_nothing_happens(self):
        (self.folder / "conftest.py").write_text("""
import sys
assert "coppice.pytest_plugin" in sys.modules and "torch" not in sys.modules
assert "coppice._core" not in sys.modules
""")
        ran = self.run_pytest(source="""
def test_what_is_so():
    assert not torch.zeros(1).is_cuda
""")
        self.assertEqual({"test_what_is_so": None}, ran.ended, ran.printed)

    def test_options_that_say_nothing_are_refused(self):
        for options, said in ((["--coppice-seeds=3"], "--coppice-seeds needs --coppice"),
                              (["--coppice", "--coppice-seeds=0"], "0 is less than 1"),
                              (["--coppice", "--coppice-capability=70"], "70 is not one of 80")):
            ran = self.run_pytest(*options)
            self.assertEqual(pytest.ExitCode.USAGE_ERROR, ran.code, ran.printed)
            self.assertIn(said, ran.printed)
            self.assertNotIn("Traceback", ran.printed)


if __name__ == "__main__":
    unittest.main()
