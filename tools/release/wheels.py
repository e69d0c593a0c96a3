"""Wheels: of the Python package, one per Python or stable ABI, and of the command."""

import shutil

import checks
import tree
from run import ask, run, with_programs_of
from tree import ROOT, ReleaseError

PLATFORM = "linux_x86_64"


def only_wheel(folder):
    found = sorted(folder.glob("*.whl"))
    if len(found) != 1:
        raise ReleaseError(f"{folder}: {len(found)} wheels, and should be one")
    return found[0]


def name_platform(path, environment, folder):
    """Gives a wheel the platform that auditwheel finds, and puts it into the folder."""
    programs = environment / "bin"
    tag = checks.platform(path, programs / "auditwheel")
    name = ask([programs / "python", "-m", "wheel", "tags", "--remove", "--platform-tag", tag,
                path]).strip().splitlines()[-1]
    return checks.copy(path.with_name(name), folder)


def of_package(environment, prefix, notices, build, folder):
    """Builds the wheel of one Python: its extension, with the library of the install tree."""
    made = build / "wheel"
    shutil.rmtree(made, ignore_errors=True)
    variables = with_programs_of(environment)
    run([environment / "bin" / "pip", "wheel", ROOT, "--no-deps", "--no-build-isolation",
         "--wheel-dir", made, "-C", f"build-dir={build / 'cmake'}",
         "-C", "build.targets=coppice_python_stub", "-C", "cmake.define.COPPICE_STATIC=ON",
         "-C", f"cmake.define.COPPICE_PREBUILT={prefix}",
         "-C", f"cmake.define.COPPICE_NOTICES={notices}"], build / "wheel.log", env=variables)
    return name_platform(only_wheel(made), environment, folder)


def of_command(environment, prefix, notices, work, folder):
    """Packs the command as a wheel of its own, which puts it into the folder of the package."""
    version = tree.version()
    name = f"coppice_command-{version}"
    source, made = work / name, work / "wheel"
    for stale in (source, made):
        shutil.rmtree(stale, ignore_errors=True)
    made.mkdir(parents=True)
    info = source / f"{name}.dist-info"
    checks.copy(prefix / "bin" / "coppice", source / "coppice")
    for licence in (ROOT / "LICENSE", notices):
        checks.copy(licence, info / "licenses")
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\n"
        "Name: coppice-command\n"
        f"Version: {version}\n"
        "Summary: The command of coppice, for the package of the same version\n"
        "License: Apache-2.0\n"
        f"Requires-Dist: coppice =={version}\n")
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\n"
        "Generator: coppice's tools/release\n"
        "Root-Is-Purelib: false\n"
        f"Tag: py3-none-{PLATFORM}\n")
    ask([environment / "bin" / "python", "-m", "wheel", "pack", "--dest-dir", made, source])
    return name_platform(only_wheel(made), environment, folder)


def sdist(environment, work, folder):
    made, source = work / "sdist", work / "source"
    for stale in (made, source):
        shutil.rmtree(stale, ignore_errors=True)
    tree.copy(source)  # A walk of the clone takes minutes where its build folder has environments.
    run([environment / "bin" / "python", "-m", "build", "--sdist", "--no-isolation", "--outdir",
         made, source], work / "sdist.log", env=with_programs_of(environment))
    found, = made.glob("*.tar.gz")
    return checks.copy(found, folder)
