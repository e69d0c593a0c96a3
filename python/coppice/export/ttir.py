"""Reads from Triton's own form of a kernel how it accesses the memory of its pointers."""

import re

NAME = r"%[\w.$-]+"  # Of a value; members of tuples have points in theirs.


def accesses_of(ttir, parameters):
    """What a kernel does to each pointer: {parameter: "r", "w", "rw" or "" (nothing)}.

    Addresses are followed through Triton's own form. If an address may come from several
    parameters, all of them count. A pointer that is passed to something unknown is "rw"."""
    head = re.search(r"tt\.func public @\S+?\((.*?)\)(?: attributes \{.*?\})? \{\n", ttir, re.S)
    names = re.findall(rf"({NAME}): [^,%]*", head[1])
    origins = {name: {parameter} for name, parameter in zip(names, parameters, strict=True)}
    lines = [re.sub(r"loc\(.*", "", line).strip() for line in ttir[head.end():].splitlines()]
    plain = "tt.ptr_to_int" not in ttir  # Then no number is an address.
    reads, writes = set(), set()
    while True:  # Until loops bring nothing more.
        before = sum(map(len, origins.values()))
        follow(lines, origins, reads, writes, plain)
        if before == sum(map(len, origins.values())):
            break
    result = {}
    for parameter in parameters:
        word = ("r" if parameter in reads else "") + ("w" if parameter in writes else "")
        result[parameter] = word
    return result


def accesses_of_any(ttirs, parameters):
    """What at least one of a kernel's variants does to each pointer."""
    each = [accesses_of(ttir, parameters) for ttir in ttirs]
    return {parameter: "".join(word for word in "rw"
                               if any(word in known[parameter] for known in each))
            for parameter in parameters}


def follow(lines, origins, reads, writes, plain):
    """One pass over a function's lines: where values come from, and what is loaded and stored.
    Names are valid in their region only, so a value that is not a pointer must not be taken for
    one."""
    open_results = []  # Of regions around a line: what their yields give.

    def of(names):
        return set().union(*(origins.get(name.split("#")[0], set()) for name in names))

    for line in lines:
        left, _, right = line.partition(" = ") if line.startswith("%") else ("", "", line)
        results = re.findall(NAME, left)
        operands = re.findall(rf"{NAME}(?:#\d+)?", right)
        if plain and "!tt.ptr" not in right:
            operands = []
        operation = (re.match(r'"?([\w.]+)"?', right) or [""])[0].strip('"')
        if operation == "tt.load":
            reads |= of(operands[:1])
        elif operation == "tt.store":
            writes |= of(operands[:1])
        elif operation.startswith("tt.atomic"):
            reads |= of(operands[:1])
            writes |= of(operands[:1])
        elif operation in ("tt.call", "tt.extern_elementwise") or "descriptor" in operation:
            reads |= of(operands)
            writes |= of(operands)
        elif operation in ("scf.yield", "scf.condition"):
            for name in open_results[-1] if open_results else ():
                origins[name] = origins.get(name, set()) | of(operands)
        else:
            inner = re.findall(rf"({NAME}) = ({NAME}(?:#\d+)?)", right) if operands else []
            for name in results + [name for name, _ in inner]:
                origins[name] = origins.get(name, set()) | of(operands)
            results += [name for name, _ in inner]
        if right.endswith("{"):
            open_results.append(results or (open_results[-1] if open_results else []))
        elif right.startswith("}") and open_results:
            known = open_results.pop()
            if right.endswith("{"):  # An else.
                open_results.append(known)
