"""A CUDA device that the machine does not have, for compilers.

Triton and PyTorch's compilers find the device with functions of their modules, which all threads
share. So these functions are replaced by ones whose answer depends on the thread: only threads that
pretend see the device. Other threads, which may launch kernels meanwhile, see the real devices.
"""

import contextlib
import dataclasses
import threading
import types
from functools import partial
from unittest import mock

import torch
import torch._dynamo.device_interface as device_interface
import torch._inductor.utils
import torch.utils._triton
import triton
from torch._inductor.runtime import hints
from triton.backends.compiler import GPUTarget

from coppice.export.kernels import up_to_ptx

# What Inductor asks a device, of devices that have these capabilities.
PROCESSORS = {80: 108, 86: 84, 89: 128, 90: 132, 100: 148, 103: 148, 120: 188}
SHARED_BYTES = {80: 166912, 86: 101376, 89: 101376, 90: 232448, 100: 232448, 103: 232448,
                120: 101376}
# What CudaInterface answers for its device, and its Worker.
INTERFACE = ("is_available", "get_device_properties", "get_compute_capability", "exchange_device",
             "maybe_exchange_device", "is_bf16_supported", "current_device", "device_count",
             "set_device", "synchronize", "get_raw_stream")
WORKER = ("get_device_properties", "current_device")


def properties(capability):
    major, minor = divmod(capability, 10)
    shared = SHARED_BYTES.get(capability, 101376)
    return types.SimpleNamespace(
        name="CUDA device that is not there", major=major, minor=minor, gcnArchName="",
        multi_processor_count=PROCESSORS.get(capability, 108), total_memory=40 << 30,
        regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048,
        max_threads_per_block=1024, warp_size=32, shared_memory_per_block=49152,
        shared_memory_per_block_optin=shared, shared_memory_per_multiprocessor=shared + 1024,
        L2_cache_size=40 << 20, clock_rate=1410000, memory_clock_rate=1215000,
        memory_bus_width=5120, uuid="none")


class Driver:
    """The part of a Triton driver that compiling needs."""

    capability = 80

    @classmethod
    def is_active(cls):
        return True

    def get_current_target(self):
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0

    def get_device_capability(self, device=None):
        return divmod(self.capability, 10)

    def get_active_torch_device(self):
        return torch.device("cuda", 0)


class Pretended(threading.local):
    """What a thread pretends to have (None: nothing). Other threads see the real devices."""

    driver = active = compiler = interface = None


class ByThread:
    """Stands for an attribute of Pretended: for the value that this thread pretends, or for `real`
    if it pretends none."""

    def __init__(self, real, name):
        self.real, self.name = real, name

    def now(self):
        found = getattr(pretended, self.name)
        return self.real if found is None else found

    def __getattr__(self, name):
        return getattr(self.now(), name)

    def __call__(self, *arguments, **named):
        return self.now()(*arguments, **named)

    def __mro_entries__(self, bases):
        return (self.now(),)


def real_of(one):
    return one.real if isinstance(one, ByThread) else one


pretended = Pretended()
_lock, _replaced = threading.RLock(), contextlib.ExitStack()
_scopes = 0  # That threads are in now.


def remembered():
    """PyTorch's functions that cache what they learn about devices, each with its owner and
    name."""
    for owner in (torch._inductor.utils, hints.DeviceProperties, torch.utils._triton):
        for name in ("is_big_gpu", "get_max_num_sms", "get_num_sms", "create",
                     "get_gpu_shared_memory", "has_triton"):
            known = getattr(owner, name, None)
            if hasattr(known, "cache_clear"):
                yield known, owner, name


@contextlib.contextmanager
def pretending(**what):
    """Inside the scope, this thread pretends to have something. While any thread pretends,
    functions that could reveal it check which thread calls."""
    global _scopes
    with _lock:
        if not _scopes:
            with contextlib.ExitStack() as stack:
                replace_by_thread(stack)
                _replaced.push(stack.pop_all())
        _scopes += 1
    before = dict(vars(pretended))
    vars(pretended).update(what)
    try:
        yield
    finally:
        vars(pretended).clear()
        vars(pretended).update(before)
        with _lock:
            _scopes -= 1
            if not _scopes:
                _replaced.close()


