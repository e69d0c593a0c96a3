"""CUDA graphs with dynamic shapes: one graph per shape bucket, all in one pool.

    coppice.load("model.zip")           a kernel package as callables
    coppice.wrap(fn, dynamic={...})     any callable that launches on the current stream
    torch.compile(model, backend="coppice")     after `import coppice.torch`, whose help has options
    coppice.Dim, coppice.learn          a size that varies; buckets from the sizes of calls
    coppice.claims                      what padding may hold, in words that all of these take
    coppice.stance, chain, checked      scopes
    coppice.device, coppice.session     what all of these share, made on first use
    coppice.reset_device                a fresh emulator after a fault
    coppice.record, coppice.replay      what led to a fault, as a file; which line is wrong
    coppice.fit                         memory and buckets of a package, before there is a GPU
    coppice.prof                        metrics, traces, marks; traces for other tools
    coppice.triton                      Triton's kernels without a GPU
    coppice.export                      makes kernel packages; independent of the rest
    coppice.Error                       what all of these raise, by class

`help(coppice.wrap)` and so on explain each of them.

Without a GPU, all of it runs on an emulator of CUDA, which executes the same kernels and graphs and
checks every access. Modules are imported only when they are used, so neither PyTorch nor libcuda
has to be installed.
"""

import importlib
import importlib.util

# Where each public name comes from.
_ORIGINS = {
    "Dim": "dims", "load": "programs", "Loaded": "programs", "LoadedProgram": "programs",
    "device": "devices", "session": "devices", "reset_device": "devices", "stance": "scopes",
    "chain": "scopes", "checked": "scopes",
    "current_stream": "running", "empty": "running", "empty_like": "running",
    "wrap": "wrapping", "Wrapped": "wrapping", "from_graph": "torch.graphs", "learn": "learning",
    "fit": "fitting", "record": "cases", "replay": "cases",
    **dict.fromkeys(("Device", "HostTensor", "Lease", "Loan", "Output", "Package", "Program",
                     "Session", "Tensor"), "_core"),
    **dict.fromkeys(("Aborted", "AlreadyExists", "Error", "FailedPrecondition", "Internal",
                     "InvalidArgument", "NotFound", "OutOfRange", "PermissionDenied",
                     "ResourceExhausted", "StaleOutput", "Unavailable", "Unimplemented",
                     "Unknown"), "errors"),
}
_NEEDS = {"from_graph": "torch"}  # Of names, what has to be installed.
__all__ = sorted(name for name in _ORIGINS
                 if name not in _NEEDS or importlib.util.find_spec(_NEEDS[name]))


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
