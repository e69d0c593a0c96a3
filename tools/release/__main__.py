"""Builds what a release of coppice consists of, and checks it.

  release.sh OUT               builds an sdist, wheels and install trees into the folder OUT
  release.sh --check WHEEL     installs a wheel where nothing of its build is, and runs examples

OUT gets

  coppice-V.tar.gz                     the sdist
  coppice-V-cp312-abi3-*.whl           the package, for Python 3.12 or later
  coppice-V-cp310-cp310-*.whl, ...     the same for each older Python that is here
  coppice_command-V-py3-none-*.whl     the command, which is larger than the rest
  coppice-V-linux-x86_64.tar.gz        C, C++ and the command; a .deb where dpkg is

All of it is built once, in --build-dir, with device code for --architectures where nvcc is. It runs
with glibc 2.34 or later and needs no other library. Each file is checked, and a table says what it
asks of a machine. Building takes 25 minutes of two processors, and a network for sources of static
archives and for what requirements.txt pins.

--check uses each Python here that takes the wheel, or those of --python; README's program runs by
--torch, a Python that has PyTorch; and in another Debian by --debian SUITE, which takes debootstrap
and root, or --root DIR, a root that is there.

Exit codes: 0 all is made, and as it should be; 1 it is not, and why is said; 2 wrong arguments.
"""

import argparse
import json
import pathlib
import shutil
import sys

import archives
import checks
import pythons
import tree
import trial
import wheels
from run import ask, run
from tree import ROOT, ReleaseError

ARCHITECTURES = "80;90;100;120"


def say(text):
    print(f"release: {text}", flush=True)


def check_tree(allowed):
    changed = tree.changed()
    if changed and not allowed:
        raise ReleaseError("the tree differs from its commit; commit, or give --dirty:\n"
                           + "\n".join(changed))


def build_library(options, work, notices):
    """Builds and installs all but the extension; returns the prefix, and what CPack made."""
    build, prefix, packed = options.build_dir, work / "prefix", work / "packed"
    for stale in (prefix, packed):
        shutil.rmtree(stale, ignore_errors=True)
    # Where there is no nvcc, CMake finds none and leaves device code out.
    run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG", "-DCOPPICE_BUILD_TESTS=OFF",
         "-DCOPPICE_BUILD_TOOLS=ON", "-DCOPPICE_INSTALL=ON", "-DCOPPICE_PYTHON=OFF",
         "-DCOPPICE_STATIC=ON", f"-DCOPPICE_STATIC_ARCHIVES={work / 'archives'}",
         f"-DCOPPICE_NOTICES={notices}", "-DCOPPICE_DEVICE_CODE=ON",
         f"-DCOPPICE_CUDA_ARCHITECTURE={options.architectures}"], work / "configure.log")
    run(["cmake", "--build", build, "--target", "coppice_installed"], work / "build.log")
    run(["cmake", "--install", build, "--prefix", prefix], work / "install.log")
    run(["cpack", "--config", build / "CPackConfig.cmake", "-B", packed], work / "cpack.log")
    return prefix, packed


def environments(options, work):
    """{release: its environment} of the Pythons that build wheels."""
    found = pythons.find(options.python)
    releases = pythons.that_build(found)
    if not releases or releases[-1] < pythons.STABLE:
        raise ReleaseError("no CPython 3.12 or later is here, with venv and its headers, for the "
                           "wheel of the stable ABI; give one by --python")
    say("wheels for " + ", ".join(pythons.tag(release) for release in releases))
    return {release: pythons.make_environment(found[release], work / pythons.tag(release),
                                              work / "pip.log")
            for release in releases}


def build_all(options):
    """Builds into OUT; returns the lines of the table."""
    check_tree(options.dirty)
    version, out = tree.version(), options.out
    work = options.build_dir / "release"
    work.mkdir(parents=True, exist_ok=True)
    built_in = environments(options, work)
    last = built_in[max(built_in)]
    auditwheel = last / "bin" / "auditwheel"
    out.mkdir(parents=True, exist_ok=True)

    say("the sdist")
    lines = [checks.sdist(wheels.sdist(last, work, out), version)]
    say("static archives")
    archives.make(work / "archives", work / "sources")
    notices = work / "third_party_licences.txt"
    archives.write_notices(notices, last)
    say(f"coppice {version}, into {options.build_dir}")
    prefix, packed = build_library(options, work, notices)
    has_device_code = json.loads(ask([prefix / "bin" / "coppice", "info", "--device", "host",
                                      "--json"]))["device_code"]
    say(f"device code for SM {options.architectures}" if has_device_code else
        "without device code, because nvcc is not here")
    archive, = packed.glob("*.tar.gz")
    lines.append(checks.install_tree(checks.copy(archive, out), version))
    lines += [checks.debian(checks.copy(path, out), version) for path in packed.glob("*.deb")]
    say("the command's wheel")
    command = wheels.of_command(last, prefix, notices, work / "command", out)
    lines.append(checks.command_wheel(command, version, auditwheel))
    for release, environment in built_in.items():
        say(f"the wheel for {pythons.tag(release)}")
        wheel = wheels.of_package(environment, prefix, notices,
                                  work / f"build-{pythons.tag(release)}", out)
        lines.append(checks.wheel(wheel, version, auditwheel))
    return lines


def parse(arguments):
    parser = argparse.ArgumentParser(prog="release.sh", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", nargs="?", type=pathlib.Path)
    parser.add_argument("--check", metavar="WHEEL", type=pathlib.Path)
    parser.add_argument("--python", metavar="PATH", action="append", type=pathlib.Path,
                        help="a Python to use, in place of those found; several are given so")
    parser.add_argument("--build-dir", metavar="DIR", type=pathlib.Path,
                        default=ROOT / "build" / "packages", help="build/packages unless given")
    parser.add_argument("--architectures", default=ARCHITECTURES,
                        help=f"SM versions of device code; {ARCHITECTURES} unless given")
    parser.add_argument("--dirty", action="store_true",
                        help="build from files that differ from the commit, to try")
    parser.add_argument("--torch", metavar="PYTHON", type=pathlib.Path, help="with --check")
    parser.add_argument("--debian", metavar="SUITE", help="with --check, as trixie")
    parser.add_argument("--root", metavar="DIR", type=pathlib.Path, help="with --check")
    options = parser.parse_args(arguments)
    if (options.out is None) == (options.check is None):
        parser.error("give either OUT or --check WHEEL")
    if options.out and (options.torch or options.debian or options.root):
        parser.error("--torch, --debian and --root go with --check WHEEL")
    if options.check and not (options.check.match("coppice-*.whl") and options.check.is_file()):
        parser.error(f"--check {options.check}: give a wheel of coppice")
    if options.out and options.out.exists() and (not options.out.is_dir()
                                                 or any(options.out.iterdir())):
        parser.error(f"{options.out} is not an empty folder; remove it, or name another")
    if options.debian and options.root:
        parser.error("--debian makes a root; give that or --root")
    return options


def main(arguments):
    options = parse(arguments)
    options.build_dir = options.build_dir.resolve()
    try:
        if options.out:
            options.out = options.out.resolve()
            print(checks.table(build_all(options)))
        else:
            for line in trial.check(options.check.resolve(), options.python, options.torch,
                                    options.debian, options.root):
                say(line)
        return 0
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
