"""Triton's own launches on the emulator: `kernel[grid](x, y, n, BLOCK=1024)` without a GPU.

    with coppice.triton.launching(device):
        kernel[(blocks,)](x, y, n)            # tensors of PyTorch on the CPU, or coppice.Tensor

    with coppice.triton.launching(device), coppice.triton.pretend_cuda():
        x = torch.randn(1024, device="cuda")  # host code that needs a GPU runs unchanged
        y = softmax(x)

Wrapped callables (coppice.wrap) need no such scope; it is enough that Triton is imported. Triton
compiles kernels up to their PTX and specialises arguments as usual; the emulator executes and
checks the PTX. On a GPU Triton's own driver launches, and nothing of this module is used.

`pytest --coppice` opens both scopes around all tests, with a device for each test.

Threads: one thread launches at a time; others wait.
"""

from coppice.triton.pretending import pretend_cuda
from coppice.triton.scope import launching

__all__ = ["launching", "pretend_cuda"]
