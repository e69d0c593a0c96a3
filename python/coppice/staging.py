"""Host tensors that a program writes to. On the emulator, the program gets copies of them, because
its kernels cannot access host memory. The results are copied back.
"""

from coppice import _core
from coppice.errors import InvalidArgument
from coppice.structure import kind_of


def run_staged(program, inputs, written, options):
    """The lease of program.run(inputs, **options) on an emulator. Afterwards, host tensors among
    `written`, {number of an input: its name}, hold what the program wrote to them. Raises
    InvalidArgument for a tensor that cannot be written to."""
    device, stream = program.session.device, options.get("stream", 0)
    inputs, staged = list(inputs), []
    for number, name in written.items():
        if not isinstance(inputs[number], (_core.Tensor, _core.Output)):
            host = writable(inputs[number], name)
            inputs[number] = device.upload(host, stream)
            staged.append((host, inputs[number]))
    lease = program.run(inputs, **options)
    for host, copy in staged:
        write(host, copy.to_host(stream))
    return lease


def writable(tensor, name):
    """The tensor in a form that can be written to. Raises InvalidArgument if there is none."""
    kind = kind_of(tensor)
    if kind == "torch" and tensor.device.type == "cpu":
        return tensor.detach()  # Which a tensor with gradients could not be written to by.
    if kind == "numpy" and tensor.flags.writeable:
        return tensor
    what = ("is read-only" if kind == "numpy" else f"is on {tensor.device}" if kind == "torch" else
            f"is a {type(tensor).__name__} of {kind}")
    raise InvalidArgument(f"{name} {what}, so the program cannot write to it; on the emulator give "
                          "the result of Device.upload(tensor), a PyTorch tensor on the CPU, or "
                          "a writable NumPy array")


def write(host, copied):
    if kind_of(host) == "torch":
        import torch

        host.copy_(torch.from_dlpack(copied))
    else:
        import numpy

        host[...] = numpy.from_dlpack(copied)
