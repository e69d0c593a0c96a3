"""Runs tests for `pytest --coppice`: each test has its own emulator, and fails if that finds
something."""

import collections
import contextlib
import dataclasses
import gc
import os
import pathlib
import re
import sys
import tempfile
import traceback

import pytest
from _pytest.runner import runtestprotocol

from coppice import devices
from coppice.errors import Error, FailedPrecondition, InvalidArgument, split_findings
from coppice.triton.figures import CAPABILITY
from coppice.triton.pretending import pretend_cuda
from coppice.triton.scope import launching

COUNTS = "COPPICE_PTX_COUNTS"  # The emulator appends a line per launch to the file of that name.
KERNEL = re.compile(r"\bkernel ([\w$.]+)")  # Of a finding.
ELSEWHERE = "(no kernel)"
UNREFERRED = 2  # What sys.getrefcount says of an object that one variable refers to.


class DeviceOfTest:
    """Stands for the device of the current test. Between tests, a device is opened when it is first
    used."""

    stream = 0  # The device's own.

    def __init__(self):
        self.seed, self.left = 1, None  # `left`: one that something of an ended test refers to.

    def __getattr__(self, name):
        return getattr(self.opened(), name)

    def find(self):
        """The device, None if it is not open."""
        return devices.find_device("emulator")

    def opened(self):
        if self.left is not None:
            device, self.left = self.left, None
            devices.share_device(device)
        return self.find() or devices.device("emulator", seed=self.seed)

    def end(self):
        """Frees all that is on the device. Returns whether nothing refers to the device any more.
        If something does, the next test gets the same device. Raises FailedPrecondition if sessions
        are open."""
        device = self.find()
        if device is None:
            return True
        try:
            devices.end_device(device)
        except FailedPrecondition:
            gc.collect()  # Sessions that only an exception refers to.
            devices.end_device(device)
        if sys.getrefcount(device) > UNREFERRED:
            gc.collect()
        if sys.getrefcount(device) > UNREFERRED:
            self.left = device
        return self.left is None


@dataclasses.dataclass
class Figures:
    """The figures of one kernel."""

    launches: int = 0
    instructions: int = 0  # Of threads.
    bytes: int = 0  # Of the device's memory that launches read, and that they wrote.
    findings: int = 0

    def add(self, other):
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class Testing:
    """The plug-in, if --coppice is given."""

    def __init__(self, config, capability=CAPABILITY, seeds=1, seed=1, autotune="first"):
        self.config, self.capability, self.seeds, self.first_seed = config, capability, seeds, seed
        self.device, self.loaded = DeviceOfTest(), {}
        self.since = 0  # The device's finding_count() before what runs.
        self.raised, self.lost = [], False  # What the test raised; whether its device is lost.
        self.figures = collections.defaultdict(Figures)
        self.scopes = contextlib.ExitStack()
        folder = self.scopes.enter_context(tempfile.TemporaryDirectory())
        self.counts = pathlib.Path(folder, "counts")
        try:
            self.driver = self.scopes.enter_context(launching(
                self.device, capability=capability, loaded=self.loaded, autotune=autotune))
        except InvalidArgument as error:
            raise pytest.UsageError(f"--coppice: {error}") from error
        self.scopes.enter_context(pretend_cuda())
        self.before = os.environ.get(COUNTS)
        os.environ[COUNTS] = str(self.counts)

    def close(self):
        self.scopes.close()
        if self.before is None:
            os.environ.pop(COUNTS, None)
        else:
            os.environ[COUNTS] = self.before

    def pytest_report_header(self):
        orders = f", {self.seeds} orders of each test" if self.seeds > 1 else ""
        return f"coppice: kernels run on the emulator, sm_{self.capability}{orders}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        """Runs a test in several orders of streams and blocks, until it fails."""
        if self.seeds == 1:
            self.device.seed = self.first_seed
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for seed in range(self.first_seed, self.first_seed + self.seeds):
            self.device.seed = seed
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
            if not all(report.passed for report in reports):
                break
        for report in reports:
            if report.failed:
                report.sections.append(("coppice", f"--coppice-seed={seed} repeats this order"))
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item):
        self.end_device(item)  # That of files of tests, which asked for it as they were imported.
        self.since, self.lost = self.device.opened().finding_count(), False
        return (yield from self.watched(item, "setup"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        return (yield from self.watched(item, "call"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        try:
            return (yield from self.watched(item, "teardown"))
        finally:
            self.end_device(item)

    def watched(self, item, phase):
        """Fails a phase of a test if something is found in it. A phase that has already failed
        keeps its reason."""
        try:
            result = yield
        except BaseException as error:
            self.raised.append(error)
            self.wait()
            self.tell(item, phase)
            raise
        lost = self.wait()
        found = self.tell(item, phase)
        if lost or found:
            pytest.fail("\n".join(["the emulator found", *(found or [str(lost)])]), pytrace=False)
        return result

    def wait(self):
        """Waits for the device. Returns the error that this raises, unless the device is lost
        already."""
        if self.lost:
            return None
        try:
            self.device.synchronize()
        except Error as error:
            self.lost = True
            return error
        return None

    def tell(self, item, phase):
        """Adds the findings to the report and to the figures. Returns those that fail the test."""
        found = self.device.findings(self.since)
        self.since = self.device.finding_count()
        for finding in found:
            kernel = KERNEL.search(finding)
            self.figures[kernel[1] if kernel else ELSEWHERE].findings += 1
        if found:
            item.add_report_section(phase, "coppice", "\n".join(found))
        fails, warns = split_findings(found)
        for finding in warns:
            item.warn(pytest.PytestWarning(f"coppice: {finding}"))
        return fails

    def end_device(self, item):
        """Ends the device, without waiting for memory that only exceptions refer to."""
        for error in self.raised:
            traceback.clear_frames(error.__traceback__)
        self.raised.clear()
        self.loaded.clear()
        self.driver.scratch.clear()
        if not self.device.end():
            item.warn(pytest.PytestWarning(
                "coppice: something still refers to memory of this test's device; that memory is "
                "freed, and the next test runs on the same device, without a new seed"))

    def pytest_sessionfinish(self):
        self.read_counts()
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["coppice"] = {
                name: dataclasses.asdict(each) for name, each in self.figures.items()}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        """Called when a process of xdist ends."""
        for name, figures in getattr(node, "workeroutput", {}).get("coppice", {}).items():
            self.figures[name].add(Figures(**figures))

    def read_counts(self):
        lines = self.counts.read_text().splitlines() if self.counts.exists() else []
        self.counts.unlink(missing_ok=True)
        for line in lines:
            name, *numbers = line.split("\t")
            _, instructions, read, written = map(int, numbers)
            self.figures[name].add(Figures(1, instructions, read + written))

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.write_sep("=", "coppice: kernels on the emulator")
        if not self.figures:
            terminalreporter.write_line("none was launched")
            return
        width = max(len("kernel"), *map(len, self.figures))
        terminalreporter.write_line(
            f"{'kernel':{width}}  {'launches':>8}  {'instructions':>14}  {'bytes':>14}  "
            f"{'findings':>8}")
        for name, each in sorted(self.figures.items(), key=lambda item: -item[1].instructions):
            terminalreporter.write_line(
                f"{name:{width}}  {each.launches:8,}  {each.instructions:14,}  {each.bytes:14,}  "
                f"{each.findings:8,}")
