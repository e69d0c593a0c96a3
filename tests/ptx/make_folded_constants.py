#!/usr/bin/env python3
"""Writes fixtures/folded_constants.tar.xz: what ptxas makes of instructions on known operands.

ptxas computes many of them when it compiles, as the GPU would; of what is left of a kernel that
stores one result, nvdisasm shows the constant. Each line of the table has the opcode, its operands
as letters (runtime/emulator/ptx/form.h), the bits of what it reads, and the bits of its result.
What ptxas leaves to the GPU is not in there; the script lists it.

    pip install nvidia-cuda-nvdisasm
    tests/ptx/make_folded_constants.py --nvdisasm .../nvidia/cu13/bin/nvdisasm

Rerun it by hand after adding a form: the table is what tests read.
"""

import argparse
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

import archive

FIXTURE = pathlib.Path(__file__).parent / "fixtures" / "folded_constants.tar.xz"
DRAWS = 8
FORMS_AT_ONCE = 60  # For nvdisasm, whose start is what takes time.
REGISTERS = {"h": ("b16", "%h", 16), "w": ("b32", "%w", 32), "d": ("b64", "%d", 64),
             "p": ("pred", "%p", 1)}
WIDTH = {"16": "h", "32": "w", "64": "d"}
HEAD = ".version 8.4\n.target sm_89\n.address_size 64\n"

F16_EDGES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x3800, 0x3E00, 0x4100,
             0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00]
F32_EDGES = [0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF800000,
             0x3F000000, 0xBF000000, 0x3FC00000, 0x40200000, 0xC0600000, 0x3EFFFFFF, 0x477FE000,
             0x477FF000, 0x33000000, 0x33000001, 0x4EFFFFFF, 0x4F000000, 0xCF000000, 0x4F800000,
             0x5F000000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000]
F64_EDGES = [struct.unpack("<Q", struct.pack("<d", value))[0]
             for value in (0.0, -0.0, 1.0, -1.5, 0.5, 2.5, -3.5, 65519.99, 65520.0, 3.5e38, -3.4e38,
                           1e-45, 7e-46, 2147483647.5, -2147483648.5, 9.3e18, 1e308, 5e-324)]
F64_EDGES += [0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000]


def integer_edges(bits):
    edges = [0, 1, 2, 5, bits - 1, bits, bits + 1, 0x7F, 0x80, 0xFF, 0x1234]
    edges += [(1 << (bits - 1)) - 1, 1 << (bits - 1), (1 << bits) - 1, (1 << bits) - 5]
    return edges


