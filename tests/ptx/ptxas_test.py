"""Holds what the parser takes against ptxas, over drawn modules.

    ptxas_test.py COPPICE [--texts N] [--seed S]

Each module declares something, or has an instruction, that is right or nearly so. ptxas and
`coppice ptx check` must both take it, or both refuse it. An instruction that is not executed yet
says nothing. TOLERATED says what is known to differ. Skipped, with 77, where there is no ptxas.
"""

import argparse
import concurrent.futures
import itertools
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

HEADER = ".version 8.7\n.target sm_{}\n.address_size 64\n"
INTEGERS = ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"]
BITS = ["b8", "b16", "b32", "b64"]
FLOATS = ["f32", "f64"]
TYPES = INTEGERS + BITS + FLOATS + ["f16", "pred"]
SPACES = ["global", "shared", "const", "local", "param"]
NUMBERS = ["1", "0x10", "-1", "1.5", "0f3F800000", "0d3FF0000000000000"]
LINKAGES = ["", ".visible ", ".weak ", ".extern "]
# What ptxas takes and no compiler writes.
TOLERATED = ("address of 'g' can only initialize", "must be a .param variable of the caller",
             "is declared twice", "'y' is not an address", "found '<'")


def width(kind):
    return int(kind.strip("busfred") or 0) if kind != "pred" else 0


def module(variables="", body="", parameters=".param .u64 p", target=80):
    return (f"{HEADER.format(target)}{variables}\n.visible .entry k({parameters}) {{\n{body}\n"
            "ret;\n}\n")


def draw_initial_value(draw):
    kind = draw.choice(TYPES)
    dims = draw.choice(["", "[2]", "[2][2]", "[]", "[][2]"])
    numbers = [draw.choice(NUMBERS) if draw.random() < 0.3 else draw.choice(
        ["1.5", "0f3F800000"] if kind in FLOATS else ["1", "-1"]) for _ in range(4)]
    a, b, c, d = numbers
    values = draw.choice([a, f"{{{a}, {b}}}", f"{{{a}, {b}, {c}}}",
                          f"{{{{{a}, {b}}}, {{{c}, {d}}}}}", f"{{{{{a}}}, {{{b}}}}}",
                          f"{{{{{a}, {b}, {c}}}}}", "{}", "g", "{g, g+8}", "generic(g)"])
    space = draw.choice(["global", "global", "const", "shared"])
    return module(f".global .b32 g[4];\n.{space} .{kind} f{dims} = {values};")


def draw_variable(draw):
    space, kind = draw.choice(SPACES + ["reg"]), draw.choice(TYPES)
    vector = draw.choice(["", "", "", ".v2 ", ".v4 "])
    count = draw.choice(["", "", "[2]", "[]", "<3>"])
    text = f".{space} {vector}.{kind} a{count};"
    return module(text) if draw.random() < 0.4 else module(body=text)


def draw_names(draw):
    names = draw.choices(["a", "a0", "a1", "a12", "p", "k", "g", "b"], k=2)
    counts = draw.choices(["", "", "<2>", "<13>"], k=2)
    declared = [f".reg .b32 {name}{count};" for name, count in zip(names, counts)]
    use = draw.choice(["", "mov.b32 a1, 1;", "mov.b32 a12, 1;", "mov.b32 a, 1;", "mov.b32 a01, 1;"])
    if draw.random() < 0.4:
        declared[1] = f"{{ {declared[1]} {use} }}"
        use = ""
    if draw.random() < 0.2:
        declared[1] = draw.choice([".local .b32 a;", ".shared .b32 a;", "a: mov.b32 g, 1;"])
    return module(".global .b32 h;", "\n".join(declared) + "\n" + use)


