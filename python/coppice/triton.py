"""Triton's own launches on the emulator: `kernel[grid](x, y, n, BLOCK=1024)` without a GPU.

    with coppice.triton.launching(device):
        kernel[(blocks,)](x, y, n)            # x and y are coppice.Tensor

Wrapped callables (coppice.wrap) need no more than that Triton is imported. Kernels are compiled as
Triton compiles them, up to their PTX, which the emulator executes and checks. Arguments are
specialised as ever. On a GPU Triton's own driver launches, and nothing of this is used.

Threads: one at a time launches; others wait.
"""

import atexit
import contextlib
import dataclasses
import functools
import struct
import threading
from unittest import mock

import triton
from triton._utils import type_canonicalisation_dict
from triton.backends.compiler import GPUTarget
from triton.runtime import _allocation

from coppice._core import Tensor
from coppice.errors import InvalidArgument, Unimplemented
from coppice.export.kernels import SCALARS, packed, passed, source_parameters, up_to_ptx
from coppice.running import find_run

CAPABILITY = 80  # What is compiled for, if nothing else is said; a later device executes it too.
SHARED_BYTES_MAX = {80: 166912, 86: 101376, 89: 101376, 90: 232448}  # Of a block.
# Types that coppice names otherwise than Triton does.
DTYPES = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "f8e4m3": "fp8e4nv", "f8e5m2": "fp8e5"}
HOST_DESCRIPTORS = ("tensordesc", "nvTmaDesc")

_lock = threading.RLock()
_open = []  # What undoes each scope; one that is open at exit would keep its device in Triton.


@atexit.register
def close_scopes():
    while _open:
        _open[-1].close()


@contextlib.contextmanager
def launching(device, stream=0, *, capability=CAPABILITY, loaded=None, make_driver=None):
    """Within, Triton launches on an emulator and on `stream` (0: the device's own).

    capability   what kernels are compiled for: 80, 86, 89 (which has types of 8 bits) or 90
    loaded       a dict of the caller's in which kernels stay loaded for the next scope; None: they
                 are loaded for this one
    make_driver  the class of what Triton asks; None: Driver"""
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
        token = _allocation._allocator.set(driver.allocate)
        stack.callback(_allocation._allocator.reset, token)
        yield driver


class Image:
    """A compiled kernel. It holds no device, since Triton keeps it as long as the process runs."""

    def __init__(self, name, ptx):
        self.name, self.ptx = name, ptx


# One for a kernel, however often Triton asks for it to be loaded.
image_of = functools.lru_cache(maxsize=None)(Image)


class Driver:
    """What Triton asks of a driver."""

    def __init__(self, device, stream, capability, loaded):
        self.device, self.stream, self.capability = device, stream, capability
        self.loaded, self.utils, self.launcher_cls = loaded, self, Launcher
        self.scratch = []

    def kernel(self, image):
        if image not in self.loaded:
            self.loaded[image] = self.device.load_kernels(image.ptx).get(image.name)
        return self.loaded[image]

    def get_current_target(self):
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self):
        return f"emulator sm_{self.capability}"  # Triton keeps what it compiled by this.

    def set_current_device(self, device):
        pass

    def get_current_stream(self, device):
        return self.stream

    def get_device_capability(self, device=None):
        return divmod(self.capability, 10)

    def get_device_properties(self, device):
        return {"max_shared_mem": SHARED_BYTES_MAX[self.capability], "multiprocessor_count": 108,
                "warpSize": 32, "sm_clock_rate": 1, "mem_clock_rate": 1, "mem_bus_width": 1}

    def get_active_torch_device(self):
        raise Unimplemented("the emulator is no device of PyTorch")

    def get_benchmarker(self):
        raise Unimplemented("time on the emulator says nothing; give @triton.autotune one "
                            "configuration, or none")

    def load_binary(self, name, ptx, shared, device):
        """No module: unloading is not Triton's business, so that a device may end before."""
        return None, image_of(name, ptx), 0, 0, 1024

    def address_of(self, value):
        """The address of what has data_ptr(), None if that is no memory of the device."""
        address = value.data_ptr()
        known = address == 0 or isinstance(value, Tensor) or self.device.holds(address)
        return address if known else None

    def launched(self):
        """A launch is queued."""

    def allocate(self, size, alignment, stream):
        """Scratch memory that a kernel asks for at its launch: of the callable that runs, else of
        this driver, whose kernels run one after another and may have the same."""
        run = find_run()
        if run is not None:
            return run.empty([size], "u8")
        if not self.scratch or self.scratch[-1].shape[0] < size:
            self.scratch.append(self.device.empty([size], "u8"))
        return self.scratch[-1]


class Launcher:
    """Launches one compiled kernel."""

    def __init__(self, source, metadata):
        self.signature, self.metadata = source.signature, metadata
        if any(kind.startswith(HOST_DESCRIPTORS) for _, kind in source_parameters(source)):
            raise Unimplemented(f"{metadata.name}: descriptors made on the host are not launched "
                                "on the emulator; make them in the kernel, by "
                                "tl.make_tensor_descriptor")

    def __call__(self, x, y, z, stream, image, _packed, launch_metadata, enter, leave, *arguments):
        driver = triton.runtime.driver.active
        known = self.metadata
        if enter is not None:
            enter(launch_metadata)
        values = [self.packed(*part, driver)
                  for (name, kind), value in zip(self.signature.items(), arguments, strict=True)
                  for part in passed(name, kind, value)]
        if x * y * z > 0:
            values.append(self.scratch(x * y * z, stream))
            values.append(bytes(8))  # Nothing is profiled.
            clusters = known.num_ctas
            driver.device.launch(
                driver.kernel(image), [x * clusters, y, z], [32 * known.num_warps, 1, 1], values,
                stream, shared_bytes=known.shared, cluster=[clusters, 1, 1],
                cooperative=known.launch_cooperative_grid, programmatic=known.launch_pdl)
            driver.launched()
        if leave is not None:
            leave(launch_metadata)

    def packed(self, name, kind, value, driver):
        """The bytes of an argument, as PTX declares its parameter."""
        if kind in SCALARS:
            return packed(kind, value)
        if not kind.startswith("*"):
            raise Unimplemented(f"{self.metadata.name}: {name} is of the type {kind}, which is not "
                                "launched on the emulator")
        if value is None or isinstance(value, int):
            return struct.pack("Q", value or 0)
        address = driver.address_of(value)
        if address is None:
            raise InvalidArgument(
                f"{self.metadata.name}: {name} is a {type(value).__module__}."
                f"{type(value).__qualname__} that does not lie on the emulator; upload it by "
                "Device.upload, or have coppice.wrap call the code and pass it as an argument")
        return struct.pack("Q", address)

    def scratch(self, blocks, stream):
        size = self.metadata.global_scratch_size * blocks * self.metadata.num_ctas
        if size == 0:
            return bytes(8)
        allocator = _allocation._allocator.get()
        memory = allocator(size, self.metadata.global_scratch_align, stream)
        return struct.pack("Q", memory.data_ptr())
