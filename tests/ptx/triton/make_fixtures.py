#!/usr/bin/env python3
"""Compiles kernels.py to PTX for the launches in cases.py, without a GPU.

    make_fixtures.py [NAME...]     all, or those named; writes tests/ptx/fixtures/triton.tar.xz:
                                   NAME.ptx and, for all of them, launches.json

They are what serving code brings and no other test of the executor has: pipelines of copies that
are waited for, products of tensor cores, locks between blocks, asserts with their source line.
Needs Triton (`pip install triton numpy`; neither PyTorch nor a driver). What it writes is checked
in, so that tests need none of it, and holds no path of the machine that wrote it.
"""

import hashlib
import importlib.util
import json
import linecache
import os
import pathlib
import re
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent))

import archive
import cases

FIXTURES = HERE.parent / "fixtures" / "triton.tar.xz"
NAMES = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", "e4m3": "fp8e4nv",
         "e5m2": "fp8e5", "s8": "i8", "u8": "u8", "s32": "i32", "s64": "i64"}
SOURCES = ("kernels.py", "cases.py")


def load_kernels():
    """The module, known by its file name alone: the compiler writes it into debug sections."""
    os.chdir(HERE)
    text = (HERE / "kernels.py").read_text()
    linecache.cache["kernels.py"] = (len(text), None, text.splitlines(True), "kernels.py")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("kernels", None))
    module.__file__ = "kernels.py"
    sys.modules["kernels"] = module
    exec(compile(text, "kernels.py", "exec"), module.__dict__)
    return module


def compile_case(module, case):
    function = getattr(module, case["kernel"])
    signature, divisible = {}, {}
    for position, parameter in enumerate(case["parameters"]):
        kind = NAMES[parameter["type"]]
        pointer = parameter["kind"] != "scalar"
        signature[parameter["name"]] = "*" + kind if pointer else kind
        # As at a launch: allocations are aligned, and sizes are looked at.
        if pointer or (kind == "i32" and parameter["value"] % 16 == 0):
            divisible[(position,)] = [["tt.divisibility", 16]]
    constants = {name: getattr(tl, value[3:]) if str(value).startswith("tl.") else value
                 for name, value in case["constants"].items()}
    # Parameters come in the kernel's order, which need not be that of cases.py.
    order = {name: signature.get(name, "constexpr") for name in function.arg_names}
    assert list(signature) == [name for name in order if name in signature], case["name"]
    source = ASTSource(fn=function, signature=order, constexprs=constants, attrs=divisible)
    options = {"num_warps": case["warps"], "num_stages": case["stages"], "debug": case["debug"]}
    return triton.compile(source, target=GPUTarget("cuda", case["arch"], 32), options=options)


def without_paths(ptx):
    """`.file` with the name alone; what else names a folder is an error."""
    ptx = re.sub(r'(\.file\s+\d+ )"(?:[^"]*/)?([^"/]+)"', r'\1"\2"', ptx)
    letters = "".join(chr(int(byte)) for byte in re.findall(r"^\.b8 (\d+)", ptx, re.MULTILINE))
    for text in (ptx, letters):
        for folder in (str(HERE), os.path.dirname(triton.__file__)):
            assert folder not in text, f"the PTX names {folder}"
    return "\n".join(line.rstrip() for line in ptx.splitlines()) + "\n"


def launch_of(case, compiled):
    """What one has to know to launch a fixture."""
    metadata = compiled.metadata
    scratch = [{"name": name, "kind": "null", "type": "u64", "bytes": size} for name, size in
               (("global_scratch", metadata.global_scratch_size),
                ("profile_scratch", metadata.profile_scratch_size))]
    assert not any(parameter["bytes"] for parameter in scratch), case["name"]
    return {"name": case["name"], "file": case["name"] + ".ptx", "entry": metadata.name,
            "kernel": case["kernel"], "target": f"sm_{case['arch']}", "grid": case["grid"],
            "block": [32 * metadata.num_warps, 1, 1], "shared_bytes": metadata.shared,
            "num_warps": metadata.num_warps, "num_stages": case["stages"],
            "constants": case["constants"], "parameters": case["parameters"] + scratch}


def main(names):
    module = load_kernels()
    texts = archive.read(FIXTURES) if names else {}
    launches = []
    for case in cases.cases():
        if names and case["name"] not in names:
            continue
        compiled = compile_case(module, case)
        ptx = without_paths(compiled.asm["ptx"])
        texts[case["name"] + ".ptx"] = ptx
        launches.append(launch_of(case, compiled))
        print(f"{case['name']}: {len(ptx)} bytes, {compiled.metadata.shared} bytes shared")
    if not names:
        sources = {name: hashlib.sha256((HERE / name).read_bytes()).hexdigest() for name in SOURCES}
        head = {"triton": triton.__version__, "sources": sources}
        lines = ",\n".join("    " + json.dumps(launch) for launch in launches)
        texts["launches.json"] = json.dumps(head)[:-1] + ', "launches": [\n' + lines + "\n]}\n"
    archive.write(FIXTURES, texts)


if __name__ == "__main__":
    main(sys.argv[1:])