def draw_linkage(draw):
    if draw.random() < 0.5:
        texts = [f"{draw.choice(LINKAGES)}.{draw.choice(['global', 'global', 'const'])} "
                 f".{draw.choice(['b32', 'b32', 'b32', 'u32', 'b64'])} f;" for _ in range(2)]
        return module("\n".join(texts[:draw.choice([1, 2])]))
    texts = []
    kinds = [".b32", ".b32", ".b32", ".u32", ".align 4 .b8", ".align 8 .b8"]
    for _ in range(draw.choice([1, 2, 2])):
        parameters = ", ".join(f".param {draw.choice(kinds)} a{i}"
                               for i in range(draw.choice([0, 1, 1, 1, 2])))
        parameters = parameters.replace(".b8 a0", ".b8 a0[8]").replace(".b8 a1", ".b8 a1[8]")
        result = draw.choice(["", "", "(.param .b32 r) "])
        texts.append(f"{draw.choice(LINKAGES[:2] + LINKAGES[3:])}.func {result}f({parameters})"
                     f"{draw.choice([';', '{ ret; }'])}")
    return module("\n".join(texts))


def draw_parameters(draw):
    parameters = [f".{draw.choice(['param', 'param', 'param', 'reg', 'shared'])} "
                  f"{draw.choice(['', '', '', '.v2 '])}.{draw.choice(TYPES)} "
                  f"{draw.choice(['', '', '.ptr .global .align 4 ', '.ptr .shared .align 8 '])}"
                  f"{draw.choice(['x', 'y'])}{draw.choice(['', '', '[4]'])}" for _ in range(2)]
    return module(parameters=", ".join(parameters))


def draw_call(draw):
    formal, actual = (draw.choice(TYPES[:-1]) for _ in range(2))
    if draw.random() < 0.5:
        actual = formal
    dims = draw.choices(["", "", "[4]", "[8]"], k=2)
    if draw.random() < 0.6:
        dims[1] = dims[0]
    aligned = draw.choices(["", ".align 4 ", ".align 8 "], k=2)
    if draw.random() < 0.6:
        aligned[1] = aligned[0]
    returns = draw.random() < 0.3
    formals = f".param {aligned[0]}.{formal} a{dims[0]}"
    function = f".func ({formals}) f() {{ ret; }}" if returns else f".func f({formals}) {{ ret; }}"
    call = "call (x), f;" if returns else "call f, (x);"
    return module(function, f".param {aligned[1]}.{actual} x{dims[1]};\n{call}")


def draw_address(draw):
    variables = ".global .b32 g[4];\n.const .b32 c[4];"
    body = [".shared .b32 s[4];", ".local .b32 l[4];", ".param .b32 q;", ".reg .b32 r;",
            ".reg .b64 rd;", ".reg .f32 f;", ".reg .f64 fd;", ".reg .b16 h;"]
    space = draw.choice([""] + ["." + space for space in SPACES])
    at = draw.choice(["g", "c", "s", "l", "q", "p", "r", "rd", "fd", "g+4", "rd+8"])
    body.append(draw.choice([
        f"ld{space}.u32 r, [{at}];", f"st{space}.u32 [{at}], r;",
        f"atom{space}.add.u32 r, [{at}], r;" if space in ("", ".global", ".shared") else "",
        f"ld{space}.f32 f, [{at}];", f"red{space}.add.u32 [{at}], r;"
        if space in ("", ".global", ".shared") else "",
        f"cp.async.ca.shared.global [{at}], [rd], 4;", f"cp.async.ca.shared.global [s], [{at}], 4;",
        f"prefetch.global.L1 [{at}];"]))
    return module(variables, "\n".join(body))


def draw_direction(draw):
    body = draw.choice(["ld.param.b32 x, [a];", "st.param.b32 [a], x;", "st.param.b32 [r], x;",
                        "ld.param.b32 x, [r];"])
    return module(f".func (.param .b32 r) f(.param .b32 a) {{ .reg .b32 x; {body} ret; }}",
                  draw.choice(["", ".reg .b64 y; st.param.u64 [p], y;"]))


