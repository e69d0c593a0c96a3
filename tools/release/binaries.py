"""What programs and libraries of ELF ask of the machine that they run on."""

import dataclasses
import pathlib
import re

from run import ask
from tree import ReleaseError

GLIBC_MAX = (2, 34)
# libgcc_s is what glibc ends threads by; its packages depend on it.
GLIBC_LIBRARIES = re.compile(
    r"(libc|libm|libdl|librt|libpthread|ld-linux-x86-64|libgcc_s)\.so\.\d+")


@dataclasses.dataclass(frozen=True)
class Demands:
    """Libraries by name, and the newest version of symbols of glibc and of the C++ runtime."""

    libraries: tuple
    glibc: tuple
    runtime: tuple  # Versions of GLIBCXX and CXXABI; empty where the C++ runtime is in it.


def demands(path):
    libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", ask(["readelf", "--dynamic", "--wide", path]))
    versions = ask(["readelf", "--version-info", "--wide", path])
    # What it needs; what it defines has another heading.
    needed = re.findall(r"Name: (\S+)  Flags: \S+  Version: ", versions)
    glibc = [tuple(map(int, name[len("GLIBC_"):].split("."))) for name in needed
             if re.fullmatch(r"GLIBC_[\d.]+", name)]
    runtime = [name for name in needed if name.startswith(("GLIBCXX_", "CXXABI_"))]
    return Demands(tuple(libraries), max(glibc, default=(0,)), tuple(sorted(runtime)))


def newer_symbols(path):
    """Symbols of a glibc that is newer than GLIBC_MAX, as readelf names them."""
    listed = ask(["readelf", "--dyn-syms", "--wide", path])
    for name, version in re.findall(r" UND (\S+)@GLIBC_([\d.]+)", listed):
        if tuple(map(int, version.split("."))) > GLIBC_MAX:
            yield f"{name}@GLIBC_{version}"


def check(path, beside=()):
    """The demands of a file that may need glibc 2.34, libraries `beside` it, and nothing else."""
    found = demands(path)
    name = pathlib.Path(path).name
    foreign = [library for library in found.libraries
               if not GLIBC_LIBRARIES.fullmatch(library) and library not in beside]
    if foreign:
        raise ReleaseError(f"{name} needs {', '.join(foreign)}; it should need glibc alone: link "
                           "it with COPPICE_STATIC, and an archive of each")
    if found.glibc > GLIBC_MAX:
        raise ReleaseError(f"{name} needs glibc {'.'.join(map(str, found.glibc))}, for "
                           f"{', '.join(newer_symbols(path))}; 2.34 is the newest allowed")
    if found.runtime:
        raise ReleaseError(f"{name} needs {', '.join(found.runtime)} of the C++ runtime, which "
                           "should be in it: -static-libstdc++")
    return found
