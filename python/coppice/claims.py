"""What holds of sizes that are padded: the words of wrap, load, torch.compile and the command.

    "exact"            nothing: never padded
    "any"              padding may hold any bits, of every dtype; "masked", said of kernels that
                       skip the padding, is the same
    "row_independent"  any bits in floats; in integers and bools, which may be indices, what the
                       input is filled with
    "finite"           any finite values in floats; in integers and bools what they are filled with
    "fill"             exactly what the input is filled with: zeros, if nobody says otherwise

Live results are equal bit for bit then, or, of ("finite", absolute, relative), within
absolute + relative * |value|; ("finite", absolute) has no relative part. `coppice package claim`
finds out what holds of a package; poison shows what does not.
"""

import math

from coppice.errors import InvalidArgument

EXACT = "exact"
SAME = {"masked": "any"}  # Words for what another word says.
PADDINGS = ("any", "masked", "row_independent", "finite", "fill")
WORDS = (EXACT, *PADDINGS)
FORMS = ('"any" (bits), "row_independent" (any bits in floats), "finite" (values), "fill", or '
         '("finite", absolute, relative) for results that are only that close; "exact" is never '
         'padded, and "masked" is "any"')


def claim_of(given, where):
    """(padding, absolute, relative) of a claim, by the word that the library has; None if it is
    None, or "exact". Raises InvalidArgument, which begins with `where`, for what is no claim."""
    parts = (given,) if given is None or isinstance(given, str) else given
    if isinstance(parts, (tuple, list)) and 1 <= len(parts) <= 3:
        word, *bounds = parts
        if not bounds and word in (None, EXACT):
            return None
        if word in PADDINGS and all(is_bound(bound) for bound in bounds):
            return (SAME.get(word, word), *map(float, (*bounds, 0, 0)[:2]))
    raise InvalidArgument(f"{where}: {given!r} is no claim about padding; give {FORMS}")


def is_bound(number):
    """Whether results may be so far apart."""
    return (isinstance(number, (int, float)) and not isinstance(number, bool)
            and math.isfinite(number) and number >= 0)

