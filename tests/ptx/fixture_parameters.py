"""What the kernels of fixtures are launched with.

A parameter is an array that is read (`given`), written (`made`) or both (`changed`), or a scalar.
Arrays are drawn as `draw` says: ["normal", scale], ["uniform", low, high], ["integers", low, end],
["distinct", end], ["fill", value], ["nonzero", low, end] (integers but 0). Types are those of the
PTX ISA, and e4m3 and e5m2, whose bits are u8 in files.
"""

F16, BF16, F32, F64, E4M3, E5M2 = "f16", "bf16", "f32", "f64", "e4m3", "e5m2"
S8, U8, S16, S32, S64 = "s8", "u8", "s16", "s32", "s64"
U32, U64 = "u32", "u64"
NORMAL = ["normal", 1.0]


def given(name, kind, shape, draw=None):
    return {"name": name, "kind": "in", "type": kind, "shape": list(shape), "draw": draw or NORMAL}


def made(name, kind, shape, atol=0.0, rtol=0.0):
    """What a kernel has to write; right within atol + rtol * |reference|."""
    return {"name": name, "kind": "out", "type": kind, "shape": list(shape),
            "atol": atol, "rtol": rtol}


def changed(name, kind, shape, draw, atol=0.0, rtol=0.0):
    return {"name": name, "kind": "inout", "type": kind, "shape": list(shape), "draw": draw,
            "atol": atol, "rtol": rtol}


def scalar(name, value, kind="s32"):
    return {"name": name, "kind": "scalar", "type": kind, "value": value}
