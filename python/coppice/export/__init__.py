"""Makes kernel packages (runtime/package/FORMAT.md) of programs that front ends compile.

    coppice.export.manifest   any front end: a package is built, checked for its form and written
    coppice.export.torch      a PyTorch module or ExportedProgram, compiled by Inductor
    coppice.export.triton     Triton kernels, by signatures or by recording the code that launches

None of them needs a GPU, a driver, or the rest of coppice. `python -m coppice.export --help` is
the command.
"""

from coppice.export.manifest import ExportError, Package

__all__ = ["ExportError", "Package"]
