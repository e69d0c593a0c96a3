"""Maxima for sizes without one, so that all values that a program computes from sizes fit into 64
bits.
"""

from coppice.export.manifest import walk
from coppice.export.sizes import peak_of

EXTENT_BITS_MAX = 24  # What sizes without a maximum may be for coppice itself.
INTEGER_END, ELEMENTS_END = 1 << 63, 1 << 59  # Elements are of 16 bytes at most, with gaps.
SIZES = ("shape", "strides", "grid", "bytes", "offset", "words",
         "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


def limits_of_program(program):
    """{name: max} of symbols whose maximum has to be lowered. All get the same power of two. It is
    the largest with which every tensor has fewer than ELEMENTS_END elements, and every integer is
    below INTEGER_END. Guards do not count, because a guard whose value is too large refuses the
    call."""
    symbols = program["symbols"]
    parts = list(walk([program["steps"], *program["buffers"].values()]))
    texts = {text for part in parts for key in SIZES for text in listed(part.get(key, ()))
             if isinstance(text, str)}
    products = {" * ".join(f"({size})" for size in [1, *part["shape"]])
                for part in parts if "shape" in part}

    def fits(bits):
        largest = {name: min(symbol.get("max", 1 << bits), 1 << bits)
                   for name, symbol in symbols.items()}
        return all(peak_of(text, largest) < end for some, end in (
            (products, ELEMENTS_END), (texts, INTEGER_END)) for text in some)

    low, high = 1, EXTENT_BITS_MAX
    if fits(high):
        return {}
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return {name: 1 << low for name, symbol in symbols.items()
            if symbol.get("max", 1 << high) > 1 << low}


def listed(value):
    return value if isinstance(value, (list, tuple)) else [value]