def replace_by_thread(stack):
    """Replaces the functions by which Triton and PyTorch's compilers query a device, until the
    stack is closed."""
    backends, config = triton.backends.backends, type(triton.runtime.driver)
    known, active = backends["nvidia"], config.active.fget
    made = backends["nvidia"] = dataclasses.replace(
        known, driver=ByThread(real_of(known.driver), "driver"),
        compiler=ByThread(real_of(known.compiler), "compiler"))

    @stack.callback
    def restore():
        if backends["nvidia"] is made:  # And not what another scope replaced it by.
            backends["nvidia"] = known

    stack.enter_context(mock.patch.object(config, "active", property(
        lambda self: pretended.active or active(self))))
    for name in ("set_active", "reset_active"):  # Inductor does so, wherever it loads a kernel.
        stack.enter_context(mock.patch.object(config, name, unless_pretended(
            getattr(config, name))))
    interface = device_interface.CudaInterface
    for owner, names in ((interface, INTERFACE), (interface.Worker, WORKER),
                         (torch.cuda, ("get_device_capability", "get_device_properties"))):
        for name in names:
            stack.enter_context(mock.patch.object(
                owner, name, answering(getattr(owner, name), name, owner is not torch.cuda)))
    for real, owner, name in remembered():
        asked = partial(real.__func__.__wrapped__, owner) if hasattr(real, "__func__") else (
            getattr(real, "__wrapped__", real))
        stack.enter_context(mock.patch.object(owner, name, unremembered(
            real, asked, isinstance(owner, type))))


def unless_pretended(real):
    def call(*arguments):
        if pretended.active is None:
            real(*arguments)

    return call


def answering(real, name, is_static):
    def answer(*arguments, **named):
        found = pretended.interface
        return (real if found is None else found[name])(*arguments, **named)

    return staticmethod(answer) if is_static else answer


def unremembered(real, asked, is_static):
    """A function that caches its answers, except for those about a pretended device."""
    def answer(*arguments, **named):
        return (real if pretended.interface is None else asked)(*arguments, **named)

    answer.cache_clear = real.cache_clear
    return staticmethod(answer) if is_static else answer


@contextlib.contextmanager
def pretended_driver(capability, cubins=True):
    """Inside the scope, only Triton finds a CUDA device on this thread, to compile for."""
    found = type("PretendedDriver", (Driver,), {"capability": capability})
    compiler = real_of(triton.backends.backends["nvidia"].compiler)
    with pretending(driver=found, active=found(),
                    compiler=compiler if cubins else up_to_ptx(compiler)):
        yield


@contextlib.contextmanager
def pretended_device(capability, cubins=True):
    """Inside the scope, PyTorch's compilers and Triton find one CUDA device on this thread. Nothing
    can run on it. Without `cubins`, Triton stops at PTX, which takes half the time."""
    known = properties(capability)
    cuda = {
        "is_available": lambda: True, "get_device_properties": lambda device=None: known,
        "get_compute_capability": lambda device=None: capability,
        "exchange_device": lambda device: 0, "maybe_exchange_device": lambda device: 0,
        "is_bf16_supported": lambda including_emulation=False: capability >= 80,
        "current_device": lambda: 0, "device_count": lambda: 1, "set_device": lambda device: None,
        "synchronize": lambda device=None: None, "get_raw_stream": lambda device: 0,
        "get_device_capability": lambda device=None: divmod(capability, 10),
    }
    with pretended_driver(capability, cubins), pretending(interface=cuda):
        forget_devices()
        try:
            yield
        finally:
            forget_devices()


def forget_devices():
    """Drops what PyTorch has cached about devices."""
    for known, _, _ in remembered():
        known.cache_clear()