def draw_types(draw):
    """Registers and numbers of other types than the instruction's, but of its width."""
    kind = draw.choice([kind for kind in TYPES if width(kind) >= 16])
    fits = [other for other in TYPES if width(other) == width(kind)]
    registers = [draw.choice(fits) for _ in range(3)]
    body = [f".reg .{other} {name};" for other, name in zip(registers, "xyz")]
    body += [".reg .pred q;", ".reg .b64 at;", ".reg .b32 amount;", ".reg .f32 amountf;"]
    z = draw.choice(["z", "z", "z"] + NUMBERS)
    bits = kind if kind in BITS else f"b{width(kind)}"
    signs = kind in INTEGERS and width(kind) >= 16
    body.append(draw.choice([
        f"mov.{kind} x, {z};",
        f"ld.global.{kind} x, [at];",
        f"st.global.{kind} [at], {z};",
        f"selp.{kind} x, y, {z}, q;" if kind != "f16" else "",
        f"and.{bits} x, y, {z};",
        f"shl.{bits} x, y, {draw.choice(['amount', 'amountf', '3'])};",
        f"add.{kind} x, y, {z};" if signs else "",
        f"setp.eq.{kind} q, x, {z};" if kind in FLOATS or signs else "",
        f"add.{kind} x, y, {z};" if kind in FLOATS else "",
        f"fma.rn.{kind} x, y, y, {z};" if kind in FLOATS else "",
        f"mul.lo.{kind} x, y, {z};" if signs else "",
        f"cvt.rn.{kind}.s32 x, amount;" if kind in FLOATS else "",
        f"cvt.rzi.s32.{kind} amount, y;" if kind in FLOATS else ""]))
    return module(body="\n".join(body))


def draw_architecture(draw):
    """Instructions that some architectures lack."""
    body = [".reg .b16 h<4>;", ".reg .b32 w<8>;", ".reg .b64 d<4>;", ".reg .pred q;"]
    mode = draw.choice([".rn", ".rz", ".rm", ".rp", ""])
    relu = draw.choice(["", ".relu"])
    whole = draw.choice(["u16 h1", "s16 h1", "u32 w1", "s32 w1", "u64 d1", "s64 d1"])
    kind, register = whole.split()
    body.append(draw.choice([
        f"cvt{mode}.bf16.f16 h1, h2;", f"cvt{mode}.f16.bf16 h1, h2;",
        f"cvt{mode or '.rn'}.bf16.f64 h1, d2;", "cvt.f64.bf16 d1, h2;", "cvt.f32.bf16 w1, h2;",
        f"cvt{mode or '.rn'}.bf16.{kind} h2, {register};",
        f"cvt{mode or '.rn'}i.{kind}.bf16 {register}, h2;",
        f"cvt{draw.choice(['.rn', '.rz'])}{relu}.tf32.f32 w1, w2;", "cvt.rna.tf32.f32 w1, w2;",
        f"cvt{draw.choice(['.rn', '.rz'])}{relu}.f16.f32 h1, w2;",
        f"cvt.rn.satfinite{relu}.e4m3x2.f32 h1, w1, w2;", f"cvt.rn{relu}.f16x2.e5m2x2 w1, h1;",
        f"{draw.choice(['add', 'sub', 'mul'])}.bf16 h1, h2, h3;", "fma.rn.bf16 h1, h2, h3, h1;",
        f"{draw.choice(['min', 'max'])}{draw.choice(['', '.xorsign.abs'])}.f32 w1, w2, w3;",
        "setp.lt.bf16 q, h1, h2;", "set.lt.u32.bf16 w1, h1, h2;", "ex2.approx.ftz.bf16 h1, h2;",
        "tanh.approx.bf16 h1, h2;", "neg.bf16 h1, h2;", "fence.acq_rel.cluster;",
        "fence.acq_rel.gpu;", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [w1], {w2};",
        f"mbarrier.{draw.choice(['try', 'test'])}_wait.shared.b64 q, [w1], d1;",
        f"atom.global.add.noftz.{draw.choice(['f16', 'bf16'])} h1, [d1], h2;",
        f"red.global.add.noftz.{draw.choice(['f16x2', 'bf16x2'])} [d1], w1;"]))
    return module(body="\n".join(body), target=draw.choice([80, 86, 89, 90]))


