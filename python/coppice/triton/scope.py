"""The scope in which Triton launches on an emulator: it replaces parts of Triton, and puts them
back at its end."""

import atexit
import contextlib
import dataclasses
import threading
from unittest import mock

import triton
from triton._utils import type_canonicalisation_dict
from triton.runtime import _allocation

from coppice import devices
from coppice.errors import InvalidArgument
from coppice.export.kernels import up_to_ptx
from coppice.triton.descriptors import taking_tensors
from coppice.triton.driver import Driver
from coppice.triton.figures import CAPABILITY, SHARED_BYTES_MAX
from coppice.triton.tuning import WAYS, tuning

# Types that coppice names otherwise than Triton does.
DTYPES = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "f8e4m3": "fp8e4nv", "f8e5m2": "fp8e5"}

_lock = threading.RLock()
_open = []  # What undoes each scope; one that is open at exit would keep its device in Triton.


@atexit.register
def close_scopes():
    while _open:
        _open[-1].close()


@contextlib.contextmanager
def launching(device=None, stream=0, *, capability=CAPABILITY, loaded=None, make_driver=None,
              autotune="first"):
    """Inside the scope, Triton launches on an emulator (None: coppice.device("emulator")) and on
    `stream` (0: the device's own).

    A kernel takes coppice.Tensor, which stays on the device, and tensors of PyTorch on the CPU.
    A tensor on the CPU has a copy on the device during a launch, which all views of the same memory
    share. The launch returns when the kernel has run and the tensors hold what it wrote. A pointer
    that is neither raises InvalidArgument before the launch.

    capability   the architecture that kernels are compiled for: 80, 86, 89 (which has 8-bit
                 floats) or 90
    loaded       a dict of the caller's that keeps kernels loaded for the next scope; None: they are
                 loaded for this scope alone
    make_driver  the class of the driver that Triton calls; None: Driver
    autotune     what @triton.autotune does, because times on the emulator mean nothing. "first":
                 it takes the first configuration that compiles and fits. "compare": it runs all,
                 and raises Error if the results of one in PyTorch's tensors differ from those of
                 the first"""
    if capability not in SHARED_BYTES_MAX:
        raise InvalidArgument(f"launching: capability {capability!r} is not one of "
                              f"{', '.join(map(str, SHARED_BYTES_MAX))}")
    if autotune not in WAYS:
        raise InvalidArgument(f"launching: autotune {autotune!r} is not one of {', '.join(WAYS)}")
    device = devices.device("emulator") if device is None else device
    with _lock, contextlib.ExitStack() as stack:
        _open.append(stack)
        stack.callback(_open.remove, stack)
        driver = (make_driver or Driver)(device, stream or device.stream, capability,
                                         {} if loaded is None else loaded)
        known = triton.backends.backends["nvidia"]
        backend = dataclasses.replace(known, compiler=up_to_ptx(known.compiler))
        stack.enter_context(mock.patch.dict(triton.backends.backends, nvidia=backend))
        stack.enter_context(mock.patch.dict(type_canonicalisation_dict, DTYPES))
        stack.enter_context(mock.patch.object(triton.runtime.driver, "_active", driver))
        stack.enter_context(taking_tensors())
        stack.enter_context(tuning(WAYS[autotune]))
        token = _allocation._allocator.set(driver.allocate)
        stack.callback(_allocation._allocator.reset, token)
        stack.callback(driver.close)
        yield driver
