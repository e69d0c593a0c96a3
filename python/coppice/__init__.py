"""CUDA graphs with dynamic shapes: one graph per shape bucket, all in one pool.

    coppice.load("model.zip")           a kernel package as callables
    coppice.wrap(fn, dynamic={...})     any callable that launches on the current stream
    torch.compile(model, backend="coppice")
    coppice.stance, chain, checked      scopes
    coppice.device, coppice.session     what all of these share, made on first use
    coppice.prof                        metrics, traces, marks
    coppice.export                      makes kernel packages; needs nothing of the rest

Without a GPU all of it runs on an emulator of CUDA, which executes the same kernels and graphs and
checks every access. What is not used is not imported: neither PyTorch nor libcuda has to be there.
"""

import importlib

# Where each public name comes from.
_ORIGINS = {
    "Dim": "dims", "load": "programs", "Loaded": "programs", "LoadedProgram": "programs",
    "device": "devices", "session": "devices", "stance": "scopes", "chain": "scopes",
    "checked": "scopes",
    "current_stream": "running", "empty": "running", "empty_like": "running",
    "wrap": "wrapping", "Wrapped": "wrapping", "from_graph": "torch.graphs", "learn": "learning",
    **dict.fromkeys(("Device", "HostTensor", "Lease", "Output", "Package", "Program", "Session",
                     "Tensor"), "_core"),
    **dict.fromkeys(("Aborted", "AlreadyExists", "Error", "FailedPrecondition", "Internal",
                     "InvalidArgument", "NotFound", "OutOfRange", "PermissionDenied",
                     "ResourceExhausted", "StaleOutput", "Unavailable", "Unimplemented",
                     "Unknown"), "errors"),
}
__all__ = sorted(_ORIGINS)


def __getattr__(name):
    if name == "__version__":
        return importlib.import_module("coppice._core").__version__
    if name == "prof":
        return importlib.import_module("coppice.prof")
    if name not in _ORIGINS:
        raise AttributeError(f"module 'coppice' has no attribute {name!r}")
    return getattr(importlib.import_module(f"coppice.{_ORIGINS[name]}"), name)


def __dir__():
    return sorted([*globals(), *__all__])
