"""Builds, names and writes a kernel package, as runtime/package/FORMAT.md describes it.

Programs, kernels and steps are plain dicts with the fields of that page. This module has the parts
with rules of their own: canonical JSON, digests, names of files, and the two containers. It needs
only Python.
"""

import hashlib
import io
import json
import math
import pathlib
import re
import zipfile

VERSION = "0.1.0"
SCHEMA = "coppice.kernel_package"
SCHEMA_VERSION = [1, 0]
ENTRY_ALIGNMENT = 4096
PADDING_ID = 0xD935
NAME_MAX = 255
EXPRESSION_CHARACTERS_MAX = 8192
EXPRESSION_OPERATIONS_MAX = 1024

# Of every element type: what it is called here, and its bytes.
DTYPE_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1,
    "u64": 8, "u32": 4, "u16": 2, "u8": 1, "bool": 1, "f8e4m3": 1, "f8e5m2": 1,
}


class ExportError(Exception):
    """A program cannot become a package. The message says in one line where, what, and what to
    do."""


def fraction(value):
    """A number that may be a fraction, as text in a manifest: "0.5", "inf", "nan"."""
    return repr(float(value))


def canonical(value):
    """The canonical JSON of a manifest, as bytes. Errors: ExportError for values that canonical
    JSON cannot hold."""
    check_values(value, "")
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def check_values(value, where):
    """Refuses floats, integers beyond 64 bits, and keys that are not text. The error has their JSON
    pointer."""
    if isinstance(value, dict):
        for key, member in value.items():
            if not isinstance(key, str):
                raise ExportError(f"{where or '/'}: the key {key!r} is not a string")
            check_values(member, f"{where}/{key}")
    elif isinstance(value, (list, tuple)):
        for index, member in enumerate(value):
            check_values(member, f"{where}/{index}")
    elif isinstance(value, float):
        raise ExportError(f"{where}: the floating-point number {value} must be a string; write it "
                          "with manifest.fraction")
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ExportError(f"{where}: {value} does not fit into 64 bits")
    elif value is not None and not isinstance(value, (str, int)):
        raise ExportError(f"{where}: {type(value).__name__} is not a JSON value")


def check_name(name):
    """A key that the producer chooses. Errors: ExportError."""
    if not 1 <= len(name) <= NAME_MAX or not all(" " <= letter <= "~" for letter in name):
        raise ExportError(f"the name {name!r} must have 1 to {NAME_MAX} printable ASCII characters")
    return name


def row_major(shape):
    """Strides of a tensor without gaps, in elements. Sizes are plain integers."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return strides


class Package:
    """A package under construction. Its sections are dicts that callers may read and fill:
    `modules`, `kernels`, `constants`, `programs`. add_file adds files, and add_module adds
    images."""

    def __init__(self, producer="coppice.export", version=VERSION, **more):
        self.producer = {"name": producer, "version": version, **more}
        self.entry = None
        self.files = {}  # Their bytes, by name.
        self.modules, self.kernels, self.constants, self.programs = {}, {}, {}, {}

    def add_file(self, folder, ending, data):
        """Adds bytes under a name made from their digest. Equal bytes are stored once. Returns the
        name."""
        name = f"{folder}/{hashlib.sha256(data).hexdigest()[:16]}.{ending}"
        self.files[name] = data
        return name

    def add_module(self, name, data, image_format, arch):
        """Adds an image. Returns the module's name, which is that of an equal image if there is
        one."""
        module = {"file": self.add_file("bin", image_format, data), "format": image_format,
                  "arch": arch}
        for known, other in self.modules.items():
            if other == module:
                return known
        return self._add(self.modules, name, module)

    def add_kernel(self, name, kernel):
        """Adds a kernel. Returns its name: that of an equal kernel if there is one; otherwise the
        given name, followed by a number if another kernel has that name."""
        for known, other in self.kernels.items():
            same = {**other, "source": None} == {**kernel, "source": None}
            if same:
                return known
        return self._add(self.kernels, name, kernel)

    def add_constant(self, name, constant):
        """Declares a constant. Errors: ExportError if a constant of this name has another
        layout."""
        known = self.constants.setdefault(check_name(name), constant)
        for field in ("dtype", "shape", "strides"):
            if known.get(field) != constant.get(field):
                raise ExportError(f"two constants are called {name}, but have different {field}: "
                                  f"{known.get(field)} and {constant.get(field)}")
        return name

    def add_program(self, name, program):
        """Adds a program; the first one is the entry. Errors: ExportError if the name is taken."""
        if name in self.programs:
            raise ExportError(f"two programs are called {name}")
        self.programs[check_name(name)] = program
        self.entry = self.entry or name

    @staticmethod
    def _add(section, name, value):
        check_name(name)
        free, number = name, 1
        while free in section:
            number += 1
            free = f"{name}_{number}"
        section[free] = value
        return free

    def manifest(self):
        """The manifest, with digests. Errors: ExportError."""
        if not self.programs:
            raise ExportError("a package must have at least one program")
        result = {
            "schema": SCHEMA, "schema_version": SCHEMA_VERSION, "producer": self.producer,
            "integrity": {"manifest_sha256": None}, "entry": self.entry,
            "files": {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                      for name, data in self.files.items()},
            "modules": self.modules, "kernels": self.kernels, "constants": self.constants,
            "programs": self.programs,
        }
        digest = hashlib.sha256(canonical(result)).hexdigest()
        return {**result, "integrity": {"manifest_sha256": digest}}

    def contents(self):
        """Every file of the container with its bytes, in the zip's order."""
        return [("manifest.json", canonical(self.manifest()))] + sorted(
            self.files.items(), key=lambda item: item[0].encode())

    def to_bytes(self):
        """The zip, in memory."""
        memory = io.BytesIO()
        write_zip(memory, self.contents())
        return memory.getvalue()

    def write(self, path):
        """Writes a zip if the path ends in .zip; otherwise a folder, which must be new or empty."""
        if str(path).endswith(".zip"):
            write_zip(path, self.contents())
        else:
            write_folder(path, self.contents())


def write_folder(path, contents):
    """Errors: ExportError if the folder has something in it; OSError."""
    root = pathlib.Path(path)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ExportError(f"{path}: it exists and is not an empty folder; give another path")
    for name, data in contents:
        target = root / check_file_name(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def write_zip(path, contents):
    """Writes the canonical zip to a path or a file. Its entries are not compressed, and begin at
    multiples of 4096."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name, data in contents:
            entry = zipfile.ZipInfo(check_file_name(name), (1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o600 << 16
            begin = archive.fp.tell() + 30 + len(name) + 4  # Behind the extra field's own header.
            zeros = -begin % ENTRY_ALIGNMENT
            entry.extra = (PADDING_ID.to_bytes(2, "little") + zeros.to_bytes(2, "little")
                           + bytes(zeros))
            archive.writestr(entry, data)


def check_file_name(name):
    """Errors: ExportError for a name that a container may not have."""
    parts = name.split("/")
    if (len(name) > NAME_MAX or not re.fullmatch(r"[A-Za-z0-9._/-]+", name)
            or any(part in ("", ".", "..") for part in parts)):
        raise ExportError(f"a package cannot have a file called {name!r}")
    return name


def bytes_of(shape, dtype):
    """Bytes of a dense tensor whose sizes are plain integers."""
    return math.prod(shape) * DTYPE_BYTES[dtype]


def walk(value):
    """Every dict in steps or buffers."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for member in value:
            yield from walk(member)
