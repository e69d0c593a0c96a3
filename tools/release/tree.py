"""What a release is made of: the version, and the files that git tracks."""

import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


class ReleaseError(Exception):
    """A release cannot be made, or is not what it should be; the message says why."""


def version(root=ROOT):
    """That of CMake's project(); it is nowhere else by hand that tools/tidy.py does not compare."""
    found = re.search(r"^project\(coppice VERSION ([\d.]+)", (root / "CMakeLists.txt").read_text(),
                      re.MULTILINE)
    if not found:
        raise ReleaseError("CMakeLists.txt: no line project(coppice VERSION ...); add it")
    return found[1]


def tracked(root=ROOT):
    """Paths of all files that git tracks."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True,
                            check=False)
    if listed.returncode != 0:
        raise ReleaseError(f"{root}: git lists no files: {listed.stderr.decode().strip()}; "
                           "make releases in a clone")
    return {path for path in listed.stdout.decode().split("\0") if path}


def copy(folder, root=ROOT):
    """Copies all tracked files into a folder, and nothing that lies beside them."""
    for path in tracked(root):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, target)


def changed(root=ROOT):
    """Lines of `git status`: what differs from the commit that is checked out."""
    status = subprocess.run(["git", "-C", str(root), "status", "--porcelain"], capture_output=True,
                            text=True, check=True)
    return status.stdout.splitlines()


def listed_in_pyproject(key, root=ROOT):
    """An array of strings in pyproject.toml. Python 3.10 has no reader of TOML."""
    text = (root / "pyproject.toml").read_text()
    found = re.search(rf"^{re.escape(key)} = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise ReleaseError(f"pyproject.toml: no array {key}; add it")
    return re.findall(r'"([^"]*)"', found[1])


def in_sdist(root=ROOT):
    """Of the tracked files, those that an sdist has; it has PKG-INFO besides."""
    included = [name.removeprefix("/") for name in listed_in_pyproject("sdist.include", root)]
    return {path for path in tracked(root)
            if any(path == name or path.startswith(name + "/") for name in included)}


def in_wheel(root=ROOT):
    """Of the tracked files, those that a wheel has, by their path in it."""
    prefix = "python/"
    return {path[len(prefix):] for path in tracked(root) if path.startswith("python/coppice/")}
