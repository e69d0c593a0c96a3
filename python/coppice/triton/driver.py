"""The driver that Triton calls, on an emulator."""

import functools

from triton.backends.compiler import GPUTarget

from coppice._core import Tensor
from coppice.running import find_run
from coppice.triton.figures import MULTIPROCESSORS, REGISTERS, SHARED_BYTES_MAX
from coppice.triton.launcher import Launcher
from coppice.triton.pretending import find_pretended


class Image:
    """A compiled kernel. It holds no device, since Triton keeps it as long as the process runs."""

    def __init__(self, name, ptx):
        self.name, self.ptx = name, ptx


# One for a kernel, however often Triton asks for it to be loaded.
image_of = functools.lru_cache(maxsize=None)(Image)


class Driver:
    """The methods that Triton calls on a driver."""

    def __init__(self, device, stream, capability, loaded):
        self.device, self.stream, self.capability = device, stream, capability
        self.loaded, self.utils, self.launcher_cls = loaded, self, Launcher
        self.scratch = []
        self.launches = 0  # The clock of events.

    def close(self):
        """Ends the scope. The driver then refers to no device, so an exception or other object that
        still refers to the driver does not keep the device.
        """
        self.scratch.clear()
        self.device = None

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
        return {"max_shared_mem": SHARED_BYTES_MAX[self.capability], "max_num_regs": REGISTERS,
                "multiprocessor_count": MULTIPROCESSORS, "warpSize": 32, "sm_clock_rate": 1,
                "mem_clock_rate": 1, "mem_bus_width": 1}

    def get_active_torch_device(self):
        """The device of the PyTorch tensors that a kernel takes."""
        import torch

        return torch.device("cuda", 0) if find_pretended() else torch.device("cpu")

    def get_device_interface(self):
        """The stand-in for torch.cuda."""
        from coppice.triton.cuda import Answers

        return Answers(self.capability)

    def get_benchmarker(self):
        """Triton's own benchmarker. Its figures count launches, because times on the emulator mean
        nothing."""
        from triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self):
        """There is no cache to clear."""

    def clear_cache(self, cache):
        pass

    def load_binary(self, name, ptx, shared, device):
        """Returns no module, so that Triton unloads nothing, and a device may end before Triton
        does."""
        return None, image_of(name, ptx), 0, 0, 1024

    def address_of(self, value):
        """The address of an object that has data_ptr(); None if it is not in the device's
        memory."""
        address = value.data_ptr()
        known = address == 0 or isinstance(value, Tensor) or self.device.holds(address)
        return address if known else None

    def launched(self, name, grid, nbytes):
        """Called when a launch is queued. It uses `nbytes` of PyTorch's tensors; if there are any,
        the launch has run."""

    def allocate(self, size, alignment, stream):
        """Scratch memory that a kernel needs at its launch. It comes from the callable that runs,
        or else from this driver, whose kernels run one after another and may share it."""
        run = find_run()
        if run is not None:
            return run.empty([size], "u8")
        if not self.scratch or self.scratch[-1].shape[0] < size:
            self.scratch.append(self.device.empty([size], "u8"))
        return self.scratch[-1]
