"""What is held of the files that a release consists of. Each returns a line of the table."""

import dataclasses
import pathlib
import re
import shutil
import tarfile
import tempfile
import zipfile

import binaries
import tree
from run import ask, run
from tree import ReleaseError

WHEEL_BYTES_MAX = 12 << 20
NAMES_SHOWN = 8
# Of a wheel, what the build makes; `*` is a suffix that Python chose.
BUILT = {"coppice/_core*.so", "coppice/_core.pyi", "coppice/py.typed", "coppice/libcoppice.so.0",
         "coppice/third_party_licences.txt"}
MANYLINUX = re.compile(r'"(manylinux_\d+_\d+_x86_64)"')


@dataclasses.dataclass(frozen=True)
class Line:
    name: str
    size: int
    tag: str
    glibc: str
    needs: str


def of(path, tag, found=()):
    """A line of the table, of a file and the demands of what is in it."""
    glibc = max((each.glibc for each in found), default=None)
    needs = sorted({library.split(".so")[0] for each in found for library in each.libraries
                    if binaries.GLIBC_LIBRARIES.fullmatch(library)})
    return Line(path.name, path.stat().st_size, tag,
                ".".join(map(str, glibc)) if glibc else "-", " ".join(needs) or "-")


def differences(wanted, found, what):
    told = [f"{word} {len(names)}: {', '.join(sorted(names)[:NAMES_SHOWN])}"
            for word, names in (("missing", wanted - found), ("too much", found - wanted)) if names]
    if told:
        raise ReleaseError(f"{what}: {'; '.join(told)}")


def sdist(path, version):
    """An sdist has the tracked files that it should have, and CMake finds all that it builds."""
    prefix = f"coppice-{version}"
    if path.name != f"{prefix}.tar.gz":
        raise ReleaseError(f"{path.name} should be {prefix}.tar.gz")
    with tempfile.TemporaryDirectory(prefix="coppice.") as work:
        with tarfile.open(path) as tar:
            names = {name[len(prefix) + 1:] for name in
                     (member.name for member in tar if not member.isdir())}
            differences(tree.in_sdist() | {"PKG-INFO"}, names, path.name)
            tar.extractall(work, filter="data")
        source, build = pathlib.Path(work, prefix), pathlib.Path(work, "build")
        run(["cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCOPPICE_BUILD_TESTS=OFF"],
            pathlib.Path(work, "configure.log"))
        # Ninja names a source that nothing makes.
        run(["ninja", "-C", build, "-n", "coppice_installed"], pathlib.Path(work, "plan.log"))
    return of(path, "source")


def in_wheel(path):
    """Names of the files of a wheel but its metadata, with `*` in place of what Python chose."""
    with zipfile.ZipFile(path) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    return {re.sub(r"(/_core).*\.so$", r"\1*.so", name) for name in names}


def check_wheel(path, version, auditwheel):
    """Its version, size and platform; returns that."""
    if path.name.split("-")[1] != version:
        raise ReleaseError(f"{path.name}: should be of coppice {version}")
    if path.stat().st_size > WHEEL_BYTES_MAX:
        raise ReleaseError(f"{path.name}: {path.stat().st_size:,} bytes are more than "
                           f"{WHEEL_BYTES_MAX:,}")
    tag = platform(path, auditwheel)
    if not path.stem.endswith(tag):
        raise ReleaseError(f"{path.name}: auditwheel finds {tag}, which should be in its name")
    return tag


def wheel(path, version, auditwheel):
    """A wheel of the package is small, for manylinux_2_34 or older, and needs glibc alone."""
    tag = check_wheel(path, version, auditwheel)
    differences(tree.in_wheel() | BUILT, in_wheel(path), path.name)
    with tempfile.TemporaryDirectory(prefix="coppice.") as work, zipfile.ZipFile(path) as archive:
        archive.extractall(work)
        folder = pathlib.Path(work, "coppice")
        extension, = folder.glob("_core*.so")
        found = [binaries.check(extension, {"libcoppice.so.0"}),
                 binaries.check(folder / "libcoppice.so.0")]
    return of(path, tag, found)