def draw_product(draw):
    """wgmma, with operands that are right or nearly so."""
    depth, types = draw.choice([
        (16, "f32.f16.f16"), (16, "f16.f16.f16"), (16, "f32.bf16.bf16"), (16, "f16.bf16.bf16"),
        (8, "f32.tf32.tf32"), (32, "f32.e4m3.e5m2"), (32, "f16.e5m2.e5m2"), (32, "s32.s8.u8"),
        (32, "s32.s8.s8.satfinite"), (32, "satfinite.s32.u8.u8")])
    columns = draw.choice([8, 16, 24, 40, 48, 64, 256])
    sums = types.replace("satfinite.", "").split(".")[0]
    count = columns // (4 if sums == "f16" else 2)
    registers = draw.choice(["b32 d", {"f32": "f32 d", "s32": "s32 d", "f16": "f32 d"}[sums]])
    left = draw.choice(["x", "x", "{a0, a1, a2, a3}"])
    right = {"f32.t": 2, "f32.e": 2, "f16.e": 2}.get(types[:5], 0 if sums == "s32" else
                                                      3 if left != "x" else 4)
    tail = ["1", draw.choice(["1", "-1"]), "0", "1", "0"][:right + draw.choice([0, 0, 0, 1, -1])
                                                           if right else draw.choice([0, 0, 2])]
    operands = ", ".join(["{" + ", ".join(f"d{i}" for i in range(count)) + "}", left, "y",
                          draw.choice(["q", "!q"]), *tail])
    body = (f".reg .{registers}<{count}>;\n.reg .b32 a<4>;\n.reg .b64 x, y;\n.reg .pred q;\n"
            f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{types} {operands};")
    return module(body=body, target=draw.choice(["90a", "90a", "90a", "90"]))


def draw_asynchronous(draw):
    """What sm_90 copies in bulk, and what goes with it."""
    rank = draw.choice([1, 2, 5])
    at = ", ".join(["w3"] * draw.choice([rank, rank, rank, rank + 1]))
    to = draw.choice(["shared::cta", "shared::cluster"])
    tile, hint = draw.choice(["", ".tile"]), draw.choice(["", ".L2::cache_hint"])
    cast = draw.choice(["", ".multicast::cluster"])
    operation = draw.choice(["add", "min", "max", "inc", "dec", "and", "or", "xor"])
    kind = draw.choice(["u32", "s32", "u64", "s64", "b32", "b64", "f32", "f64", "f16", "bf16",
                        "noftz.f16", "noftz.bf16"])
    extra = (", h1" if cast else "") + (", d2" if hint else "")
    policy = ", d2" if hint else ""
    size = draw.choice(["256", "w3", "250"])
    field = draw.choice(["box_dim", "global_dim", "element_stride", "global_stride", "elemtype",
                         "interleave_layout", "swizzle_mode", "fill_mode"])
    wide = field == "global_stride"
    value = draw.choice(["0", "2", "9"])
    if not field.endswith(("type", "layout", "mode")):
        value += ", d2" if wide else ", w3"
    body = [".reg .b16 h<2>;", ".reg .b32 w<8>;", ".reg .b64 d<4>;", ".reg .pred q;",
            draw.choice([
                f"cp.async.bulk.tensor.{rank}d.{to}.global{tile}.mbarrier::complete_tx::bytes"
                f"{cast}{hint} [w1], [d1, {{{at}}}], [w2{draw.choice(['', '+8'])}]{extra};",
                f"cp.async.bulk.tensor.{rank}d.global.{to}{tile}.bulk_group{hint} "
                f"[d1, {{{at}}}], [w1]{policy};",
                f"cp.reduce.async.bulk.tensor.{rank}d.global.{to}.{operation}{tile}.bulk_group"
                f"{hint} [d1, {{{at}}}], [w1]{policy};",
                f"cp.async.bulk.{to}.global.mbarrier::complete_tx::bytes{cast}{hint} "
                f"[w1], [d1], {size}, [w2]{extra};",
                f"cp.async.bulk.global.{to}.bulk_group{hint} [d1], [w1], {size}{policy};",
                f"cp.reduce.async.bulk.global.{to}.bulk_group{hint}.{operation}.{kind} "
                f"[d1], [w1], {size}{policy};",
                f"tensormap.replace.tile.{field}.{draw.choice(['shared::cta', 'global'])}.b1024."
                f"b{64 if wide else 32} [d1], {value};",
                f"mbarrier.{draw.choice(['arrive', 'arrive_drop', 'arrive.expect_tx'])}"
                f".{draw.choice(['shared::cta', 'shared::cluster'])}.b64 "
                f"{draw.choice(['_', 'd2'])}, [w1]{draw.choice(['', ', 16'])};",
                f"mbarrier.init.{to}.b64 [w1], 1;",
                f"elect.sync {draw.choice(['w1|q', '_|q', 'w1'])}, -1;",
                f"setmaxnreg.{draw.choice(['inc', 'dec'])}.sync.aligned.u32 "
                f"{draw.choice([24, 64, 65, 256, 264, 16])};",
                f"{draw.choice(['mapa', 'getctarank'])}.{to}.u32 w1, w2;",
                f"mapa.{to}.u32 w1, w2, w3;", f"mapa.u64 d1, d2, w3;",
                f"fence.proxy.tensormap::generic.acquire.gpu [d1], {draw.choice([128, 64])};",
                f"barrier.cluster.{draw.choice(['arrive', 'wait'])}"
                f"{draw.choice(['', '.release', '.acquire', '.relaxed'])}.aligned;",
                f"{draw.choice(['add', 'min', 'max'])}{draw.choice(['', '.relu'])}"
                f".{draw.choice(['s16x2', 'u16x2', 's32', 'u32'])} w1, w2, w3;"])]
    return module(body="\n".join(body), target=draw.choice(["90a", "90a", "90", "80"]))


FAMILIES = [draw_product, draw_asynchronous, draw_initial_value, draw_variable, draw_names,
            draw_linkage, draw_parameters, draw_call, draw_address, draw_direction, draw_types,
            draw_architecture]


def compare(ptxas, coppice, folder, number, text):
    """What differs, or nothing."""
    path = pathlib.Path(folder, f"{number}.ptx")
    path.write_text(text)
    architecture = re.search(r"\.target (\w+)", text)[1]
    theirs = subprocess.run([ptxas, f"-arch={architecture}", path, "-o", "/dev/null"],
                            capture_output=True, text=True, check=False)
    ours = subprocess.run([coppice, "ptx", "check", path], capture_output=True, text=True,
                          check=False)
    said = (ours.stdout + ours.stderr).strip()
    path.unlink()
    if theirs.returncode < 0:
        return None  # ptxas itself has crashed.
    taken = theirs.returncode == 0
    if ours.returncode not in (0, 1, 2):
        return f"exit code {ours.returncode}: {said}\n{text}"
    if ours.returncode == 1 or taken == (ours.returncode == 0):
        return None
    if taken and any(known in said for known in TOLERATED):
        return None
    reason = said if taken else theirs.stdout + theirs.stderr
    return f"{'refused' if taken else 'taken'} here alone: {reason.strip()}\n{text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("coppice", metavar="COPPICE", help="the command")
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(31))
    options = parser.parse_args()
    ptxas = shutil.which("ptxas", path=None) or shutil.which("ptxas", path="/usr/local/cuda/bin")
    if ptxas is None:
        print("skipped, because there is no ptxas")
        return 77
    print(f"seed {options.seed}; repeat with --seed {options.seed}")
    draw = random.Random(options.seed)
    texts = [family(draw) for _, family in zip(range(options.texts), itertools.cycle(FAMILIES))]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [difference for difference in pool.map(
            lambda item: compare(ptxas, options.coppice, folder, *item), enumerate(texts))
            if difference is not None]
    for difference in found:
        print(difference)
    print(f"{len(texts)} texts, {len(found)} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
