"""PyTorch's tensors of the CPU, as host code that is written for CUDA sees them.

    with coppice.triton.launching(device), coppice.triton.pretend_cuda():
        y = torch.empty_like(torch.randn(64, device="cuda"))
        assert y.is_cuda
"""

import contextlib
import threading

_thread = threading.local()
_lock = threading.RLock()


def find_pretended():
    """The scope that pretends on this thread, or None."""
    return getattr(_thread, "pretended", None)


@contextlib.contextmanager
def pretend_cuda(*, capability=None):
    """Inside the scope, PyTorch seems to have one GPU, whose tensors are on the CPU.

    device="cuda" is accepted. A tensor reports cuda:0 as its device if it was created on "cuda" or
    moved there, was computed from such a tensor, or is older than the scope. A tensor that code
    creates on the CPU reports the CPU; moving it to the GPU copies it, and a kernel refuses it
    until then. torch.cuda describes the emulated device. Triton kernels also need the scope
    coppice.triton.launching. All work is done when a call returns, so streams and events order
    nothing; events count launches.

    capability  what torch.cuda reports: 80, 86, 89 or 90; None: that of coppice.triton.launching,
                or 80 outside of it

    Threads: one thread at a time may be in the scope; others wait. torch.cuda answers all threads
    alike. On other threads, tensors report their real device."""
    from coppice.triton.cuda import answering
    from coppice.triton.tensors import saying_cuda

    with _lock, answering(capability), saying_cuda() as tensors:
        before, _thread.pretended = find_pretended(), tensors
        try:
            yield
        finally:
            _thread.pretended = before
