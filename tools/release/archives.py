"""Archives of position-independent code, which a library that needs nothing but glibc is made of.

Debian's archives of Abseil are for programs alone, and of fmt it has none. These are of the same
sources, with Debian's changes, so that the headers are those that the build finds anyway: an
archive stands for a shared library when linking, and no source is compiled otherwise than in every
build.
"""

import hashlib
import pathlib
import shutil
import tarfile
import urllib.error
import urllib.request

from run import ask, run
from tree import ReleaseError

POOL = "https://deb.debian.org/debian/pool/main"
# Each as Debian 12 has it. Where that is no longer so, the headers differ, and are said to.
ABSEIL = (f"{POOL}/a/abseil/abseil_20220623.1.orig.tar.gz",
          "abfe2897f3a30edaa74bc34365afe3c2a3cd012091a97dc7e008f7016adcd5fe")
ABSEIL_CHANGES = (f"{POOL}/a/abseil/abseil_20220623.1-1+deb12u2.debian.tar.xz",
                  "e08490fc7b6f3beca1925953b0c4fb92df2de5e2a01295e4641e2a3d4e528eeb")
FMT = (f"{POOL}/f/fmtlib/fmtlib_9.1.0+ds1.orig.tar.gz",
       "84ce1c2d0be3a9863935137969dcec6970125caac032f82474640bfc81463583")
FLAGS = ("-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG",
         "-DCMAKE_CXX_FLAGS=-ffunction-sections -fdata-sections",
         "-DCMAKE_POSITION_INDEPENDENT_CODE=ON")
INCLUDE = pathlib.Path("/usr/include")
DOWNLOAD_S = 120
# What is linked, by the folder of /usr/share/doc that has its licence.
LICENSED = ("libabsl-dev", "libfmt-dev", "libssl-dev", "nlohmann-json3-dev", "libboost-dev",
            "libcli11-dev", "libjs-chart.js", "gcc-12-base")


def download(source, folder):
    """The file of (url, digest) in the folder, downloaded if it is not there."""
    url, digest = source
    path = folder / url.rsplit("/", 1)[1]
    if not path.is_file():
        try:
            with urllib.request.urlopen(url, timeout=DOWNLOAD_S) as answer:
                content = answer.read()
        except (urllib.error.URLError, TimeoutError) as error:
            raise ReleaseError(f"{url}: {error}; give it as {path}") from error
        path.write_bytes(content)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != digest:
        path.unlink()
        raise ReleaseError(f"{url}: its SHA-256 is {found}, and should be {digest}; "
                           "if Debian has a newer one, change tools/release/archives.py")
    return path


def unpack(path, folder):
    """Unpacks a tarball; returns its folder, if all of it is in one."""
    with tarfile.open(path) as tar:
        tar.extractall(folder, filter="data")
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def check_headers(source, headers):
    """The headers that the build finds are those of the source."""
    for path in sorted((source / headers).rglob("*.h")):
        if path.name.startswith("test_") or "internal/test" in str(path):
            continue
        installed = INCLUDE / path.relative_to(source / headers).as_posix()
        if installed.is_file() and installed.read_bytes() != path.read_bytes():
            raise ReleaseError(f"{installed} is not that of {source.name}; make releases on "
                               "Debian 12, and if it has a newer one, change "
                               "tools/release/archives.py")


def make_abseil(work, folder):
    source = unpack(download(ABSEIL, work), work / "abseil")
    with tarfile.open(download(ABSEIL_CHANGES, work)) as tar:
        tar.extractall(source, filter="data")
    patches = source / "debian" / "patches"
    for name in (patches / "series").read_text().split():
        run(["patch", "-p1", "-i", patches / name], work / "patch.log", cwd=source)
    check_headers(source, ".")
    build = work / "abseil-build"
    run(["cmake", "-S", source, "-B", build, "-G", "Ninja", *FLAGS, "-DCMAKE_CXX_STANDARD=17",
         "-DABSL_PROPAGATE_CXX_STD=ON", "-DBUILD_TESTING=OFF"], work / "abseil-configure.log")
    # With all that these ask for.
    run(["ninja", "-C", build, "status", "statusor", "raw_hash_set", "hash", "throw_delegate"],
        work / "abseil-build.log")
    for archive in build.rglob("libabsl_*.a"):
        shutil.copy(archive, folder)


def make_fmt(work, folder):
    source = unpack(download(FMT, work), work / "fmt")
    check_headers(source, "include")
    build = work / "fmt-build"
    run(["cmake", "-S", source, "-B", build, "-G", "Ninja", *FLAGS, "-DCMAKE_CXX_STANDARD=20",
         "-DFMT_DOC=OFF", "-DFMT_TEST=OFF", "-DFMT_INSTALL=OFF"], work / "fmt-configure.log")
    run(["ninja", "-C", build, "fmt"], work / "fmt-build.log")
    shutil.copy(build / "libfmt.a", folder)


def make(folder, work):
    """Fills the folder with archives, if an earlier call has not."""
    mark = folder / "made_of"
    wanted = "\n".join(digest for _, digest in (ABSEIL, ABSEIL_CHANGES, FMT)) + "\n"
    if mark.is_file() and mark.read_text() == wanted:
        return
    for stale in (folder, work / "abseil", work / "fmt", work / "abseil-build", work / "fmt-build"):
        shutil.rmtree(stale, ignore_errors=True)
    folder.mkdir(parents=True)
    work.mkdir(parents=True, exist_ok=True)
    make_abseil(work, folder)
    make_fmt(work, folder)
    mark.write_text(wanted)


def write_notices(path, environment):
    """The licences of all that is linked statically, in one file."""
    parts = []
    for package in LICENSED:
        listed = pathlib.Path("/usr/share/doc", package, "copyright")
        if not listed.is_file():
            raise ReleaseError(f"{listed} is missing; install {package}")
        parts.append((package, listed.read_text(encoding="utf-8")))
    asked = ("import importlib.metadata as m; f = [p for p in m.files('nanobind') "
             "if p.name == 'LICENSE']; print(f[0].read_text())")
    parts.append(("nanobind", ask([environment / "bin" / "python", "-c", asked])))
    text = "".join(f"{'=' * 78}\n{name}\n{'=' * 78}\n\n{licence.strip()}\n\n"
                   for name, licence in parts)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