def draw_value(letter, kind, rng):
    """Bits of an operand of this letter: of a float, or of an integer."""
    bits = REGISTERS[letter][2]
    if kind == "f":
        edges = {"h": F16_EDGES, "w": F32_EDGES, "d": F64_EDGES}[letter]
        if rng.random() < 0.6:
            return rng.choice(edges)
        number = rng.uniform(-1, 1) * 2.0 ** rng.randint(-12, 14 if letter == "h" else 34)
        code, back = {"h": ("<e", "<H"), "w": ("<f", "<I"), "d": ("<d", "<Q")}[letter]
        return struct.unpack(back, struct.pack(code, number))[0]
    if rng.random() < 0.6:
        return rng.choice(integer_edges(bits)) & ((1 << bits) - 1)
    return rng.getrandbits(bits) >> rng.choice([0, 0, 0, bits // 2, bits - 5])


def float_forms():
    for name in ("add", "sub", "mul"):  # Which ptxas may contract, unlike those with .rn.
        yield f"{name}.f32", "Www", "f"
        yield f"{name}.ftz.f32", "Www", "f"
        yield f"{name}.sat.f32", "Www", "f"
        yield f"{name}.f64", "Ddd", "f"
    for ftz in ("", ".ftz"):
        for mode in (".rn", ".rz", ".rm", ".rp"):
            for sat in ("", ".sat"):
                for name in ("add", "sub", "mul"):
                    yield f"{name}{mode}{ftz}{sat}.f32", "Www", "f"
                yield f"fma{mode}{ftz}{sat}.f32", "Wwww", "f"
            for name in ("rcp", "sqrt"):
                yield f"{name}{mode}{ftz}.f32", "Ww", "f"
            yield f"div{mode}{ftz}.f32", "Www", "f"
        for name in ("min", "max", "min.NaN", "max.NaN"):
            base, _, nan = name.partition(".")
            yield f"{base}{ftz}{'.' + nan if nan else ''}.f32", "Www", "f"
        for name in ("abs", "neg"):
            yield f"{name}{ftz}.f32", "Ww", "f"
        for name in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"):
            yield f"{name}.approx{ftz}.f32", "Ww", "f"
        yield f"div.approx{ftz}.f32", "Www", "f"
        yield f"div.full{ftz}.f32", "Www", "f"
        for compare in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu",
                        "geu", "num", "nan"):
            yield f"setp.{compare}{ftz}.f32", "Pww", "f"
    yield "tanh.approx.f32", "Ww", "f"
    for mode in (".rn", ".rz", ".rm", ".rp"):
        for name in ("add", "sub", "mul", "div"):
            yield f"{name}{mode}.f64", "Ddd", "f"
        yield f"fma{mode}.f64", "Dddd", "f"
        yield f"rcp{mode}.f64", "Dd", "f"
        yield f"sqrt{mode}.f64", "Dd", "f"
    for name in ("min", "max"):
        yield f"{name}.f64", "Ddd", "f"
    for name in ("abs", "neg"):
        yield f"{name}.f64", "Dd", "f"
    for compare in ("eq", "ne", "lt", "le", "gt", "ge", "ltu", "num", "nan"):
        yield f"setp.{compare}.f64", "Pdd", "f"
    for kind in ("f16", "bf16"):
        for name in ("add", "sub", "mul", "min", "max", "min.NaN", "max.NaN"):
            if kind == "f16" or name not in ("add", "sub", "mul"):
                yield f"{name}.{kind}", "Hhh", "f"
        yield f"fma.rn.{kind}", "Hhhh", "f"
        yield f"abs.{kind}", "Hh", "f"
        yield f"neg.{kind}", "Hh", "f"
    for name in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        yield f"testp.{name}.f32", "Pw", "f"
        yield f"testp.{name}.f64", "Pd", "f"
    yield "copysign.f32", "Www", "f"
    yield "copysign.f64", "Ddd", "f"


def integer_forms():
    for bits in (16, 32, 64):
        low = WIDTH[str(bits)]
        two, three = low.upper() + 2 * low, low.upper() + 3 * low
        for sign in "su":
            kind = f"{sign}{bits}"
            for name in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
                yield f"{name}.{kind}", two, "i"
            for name in ("mad.lo", "mad.hi"):
                yield f"{name}.{kind}", three, "i"
            yield f"sad.{kind}", three, "i"
            yield f"shr.{kind}", low.upper() + low + "w", "i"
            for compare in ("eq", "ne", "lt", "le", "gt", "ge"):
                yield f"setp.{compare}.{kind}", "P" + 2 * low, "i"
            if bits < 64:
                wide = WIDTH[str(2 * bits)]
                yield f"mul.wide.{kind}", wide.upper() + 2 * low, "i"
                yield f"mad.wide.{kind}", wide.upper() + 2 * low + wide, "i"
            if bits > 16:
                yield f"bfe.{kind}", low.upper() + low + "ww", "i"
                yield f"bfind.{kind}", "W" + low, "i"
                yield f"bfind.shiftamt.{kind}", "W" + low, "i"
        for name in ("abs", "neg"):
            yield f"{name}.s{bits}", low.upper() + low, "i"
        for name in ("and", "or", "xor"):
            yield f"{name}.b{bits}", two, "i"
        for name in ("not", "cnot"):
            yield f"{name}.b{bits}", low.upper() + low, "i"
        yield f"shl.b{bits}", low.upper() + low + "w", "i"
        if bits > 16:
            yield f"bfi.b{bits}", low.upper() + 2 * low + "ww", "i"
            yield f"brev.b{bits}", low.upper() + low, "i"
            yield f"popc.b{bits}", "W" + low, "i"
            yield f"clz.b{bits}", "W" + low, "i"
            yield f"slct.b{bits}.s32", three[:-1] + "w", "i"
    for name in ("add", "sub"):
        yield f"{name}.sat.s32", "Www", "i"
    yield "mad.hi.sat.s32", "Wwww", "i"
    for sign in "su":
        for name in ("mul24.lo", "mul24.hi"):
            yield f"{name}.{sign}32", "Www", "i"
        yield f"mad24.lo.{sign}32", "Wwww", "i"
        for other in "su":
            yield f"dp4a.{sign}32.{other}32", "Wwww", "i"
            yield f"dp2a.lo.{sign}32.{other}32", "Wwww", "i"
        for mode in ("clamp", "wrap"):
            yield f"szext.{mode}.{sign}32", "Www", "i"
    for way in "lr":
        for mode in ("wrap", "clamp"):
            yield f"shf.{way}.{mode}.b32", "Wwww", "i"
    for mode in ("wrap", "clamp"):
        yield f"bmsk.{mode}.b32", "Www", "i"
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield f"prmt.b32{mode}", "Wwww", "i"


def convert_forms():
    kinds = [f"{sign}{bits}" for sign in "su" for bits in (16, 32, 64)]
    for to in kinds:
        for of in kinds:
            if to == of:
                continue
            letters = WIDTH[to[1:]].upper() + WIDTH[of[1:]]
            yield f"cvt.{to}.{of}", letters, "i"
            if to[0] == of[0] and int(to[1:]) >= int(of[1:]):
                continue  # There is nothing to saturate.
            if int(to[1:]) > int(of[1:]) and of[0] == "u":
                continue
            yield f"cvt.sat.{to}.{of}", letters, "i"
    for kind in kinds:
        letter = WIDTH[kind[1:]]
        for real in ("f16", "f32", "f64"):
            other = WIDTH[real[1:]]
            for mode in "nzmp":
                yield f"cvt.r{mode}i.{kind}.{real}", letter.upper() + other, "f"
                yield f"cvt.r{mode}.{real}.{kind}", other.upper() + letter, "i"
        yield f"cvt.rni.ftz.{kind}.f32", letter.upper() + "w", "f"
        yield f"cvt.rzi.ftz.{kind}.f32", letter.upper() + "w", "f"
    for mode in "nzmp":
        for real in ("f16", "f32", "f64"):
            letter = WIDTH[real[1:]]
            yield f"cvt.r{mode}i.{real}.{real}", letter.upper() + letter, "f"
        for sat in ("", ".sat"):
            yield f"cvt.r{mode}{sat}.f16.f32", "Hw", "f"
            yield f"cvt.r{mode}{sat}.f16.f64", "Hd", "f"
            yield f"cvt.r{mode}{sat}.f32.f64", "Wd", "f"
        yield f"cvt.r{mode}i.ftz.f32.f32", "Ww", "f"
        yield f"cvt.r{mode}.ftz.f32.f64", "Wd", "f"
    for of in ("f32.f16", "f64.f16", "f64.f32", "f32.f32", "f64.f64"):
        real, other = of.split(".")
        letters = WIDTH[real[1:]].upper() + WIDTH[other[1:]]
        yield f"cvt.{of}", letters, "f"
        yield f"cvt.sat.{of}", letters, "f"
    for mode in ("rn", "rz", "rn.relu", "rz.relu"):
        yield f"cvt.{mode}.bf16.f32", "Hw", "f"
        yield f"cvt.{mode}.bf16x2.f32", "Www", "f"
        yield f"cvt.{mode}.f16x2.f32", "Www", "f"
    yield "cvt.f32.bf16", "Wh", "f"
    yield "cvt.rna.tf32.f32", "Ww", "f"
    for kind in ("e4m3x2", "e5m2x2"):
        yield f"cvt.rn.satfinite.{kind}.f32", "Hww", "f"
        yield f"cvt.rn.f16x2.{kind}", "Wh", "i"


def kernel(index, opcode, letters, values):
    names = [REGISTERS[letter][1] + str(i) for i, letter in enumerate(letters.lower())]
    lines = [f".visible .entry k{index}(.param .u64 out) {{",
             ".reg .b64 %at;"]
    lines += [f".reg .{kind} {name}<9>;" for kind, name, _ in REGISTERS.values()]
    lines += ["ld.param.u64 %at, [out];", "cvta.to.global.u64 %at, %at;"]
    for name, letter, value in zip(names[1:], letters[1:], values):
        lines.append(f"mov.{REGISTERS[letter][0]} {name}, {value:#x};")
    lines.append(f"{opcode} {', '.join(names)};")
    if letters[0] == "P":
        lines += ["selp.b32 %w0, 1, 0, %p0;", "st.global.b32 [%at], %w0;"]
    else:
        lines.append(f"st.global.{REGISTERS[letters[0].lower()][0]} [%at], {names[0]};")
    return "\n".join(lines + ["ret;", "}", ""])


def half_bits(text):
    """The bits of half of an immediate, which is shown as a number."""
    text = text.replace("+", "")
    if "NAN" in text.upper():  # Does not say which.
        return None
    return struct.unpack("<H", struct.pack("<e", float(text.replace("INF", "inf"))))[0]


def constant_of(operand, registers):
    """The bits of an immediate or of a register, if they are known."""
    if operand in ("RZ", "URZ"):
        return 0
    if re.fullmatch(r"-?0x[0-9a-f]+", operand):
        return int(operand, 16) & 0xFFFFFFFF
    return registers.get(operand)


def stored(sass):
    """What a kernel stores: bits by their register, in order; None if some are not constant."""
    registers = {}
    for line in sass:
        found = re.match(r"\s*/\*[0-9a-f]+\*/\s+(@\S+\s+)?([A-Z0-9_.]+)\s*(.*?)\s*;", line)
        if not found:
            continue
        opcode, operands = found[2], [part.strip() for part in found[3].split(",")]
        if opcode.startswith(("CALL", "BRA", "BSSY")):
            return [None]
        if opcode.startswith("STG"):
            first = operands[1]
            if ".64" not in opcode:
                return [constant_of(first, registers)]
            if first == "RZ":
                return [0, 0]
            return [constant_of(f"R{int(first[1:]) + i}", registers) for i in range(2)]
        if not operands[0].startswith(("R", "UR")):
            continue
        target = operands[0]
        value = None
        if found[1]:
            pass
        elif opcode in ("MOV", "UMOV"):
            value = constant_of(operands[1], registers)
        elif opcode in ("IMAD.MOV.U32", "IMAD.U32") and operands[1:3] == ["RZ", "RZ"]:
            value = constant_of(operands[3], registers)
        elif opcode in ("HFMA2.MMA", "HFMA2") and operands[1:3] == ["-RZ", "RZ"]:
            high, low = half_bits(operands[3]), half_bits(operands[4])
            value = None if None in (high, low) else high << 16 | low
        registers[target] = value
        if opcode == "CS2R":
            zero = 0 if operands[1] == "SRZ" else None
            registers[target] = zero
            if ".32" not in opcode:
                registers[f"R{int(target[1:]) + 1}"] = zero
        elif ".64" in opcode or ".WIDE" in opcode:
            kind = "UR" if target.startswith("UR") else "R"
            registers[f"{kind}{int(target.removeprefix(kind)) + 1}"] = None
    return [None]


def drawn_values(opcode, letters, kind):
    rng = random.Random(opcode)
    drawn = []
    for _ in range(DRAWS):
        values = [draw_value(letter, kind, rng) for letter in letters[1:]]
        if opcode.startswith(("bfe", "bfi")):  # Positions and lengths have eight bits.
            values[-2:] = [value & 0xFF for value in values[-2:]]
        # ptxas takes min(x, x) for x, whatever NaN that is.
        if opcode.startswith(("min", "max")) and values[0] == values[1]:
            continue
        if values not in drawn:
            drawn.append(values)
    return drawn


def compile_forms(tools, folder, forms):
    """Those of the forms that ptxas takes; their kernels are in k.cubin."""
    forms = list(forms)
    while forms:
        text, owners = HEAD, []
        for form in forms:
            for values in drawn_values(*form):
                part = kernel(len(owners), form[0], form[1], values)
                owners.append((text.count("\n"), form))
                text += part
        (folder / "k.ptx").write_text(text)
        made = subprocess.run([tools.ptxas, "-arch=sm_89", "k.ptx", "-o", "k.cubin"], cwd=folder,
                              capture_output=True, text=True, check=False)
        if made.returncode == 0:
            break
        refused = set()
        for line, why in re.findall(r"line (\d+); error *: (.*)", made.stderr):
            form = [owner for first, owner in owners if first < int(line)][-1]
            if form not in refused:
                print(f"refused: {form[0]}: {why}", file=sys.stderr)
            refused.add(form)
        if not refused:
            raise RuntimeError(made.stderr)
        forms = [form for form in forms if form not in refused]
    return forms


def folded(tools, folder, forms):
    """Lines of the table, and the forms of which ptxas left all to the GPU."""
    forms = compile_forms(tools, folder, forms)
    text = subprocess.run([tools.nvdisasm, "-c", folder / "k.cubin"], capture_output=True,
                          text=True, check=True).stdout
    functions = {}
    for part in re.split(r"^\.text\.", text, flags=re.MULTILINE)[1:]:
        name, _, body = part.partition(":")
        functions[name] = body.splitlines()
    lines, left, index = [], [], 0
    for opcode, letters, kind in forms:
        before = len(lines)
        for values in drawn_values(opcode, letters, kind):
            words = stored(functions[f"k{index}"])
            index += 1
            if None in words:
                continue
            bits = REGISTERS[letters[0].lower()][2]
            result = sum(word << 32 * at for at, word in enumerate(words)) & ((1 << bits) - 1)
            lines.append("\t".join([opcode, letters, *(f"{value:#x}" for value in values),
                                    f"{result:#x}"]))
        if len(lines) == before:
            left.append(opcode)
    return lines, left


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ptxas", default="/usr/local/cuda/bin/ptxas")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    tools = parser.parse_args()
    table, left = [], []
    forms = [*float_forms(), *integer_forms(), *convert_forms()]
    with tempfile.TemporaryDirectory() as name:
        for first in range(0, len(forms), FORMS_AT_ONCE):
            lines, whole = folded(tools, pathlib.Path(name), forms[first:first + FORMS_AT_ONCE])
            table += lines
            left += whole
    version = subprocess.run([tools.ptxas, "--version"], capture_output=True, text=True,
                             check=True).stdout
    release = re.search(r"release ([0-9.]+)", version)[1]
    head = f"# ptxas {release}, sm_89: opcode, operands, what it reads, its result"
    archive.write(FIXTURE, {"folded_constants.tsv": "\n".join([head, *table]) + "\n"})
    print(f"{len(table)} results of {len({line.split()[0] for line in table})} forms")
    print("left to the GPU:", " ".join(left))


if __name__ == "__main__":
    main()
