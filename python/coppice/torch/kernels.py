"""Triton kernels of the program's own, on a machine without a GPU.

Dynamo takes kernels into graphs only where Triton has a driver; without one it would trace Triton
itself. Here it takes them into graphs for this backend. What PyTorch runs of a function, as behind
a graph break, launches its kernels on the emulator, on copies of the CPU's tensors.
"""

import functools
from unittest import mock

import torch
from torch._dynamo.eval_frame import innermost_backend
from torch._dynamo.variables.builder import VariableBuilder

from coppice import devices
from coppice.errors import InvalidArgument, raise_findings
from coppice.torch.calls import running_operator

try:
    import triton
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction
except ImportError:
    triton = None

ALIGNMENT = 256  # Copies lie to it as what is copied does.


def take_kernels(backend):
    """From now on, Dynamo takes kernels into graphs that are for `backend`."""
    if triton is None:
        return
    wrap = VariableBuilder._wrap

    def wrap_kernel(self, value):
        owner = innermost_backend(self.tx.output.compiler_fn) if isinstance(
            value, (JITFunction, Autotuner)) else None
        ours = getattr(owner, "compiler_fn", owner) is backend
        if not ours or torch.utils._triton.has_triton():
            return wrap(self, value)
        launch_without_driver()
        with mock.patch.object(torch.utils._triton, "has_triton", lambda **_: True):
            return wrap(self, value)

    VariableBuilder._wrap = wrap_kernel


@functools.cache
def launch_without_driver():
    """From now on, kernels that Triton has no driver for run on the emulator."""
    if triton is None:
        return
    from coppice.triton import launching

    def emulated(run):
        @torch._dynamo.disable
        @functools.wraps(run)
        def run_or_emulate(self, *args, **kwargs):
            drivers = [backend.driver for backend in triton.backends.backends.values()]
            if triton.runtime.driver._active or any(driver.is_active() for driver in drivers):
                return run(self, *args, **kwargs)
            operator = running_operator()
            if operator:
                kernel = getattr(self, "base_fn", self).__name__
                raise InvalidArgument(f"{operator} launches the Triton kernel {kernel}; define it "
                                      "by torch.library.triton_op, so that it is lifted")
            with launching(devices.device("emulator"), loaded=loaded,
                           make_driver=copying_driver()):
                return run(self, *args, **kwargs)

        return run_or_emulate

    loaded = {}
    for owner in (JITFunction, Autotuner):
        owner.run = emulated(owner.run)


@functools.cache
def copying_driver():
    """The class of a driver whose launches work on copies of the CPU's tensors."""
    from coppice.triton import Driver

    class CopyingDriver(Driver):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.copies = {}  # By addresses of storages: all their bytes, and the copy of them.
            self.before = self.device.finding_count()

        def get_benchmarker(self):
            """Time says nothing here: the first configuration is the fastest."""
            return lambda launch, quantiles: [0.0] * len(quantiles)

        def address_of(self, value):
            tensor = getattr(value, "base", value)  # Of triton.reinterpret.
            known = super().address_of(value)
            if known is not None or not isinstance(tensor, torch.Tensor) or not tensor.is_cpu:
                return known
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self.copies:
                bytes_ = torch.empty(0, dtype=torch.uint8).set_(storage)
                self.copies[storage.data_ptr()] = bytes_, self.copied(bytes_)
            _, copy = self.copies[storage.data_ptr()]
            return copy.data_ptr() + tensor.data_ptr() - storage.data_ptr()

        def copied(self, host):
            offset = host.data_ptr() % ALIGNMENT
            memory = self.device.empty([offset + len(host)], "u8")
            copy = self.device.view(memory.data_ptr() + offset, [len(host)], "u8", owner=memory)
            copy.copy_from(host)
            return copy

        def launched(self):
            copies, self.copies = self.copies, {}
            self.device.synchronize()
            raise_findings(self.device, self.before)
            for host, copy in copies.values():
                now = torch.from_dlpack(copy.to_host())
                if not torch.equal(host, now):  # What is only read may not be writable.
                    host.copy_(now)

    return CopyingDriver