def command_wheel(path, version, auditwheel):
    """So is that of the command, which is of the same version."""
    tag = check_wheel(path, version, auditwheel)
    differences({"coppice/coppice"}, in_wheel(path), path.name)
    with tempfile.TemporaryDirectory(prefix="coppice.") as work, zipfile.ZipFile(path) as archive:
        command = pathlib.Path(archive.extract("coppice/coppice", work))
        command.chmod(0o755)
        found = binaries.check(command)
        told = ask([command, "--version"]).strip()
    if version not in told:
        raise ReleaseError(f"{path.name}: its command says {told!r}, not {version}")
    return of(path, tag, [found])


def platform(path, auditwheel):
    """The oldest manylinux that auditwheel finds a wheel to be for."""
    found = MANYLINUX.search(re.sub(r"\s+", " ", ask([auditwheel, "show", path])))
    if not found:
        raise ReleaseError(f"{path.name}: auditwheel finds no manylinux that it is for:\n"
                           + ask([auditwheel, "show", path]))
    release = tuple(map(int, found[1].split("_")[1:3]))
    if release > binaries.GLIBC_MAX:
        raise ReleaseError(f"{path.name}: auditwheel finds {found[1]}; manylinux_2_34 is the "
                           "newest allowed")
    return found[1]


def install_tree(path, version):
    """What an archive unpacks to serves C by pkg-config and C++ by CMake."""
    with tempfile.TemporaryDirectory(prefix="coppice.") as work:
        with tarfile.open(path) as tar:
            tar.extractall(work, filter="data")
        prefix, = pathlib.Path(work).iterdir()
        found = [binaries.check(prefix / "bin" / "coppice"),
                 binaries.check((prefix / "lib" / "libcoppice.so.0").resolve())]
        serves_c(prefix, version)
        serves_cpp(prefix, pathlib.Path(work))
    return of(path, "C, C++", found)


def serves_c(prefix, version):
    pkg_config = ["env", f"PKG_CONFIG_PATH={prefix}/lib/pkgconfig", "pkg-config"]
    told = ask([*pkg_config, "--modversion", "coppice"]).strip()
    if told != version:
        raise ReleaseError(f"coppice.pc says version {told}, and should say {version}")
    samples = prefix / "share" / "coppice" / "samples"
    program = prefix / "load_package"
    flags = ask([*pkg_config, "--cflags", "--libs", "coppice"]).split()
    ask(["cc", "-std=c11", samples / "load_package.c", "-o", program, *flags])
    told = ask(["env", f"LD_LIBRARY_PATH={prefix}/lib", program, samples / "triton_kernels.zip"])
    if "graphs for 5 calls" not in told:
        raise ReleaseError(f"the sample in C prints {told!r}")


def serves_cpp(prefix, work):
    samples, build = prefix / "share" / "coppice" / "samples", work / "build"
    run(["cmake", "-G", "Ninja", "-S", samples, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}"],
        work / "configure.log")
    run(["ninja", "-C", build, "hello_graph"], work / "build.log")
    if "replay" not in ask([build / "hello_graph"]):
        raise ReleaseError("the sample in C++ replays nothing")


def debian(path, version):
    told = ask(["dpkg-deb", "--field", path, "Version"]).strip()
    if told != version:
        raise ReleaseError(f"{path.name}: version {told}, and should be {version}")
    return of(path, "C, C++")


def table(lines):
    """Lines as one table of text."""
    rows = [("file", "MB", "for", "glibc", "needs")]
    rows += [(line.name, f"{line.size / 1e6:.2f}", line.tag, line.glibc, line.needs)
             for line in lines]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                     for row in rows)


def copy(path, folder):
    folder.mkdir(parents=True, exist_ok=True)
    return pathlib.Path(shutil.copy(path, folder))
