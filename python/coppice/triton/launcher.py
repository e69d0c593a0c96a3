"""Launches one compiled kernel, and makes the bytes of its arguments as PTX declares its
parameters."""

import struct

import triton
from triton.runtime import _allocation

from coppice.errors import InvalidArgument, Unimplemented
from coppice.export.kernels import SCALARS, packed, passed
from coppice.running import find_run
from coppice.triton.descriptors import MAP, encoded, is_descriptor, parts_of
from coppice.triton.mirrors import find_host_tensor, mirrored
from coppice.triton.pretending import find_pretended


class Launcher:
    """Launches one compiled kernel."""

    def __init__(self, source, metadata):
        self.signature, self.metadata = source.signature, metadata

    def __call__(self, x, y, z, stream, image, _packed, launch_metadata, enter, leave, *arguments):
        driver = triton.runtime.driver.active
        known, blocks = self.metadata, x * y * z
        if enter is not None:
            enter(launch_metadata)
        parts = list(self.parts(arguments))
        if blocks > 0:
            parts.append(("its scratch memory", "*u8", self.scratch(blocks, stream)))
            parts.append(("what profiles", "*u8", None))
        tensors = [] if find_run() else list(self.host_tensors(parts, driver))
        with mirrored(driver.device, stream, tensors) as mirrors:
            values = [self.packed(*part, driver, mirrors) for part in parts]
            if blocks > 0:
                driver.device.launch(
                    driver.kernel(image), [x * known.num_ctas, y, z], [32 * known.num_warps, 1, 1],
                    values, stream, shared_bytes=known.shared, cluster=[known.num_ctas, 1, 1],
                    cooperative=known.launch_cooperative_grid, programmatic=known.launch_pdl)
        if blocks > 0:
            driver.launches += 1
            driver.launched(known.name, (x, y, z), mirrors.nbytes)
        if leave is not None:
            leave(launch_metadata)

    def parts(self, arguments):
        """Name, type and value of each parameter except the last two, for which there is no
        argument."""
        maps = iter(getattr(self.metadata, "tensordesc_meta", None) or [])
        for (name, kind), value in zip(self.signature.items(), arguments, strict=True):
            for part in passed(name, kind, value):
                if is_descriptor(part[1]):
                    yield from parts_of(*part, next(maps, None))
                else:
                    yield part

    def host_tensors(self, parts, driver):
        """PyTorch's CPU tensors among the arguments."""
        for name, kind, value in parts:
            pointed = value.descriptor.base if kind == MAP else value
            if kind[0] != "*" and kind != MAP or not hasattr(pointed, "data_ptr"):
                continue
            tensor = find_host_tensor(pointed)
            if tensor is None or driver.address_of(pointed) is not None:
                continue  # What says that it lies on the device is not the host's.
            pretended = find_pretended()
            if pretended and pretended.is_on_host(tensor):
                raise InvalidArgument(f"{self.metadata.name}: {name} cannot be accessed from "
                                      "Triton (cpu tensor?); it was made on the CPU, and not "
                                      "moved to a device")
            yield tensor

    def packed(self, name, kind, value, driver, mirrors):
        """The bytes of an argument."""
        if kind in SCALARS:
            return packed(kind, value)
        if kind == MAP:
            return encoded(driver.device, self.address(name, value.descriptor.base, driver,
                                                       mirrors), value)
        if not kind.startswith("*"):
            raise Unimplemented(f"{self.metadata.name}: {name} has type {kind}, which the "
                                "emulator does not support")
        return struct.pack("Q", self.address(name, value, driver, mirrors))

    def address(self, name, value, driver, mirrors):
        """The address of a pointer argument. Raises InvalidArgument if it is not in the device's
        memory.
        """
        if value is None or isinstance(value, int):
            return value or 0
        address = driver.address_of(value)
        address = mirrors.address_of(value) if address is None else address
        if address is None:
            raise InvalidArgument(
                f"{self.metadata.name}: {name} is a "
                f"{type(value).__module__}.{type(value).__qualname__} that is not on the "
                "emulator; upload it with Device.upload, or wrap the code with coppice.wrap and "
                "pass it as an argument")
        return address

    def scratch(self, blocks, stream):
        """Scratch memory for a launch; None if the kernel needs none."""
        size = self.metadata.global_scratch_size * blocks * self.metadata.num_ctas
        if size == 0:
            return None
        allocator = _allocation._allocator.get()
        return allocator(size, self.metadata.global_scratch_align, stream)
