"""Kernel packages as folders, for tests: written from runtime/package/FORMAT.md alone."""

import hashlib
import json
import pathlib

HEADER = """
.version 7.0
.target sm_80
.address_size 64
"""

# Each kernel has 128 threads a block, thread i of the grid for element i below `count`.
ENTRY = """
.visible .entry %s(.param .u64 x, .param .u64 y, .param .u32 count, .param .f32 factor)
{
  .reg .pred %%p<3>;
  .reg .b32 %%r<8>;
  .reg .f32 %%f<8>;
  .reg .b64 %%rd<8>;
  mov.u32 %%r1, %%ctaid.x;
  mov.u32 %%r2, %%tid.x;
  mad.lo.u32 %%r3, %%r1, 128, %%r2;
  ld.param.u32 %%r4, [count];
  setp.ge.u32 %%p1, %%r3, %%r4;
  @%%p1 ret;
  ld.param.u64 %%rd1, [x];
  ld.param.u64 %%rd2, [y];
  ld.param.f32 %%f1, [factor];
  mul.wide.u32 %%rd3, %%r3, 4;
  add.u64 %%rd4, %%rd1, %%rd3;
  add.u64 %%rd5, %%rd2, %%rd3;
  ld.global.f32 %%f2, [%%rd4];
%s  st.global.f32 [%%rd5], %%f3;
  ret;
}
"""
SCALE = "  mul.rn.f32 %f3, %f1, %f2;\n"  # y[i] = factor * x[i]
# y[i] = x[i] + factor * (x[0] + ... + x[count - 1]), in that order.
TOTAL = """  mov.f32 %f4, 0f00000000;
  mov.u32 %r5, 0;
LOOP:
  mul.wide.u32 %rd6, %r5, 4;
  add.u64 %rd7, %rd1, %rd6;
  ld.global.f32 %f5, [%rd7];
  fma.rn.f32 %f4, %f5, %f1, %f4;
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p2, %r5, %r4;
  @%p2 bra LOOP;
  add.rn.f32 %f3, %f2, %f4;
"""
# y[i] = x[i] + factor * count
SHIFT = """  cvt.rn.f32.u32 %f4, %r4;
  fma.rn.f32 %f3, %f4, %f1, %f2;
"""
# y[i] = x[i + 1000000], which is not there.
ASTRAY = """  ld.global.f32 %f3, [%rd4 + 4000000];
"""
PTX = HEADER + "".join(ENTRY % (name, body) for name, body in (
    ("Scale", SCALE), ("Total", TOTAL), ("Shift", SHIFT), ("Astray", ASTRAY)))


def kernel_step(kernel, x, y, factor, count="n"):
    return {"op": "kernel", "kernel": kernel, "grid": [f"ceildiv({count}, BLOCK)", 1, 1],
            "args": [{"buffer": x, "access": "r"}, {"buffer": y, "access": "w"},
                     {"i32": count}, {"f32": factor}]}


def symbol(**more):
    return {"min": 1, "max": 1024, "buckets": "pow2",
            "claim": {"padding": "any", "equal": "bits"}, **more}


def array(role, shape=("n",), dtype="f32", **more):
    return {"role": role, "dtype": dtype, "shape": list(shape), **more}


def program(steps, buffers=None, **more):
    """x -> y over n elements."""
    return {"symbols": {"n": symbol()}, "inputs": ["x"], "outputs": ["y"],
            "buffers": {"x": array("input"), "y": array("output"), **(buffers or {})},
            "steps": steps, **more}


def manifest(programs, constants=None, entry="main"):
    kernels = {name: {"parameters": [8, 8, 4, 4],
                      "targets": [{"module": "all", "symbol": name, "block": [128, 1, 1],
                                   "values": {"BLOCK": 128}}]}
               for name in ("Scale", "Total", "Shift", "Astray")}
    return {"schema": "coppice.kernel_package", "schema_version": [1, 0],
            "producer": {"name": "test", "version": "0"}, "entry": entry,
            "modules": {"all": {"file": "bin/all.ptx", "format": "ptx", "arch": "sm_80"}},
            "kernels": kernels, "constants": constants or {}, "programs": programs}


def write(folder, described, files=None):
    """Writes the package, with digests, and returns its path."""
    folder = pathlib.Path(folder)
    contents = {"bin/all.ptx": PTX.encode(), **(files or {})}
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    described = {**described, "integrity": {"manifest_sha256": None},
                 "files": {name: {"bytes": len(content),
                                  "sha256": hashlib.sha256(content).hexdigest()}
                           for name, content in contents.items()}}
    described["integrity"]["manifest_sha256"] = hashlib.sha256(dump(described)).hexdigest()
    (folder / "manifest.json").write_bytes(dump(described))
    return str(folder)


def dump(described):
    return json.dumps(described, sort_keys=True, separators=(",", ":")).encode()


def safetensors(tensors):
    """A safetensors file of f32 arrays by name."""
    header, data = {}, b""
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape),
                        "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data
