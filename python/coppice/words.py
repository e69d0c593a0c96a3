"""Words of enums, in the order of coppice.h's numbers. Written by tools/describe."""

FILL_KINDS = ("zero", "value", "sentinel", "repeat_last", "undefined")
POISONS = ("off", "nan", "pattern", "noise")
EXACT_REPLAYS = ("never", "auto", "always")
