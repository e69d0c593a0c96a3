"""The types of fixtures' arrays: numbers to the bits in files, and back.

    ENCODE["bf16"](values)      numbers become bits, to nearest, ties to even
    DECODE["bf16"](bits)        bits become numbers of a type that numpy has
    ROUND["bf16"](values)       numbers as they are once they have been stored
"""

import numpy as np


def bfloat16_bits(values):
    """To nearest, ties to even; of finite values."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def bfloat16_values(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def e4m3_table():
    byte = np.arange(256)
    exponent, fraction = (byte >> 3) & 15, byte & 7
    size = np.where(exponent == 0, fraction / 8 * 2.0 ** -6,
                    (1 + fraction / 8) * 2.0 ** (exponent - 7.0))
    size[(byte & 127) == 127] = np.nan
    return np.where(byte < 128, size, -size).astype(np.float32)


def e5m2_table():
    with np.errstate(invalid="ignore"):  # Of signalling NaNs.
        return (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float32)


def nearest_bits(table):
    """From numbers to bytes of `table`: to nearest, ties to even, and saturating."""
    size = table[:128]
    size = np.float64(size[np.isfinite(size)])

    def bits(values):
        values = np.float64(values)
        above = np.clip(np.searchsorted(size, np.abs(values)), 1, len(size) - 1)
        gap_up, gap_down = size[above] - np.abs(values), np.abs(values) - size[above - 1]
        down = (gap_down < gap_up) | ((gap_down == gap_up) & (above % 2 == 1))
        return (above - down + 128 * np.signbit(values)).astype(np.uint8)
    return bits


TABLES = {"e4m3": e4m3_table(), "e5m2": e5m2_table()}
PLAIN = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s8": np.int8, "u8": np.uint8,
         "s32": np.int32, "s64": np.int64, "s16": np.int16, "u32": np.uint32,
         "u64": np.uint64}
ENCODE = {**{name: nearest_bits(table) for name, table in TABLES.items()}, "bf16": bfloat16_bits,
          **{name: lambda values, kind=kind: np.asarray(values).astype(kind)
             for name, kind in PLAIN.items()}}
DECODE = {**{name: table.__getitem__ for name, table in TABLES.items()}, "bf16": bfloat16_values,
          **{name: np.asarray for name in PLAIN}}
ROUND = {name: lambda values, name=name: DECODE[name](ENCODE[name](values)) for name in ENCODE}
