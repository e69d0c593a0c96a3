"""Runs what pages and samples show by a wheel, where nothing of its build is."""

import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

import pythons
from run import ask, run
from tree import ROOT, ReleaseError

sys.path.insert(0, str(ROOT / "tests" / "support"))
import pages  # noqa: E402

INSTALL_S_MAX = 10
MIRROR = "http://deb.debian.org/debian"
SAMPLE = ROOT / "samples" / "python" / "load_package.py"
PACKAGE = ROOT / "samples" / "triton_kernels.zip"
SHARING_TEST = ROOT / "python" / "tests" / "core_sharing_test.py"
SAMPLE_ENDS = "2 graphs for 5 calls\n"


def fits(wheel):
    """A function of (major, minor): whether that Python takes the wheel."""
    found = re.fullmatch(r"cp3(\d+)-(abi3|cp3\d+)", "-".join(wheel.stem.split("-")[2:4]))
    if not found:
        raise ReleaseError(f"{wheel.name}: should be a wheel of coppice, for CPython")
    built_for = (3, int(found[1]))
    return (lambda release: release >= built_for) if found[2] == "abi3" else \
        (lambda release: release == built_for)


def command_beside(wheel):
    """The wheel of the command of the same release, if it lies beside, as a list."""
    name = f"coppice_command-{wheel.name.split('-')[1]}-py3-none-{wheel.stem.split('-')[-1]}.whl"
    return [path for path in [wheel.with_name(name)] if path.is_file()]


def install(pip, wheels, *options):
    """Installs wheels; returns how long that took."""
    start = time.monotonic()
    ask([*pip, "install", "--quiet", "--no-index", "--no-deps", *options, *wheels])
    took_s = time.monotonic() - start
    if took_s > INSTALL_S_MAX:
        raise ReleaseError(f"{wheels[0]}: pip takes {took_s:.1f} s, and {INSTALL_S_MAX} is the "
                           "most")
    return took_s


def judge(printed, expected, what):
    if not printed.endswith(expected):
        raise ReleaseError(f"{what} prints:\n{printed}and should end with:\n{expected}")


def in_environment(wheel, release, python, work):
    """The sample in a new virtual environment of a Python, with NumPy alone."""
    environment = work / f"environment-{pythons.tag(release)}"
    ask([python, "-m", "venv", environment])
    pip = [environment / "bin" / "pip"]
    command = command_beside(wheel)
    took_s = install(pip, [wheel, *command])
    ask([*pip, "install", "--quiet", "numpy"])
    if command:
        ask([environment / "bin" / "coppice", "info", "--device", "host"])
    judge(ask([environment / "bin" / "python", "-I", SAMPLE, PACKAGE], cwd=work), SAMPLE_ENDS,
          SAMPLE.name)
    # How a library is linked decides whether threads that Python ends take the process with them.
    ask([environment / "bin" / "python", "-B", SHARING_TEST, "ExitTest"], cwd=work)
    return f"Python {release[0]}.{release[1]}, NumPy: ok, installed in {took_s:.1f} s"


def with_torch(wheel, python, work):
    """README's program by a Python that has PyTorch, which gets the wheel for this run alone."""
    folder = work / "package"
    took_s = install([python, "-m", "pip"], [wheel], "--target", folder)
    block, = pages.blocks(ROOT / "README.md", "python")
    program = work / "readme.py"
    program.write_text(block.code)
    judge(ask([python, "-B", program], cwd=work, env={**os.environ, "PYTHONPATH": str(folder)}),
          block.shown, "README.md's program")
    return f"{python}, README's program: ok, installed in {took_s:.1f} s"


def make_root(suite, root, work):
    program = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if not program:
        raise ReleaseError("debootstrap is not here, to make another Debian; install it")
    if os.geteuid() != 0:
        raise ReleaseError("debootstrap and chroot need root")
    run([program, "--variant=minbase", "--include=python3-venv", suite, root, MIRROR],
        work / "debootstrap.log")


def in_root(wheel, root):
    """The sample in another system's root. pip has no network there: NumPy is fetched outside."""
    inside = pathlib.Path("/tmp/coppice")
    outside = root / inside.relative_to("/")
    shutil.rmtree(outside, ignore_errors=True)
    outside.mkdir(parents=True)
    try:
        command = command_beside(wheel)
        for path in (wheel, *command, SAMPLE, PACKAGE):
            shutil.copy(path, outside)
        enter = ["chroot", root]
        told = ask([*enter, "python3", "-c", "import sys; print(*sys.version_info[:2])"]).split()
        release = ".".join(told)
        if not fits(wheel)(tuple(map(int, told))):
            raise ReleaseError(f"{wheel.name} is not for the Python {release} of {root}")
        ask([sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--no-deps",
             "--python-version", release, "--platform", "manylinux_2_28_x86_64",
             "--platform", "manylinux_2_17_x86_64", "--dest", outside, "numpy"])
        ask([*enter, "python3", "-m", "venv", inside / "environment"])
        pip = [*enter, inside / "environment" / "bin" / "pip"]
        took_s = install(pip, [inside / path.name for path in (wheel, *command)])
        if command:
            ask([*enter, inside / "environment" / "bin" / "coppice", "info", "--device", "host"])
        ask([*pip, "install", "--quiet", "--no-index", "--find-links", inside, "numpy"])
        judge(ask([*enter, inside / "environment" / "bin" / "python", inside / SAMPLE.name,
                   inside / PACKAGE.name]), SAMPLE_ENDS, SAMPLE.name)
    finally:
        shutil.rmtree(outside, ignore_errors=True)
    system = re.search(r'^PRETTY_NAME="(.*)"', (root / "etc/os-release").read_text(), re.MULTILINE)
    return (f"{system[1] if system else root}, Python {release}, NumPy: ok, installed in "
            f"{took_s:.1f} s")


def check(wheel, paths=None, torch=None, suite=None, root=None):
    """Yields a line per place where the wheel ran."""
    takes = fits(wheel)
    found = {release: path for release, path in pythons.find(paths).items() if takes(release)}
    if not found:
        raise ReleaseError(f"{wheel.name}: no Python here takes it; give one by --python")
    with tempfile.TemporaryDirectory(prefix="coppice.") as folder:
        work = pathlib.Path(folder)
        for release in sorted(found):
            yield in_environment(wheel, release, found[release], work)
        if torch:
            yield with_torch(wheel, torch, work)
        if suite:
            root = work / "root"
            make_root(suite, root, work)
        if root:
            yield in_root(wheel, root)
