#!/usr/bin/env python3
"""Writes the fixtures that other people's writers make: a package as Python's zipfile and json
write it, and a safetensors file as PyPI's safetensors does. Needs safetensors and NumPy; run it by
hand and commit what it writes.

    make_fixtures.py
"""

import hashlib
import json
import pathlib
import zipfile

import numpy
import safetensors.numpy

HERE = pathlib.Path(__file__).resolve().parent / "fixtures"


def canonical(manifest):
    return json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()


def seal(manifest):
    manifest["integrity"] = {"manifest_sha256": None}
    digest = hashlib.sha256(canonical(manifest)).hexdigest()
    manifest["integrity"]["manifest_sha256"] = digest
    return canonical(manifest)


def write_zip(path, files):
    with open(path, "wb") as out, zipfile.ZipFile(out, "w") as archive:
        for name, data in files:
            info = zipfile.ZipInfo(name)
            info.create_system = 3
            info.external_attr = 0o600 << 16
            zeros = -(out.tell() + 30 + len(name) + 4) % 4096
            info.extra = b"\x35\xd9" + zeros.to_bytes(2, "little") + bytes(zeros)
            archive.writestr(info, data)


def write_package():
    weights = safetensors.numpy.save({"w": numpy.arange(6, dtype=numpy.float32).reshape(2, 3)})
    files = {"bin/empty.ptx": b"// Nothing.\n", "data/w.safetensors": weights}
    manifest = {
        "schema": "coppice.kernel_package",
        "schema_version": [1, 0],
        "producer": {"name": "Python \u00e9\U0001f600 \x7f \"\\/\b\f\n\r\t\x01", "version": "3"},
        "entry": "main",
        "files": {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files.items()
        },
        "modules": {"empty": {"file": "bin/empty.ptx", "format": "ptx", "arch": "sm_80"}},
        "kernels": {},
        "constants": {
            "w": {
                "dtype": "f32",
                "shape": [2, 3],
                "data": {"file": "data/w.safetensors", "tensor": "w"},
            }
        },
        "programs": {
            "main": {"symbols": {}, "inputs": [], "outputs": [], "buffers": {}, "steps": []}
        },
    }
    write_zip(HERE / "python.zip", [("manifest.json", seal(manifest)), *sorted(files.items())])


def write_tensors():
    """A tensor of each dtype that NumPy has, with values that tell order and width apart."""
    tensors = {}
    for name in ("float16", "float32", "float64", "complex64", "bool", "int8", "int16", "int32",
                 "int64", "uint8", "uint16", "uint32", "uint64"):
        tensors[name] = numpy.array([[0, 1], [1, 0], [1, 1]]).astype(name)
    tensors["scalar"] = numpy.array(7, dtype=numpy.int32)
    tensors["empty"] = numpy.zeros((0, 4), dtype=numpy.float32)
    tensors["\u00e9 \"quoted\""] = numpy.array([1, 2, 3], dtype=numpy.uint8)
    safetensors.numpy.save_file(tensors, HERE / "tensors.safetensors", metadata={"made": "by hand"})


if __name__ == "__main__":
    write_package()
    write_tensors()
