"""The program's own Triton kernels, on a machine without a GPU.

Dynamo takes kernels into graphs only if Triton has a driver. Without one it would trace Triton's
own code. This module makes it take them into graphs for this backend. Parts of a function that
PyTorch runs, for example after a graph break, launch their kernels on the emulator, on copies of
the CPU tensors.
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
    """From now on, kernels run on the emulator if Triton has no driver for them."""
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
                raise InvalidArgument(f"{operator} launches the Triton kernel {kernel}; define the "
                                      "operator with torch.library.triton_op, so that coppice can "
                                      "lift it")
            with launching(devices.device_of_tensors("emulator"), loaded=loaded,
                           make_driver=raising_driver()):
                return run(self, *args, **kwargs)

        return run_or_emulate

    loaded = {}
    for owner in (JITFunction, Autotuner):
        owner.run = emulated(owner.run)


@functools.cache
def raising_driver():
    """The class of a driver whose launches raise what the emulator finds in them."""
    from coppice.triton.driver import Driver

    class RaisingDriver(Driver):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.before = self.device.finding_count()

        def launched(self, name, grid, nbytes):
            self.device.synchronize()
            raise_findings(self.device, self.before)

    return RaisingDriver
