"""Makes kernel packages (runtime/package/FORMAT.md) from programs that front ends compile.

    coppice.export.manifest   any front end: builds a package, checks its form and writes it
    coppice.export.torch      a PyTorch module or ExportedProgram, compiled by Inductor
    coppice.export.triton     Triton kernels, by signatures or by recording the code that launches

None of them needs a GPU, a driver, or the rest of coppice. `python -m coppice.export --help` shows
the command.
"""

from coppice.export.manifest import ExportError, Package

__all__ = ["ExportError", "Package"]
