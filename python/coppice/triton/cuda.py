"""The results of torch.cuda's functions while CUDA is pretended."""

import contextlib
import types
from unittest import mock

import torch
import triton

from coppice.triton.figures import (CACHE_BYTES, CAPABILITY, MEMORY_BYTES, MULTIPROCESSORS, NAME,
                                    REGISTERS, SHARED_BYTES, SHARED_BYTES_MAX, THREADS)

LAUNCH_MS = 1000.0  # So that what repeats until enough time went by repeats little.


def find_driver():
    """The driver of the scope of coppice.triton.launching; None outside of it."""
    driver = triton.runtime.driver._active
    return driver if hasattr(driver, "launches") else None


class Stream:
    """A stream. All work is done when a call returns, so there is nothing to wait for."""

    def __init__(self, device=None, priority=0, **_given):
        self.device, self.device_index, self.priority = torch.device("cuda", 0), 0, priority
        self.outer = []  # The streams before it, where it is the current one.

    @property
    def cuda_stream(self):
        driver = find_driver()
        return driver.stream if driver else 0

    def query(self):
        return True

    def synchronize(self):
        Answers.synchronize()

    def wait_event(self, event):
        """Does nothing: the event has happened."""

    def wait_stream(self, stream):
        """Does nothing: the stream's work has run."""

    def record_event(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self):
        self.outer.append(Answers.current_stream())
        Answers.set_stream(self)
        return self

    def __exit__(self, *raised):
        Answers.set_stream(self.outer.pop())


class Event:
    """An event. Its clock counts launches and events."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        self.time = None

    def record(self, stream=None):
        driver = find_driver()
        if driver:
            driver.launches += 1
        self.time = driver.launches if driver else 0

    def query(self):
        return True

    def synchronize(self):
        Answers.synchronize()

    def wait(self, stream=None):
        """Does nothing: the event has happened."""

    def elapsed_time(self, end):
        if self.time is None or end.time is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return LAUNCH_MS * (end.time - self.time)


class Device(contextlib.ContextDecorator):
    """torch.cuda.device, and device_of. There is one device."""

    def __init__(self, device=None):
        self.idx = self.prev_idx = 0

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        return False


class Answers:
    """A stand-in for torch.cuda. If `capability` is None, it is that of
    coppice.triton.launching."""

    Stream, Event, ExternalStream, device, device_of = Stream, Event, Stream, Device, Device
    default = current = None

    def __init__(self, capability):
        self.capability = capability

    def get_device_capability(self, device=None):
        driver = find_driver()
        return divmod(self.capability or (driver.capability if driver else CAPABILITY), 10)

    def get_device_properties(self, device=None):
        major, minor = self.get_device_capability()
        return types.SimpleNamespace(
            name=NAME, major=major, minor=minor, total_memory=MEMORY_BYTES, warp_size=32,
            multi_processor_count=MULTIPROCESSORS, L2_cache_size=CACHE_BYTES,
            shared_memory_per_block=SHARED_BYTES, is_integrated=0, is_multi_gpu_board=0,
            shared_memory_per_block_optin=SHARED_BYTES_MAX[10 * major + minor],
            shared_memory_per_multiprocessor=SHARED_BYTES_MAX[10 * major + minor] + 1024,
            max_threads_per_multi_processor=THREADS, regs_per_multiprocessor=REGISTERS)

    @staticmethod
    def is_available():
        return True

    @staticmethod
    def is_initialized():
        return True

    @staticmethod
    def init():
        """Does nothing: there is nothing to initialise."""

    @staticmethod
    def device_count():
        return 1

    @staticmethod
    def current_device():
        return 0

    @staticmethod
    def set_device(device):
        """Does nothing: there is one device."""

    @staticmethod
    def get_device_name(device=None):
        return NAME

    @staticmethod
    def is_bf16_supported(including_emulation=True):
        return True

    @staticmethod
    def is_current_stream_capturing():
        return False

    @staticmethod
    def synchronize(device=None):
        driver = find_driver()
        if driver:
            driver.device.synchronize()

    @staticmethod
    def default_stream(device=None):
        Answers.default = Answers.default or Stream()
        return Answers.default

    @staticmethod
    def current_stream(device=None):
        return Answers.current or Answers.default_stream()

    @staticmethod
    def set_stream(stream):
        Answers.current = stream

    @staticmethod
    def stream(stream):
        return stream or contextlib.nullcontext()

    @staticmethod
    def manual_seed(seed):
        torch.default_generator.manual_seed(int(seed))

    manual_seed_all = manual_seed

    @staticmethod
    def get_rng_state(device=None):
        return torch.default_generator.get_state()

    @staticmethod
    def set_rng_state(state, device=None):
        torch.default_generator.set_state(state)

    @staticmethod
    def mem_get_info(device=None):
        return MEMORY_BYTES, MEMORY_BYTES

    @staticmethod
    def empty_cache():
        """Does nothing: there is no cache."""

    @staticmethod
    def memory_allocated(device=None):
        return 0

    max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated

    @staticmethod
    def reset_peak_memory_stats(device=None):
        """Does nothing: no memory is counted."""


NAMES = [name for name in vars(Answers) if not name.startswith("_")
         and name not in ("default", "current")]


@contextlib.contextmanager
def answering(capability):
    """Inside the scope, torch.cuda answers for an emulator."""
    answers = Answers(capability)
    outer = Answers.current
    try:
        with mock.patch.multiple(torch.cuda, **{name: getattr(answers, name) for name in NAMES}):
            yield
    finally:
        Answers.current = outer
