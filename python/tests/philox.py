"""Random numbers as Triton's tl.rand has them, in NumPy: Philox of ten rounds over four words."""

import numpy as np

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
LOW = np.uint64(0xFFFFFFFF)


def uniform(seed, offsets):
    """Floats in [0, 1), one for each offset, of a seed of 64 bits."""
    words = [np.asarray(offsets, np.uint64), *(np.zeros(len(offsets), np.uint64) for _ in "123")]
    keys = [int(seed) & 0xFFFFFFFF, int(seed) >> 32 & 0xFFFFFFFF]
    for _ in range(ROUNDS):
        first = words[0] * np.uint64(MULTIPLIERS[0])
        second = words[2] * np.uint64(MULTIPLIERS[1])
        words = [second >> np.uint64(32) ^ words[1] ^ np.uint64(keys[0]), second & LOW,
                 first >> np.uint64(32) ^ words[3] ^ np.uint64(keys[1]), first & LOW]
        keys = [key + step & 0xFFFFFFFF for key, step in zip(keys, KEY_STEPS)]
    whole = words[0].astype(np.uint32).view(np.int32)
    whole = np.where(whole < 0, -whole - 1, whole)
    return whole.astype(np.float32) * np.float32(4.6566127342e-10)
