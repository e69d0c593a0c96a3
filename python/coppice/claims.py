"""Claims about padded sizes: the words that wrap, load, torch.compile and the command take.

    "exact"            nothing: never padded
    "any"              padding may hold any bits, of every dtype; "masked" is the same, for kernels
                       that skip the padding
    "row_independent"  any bits in floats; the fill of the input in integers and bools, which may be
                       indices
    "finite"           any finite values in floats; the fill of the input in integers and bools
    "fill"             only the fill of the input, which is zero by default

If the claim holds, live results are equal bit for bit. With ("finite", absolute, relative) they
differ by at most absolute + relative * |value|; ("finite", absolute) has no relative part. `coppice
package claim` finds the claim of a package; poison shows that a claim is wrong.
"""

import math

from coppice.errors import InvalidArgument

EXACT = "exact"
SAME = {"masked": "any"}  # Words for what another word says.
PADDINGS = ("any", "masked", "row_independent", "finite", "fill")
WORDS = (EXACT, *PADDINGS)
FORMS = ('"any" (bits), "row_independent" (any bits in floats), "finite" (values), "fill", or '
         '("finite", absolute, relative) for results that may differ by that much; "exact" '
         'means no padding, and "masked" means "any"')


def claim_of(given, where):
    """(padding, absolute, relative) of a claim, in the library's word; None if it is None or
    "exact". Raises InvalidArgument, whose message begins with `where`, for anything that is not a
    claim."""
    parts = (given,) if given is None or isinstance(given, str) else given
    if isinstance(parts, (tuple, list)) and 1 <= len(parts) <= 3:
        word, *bounds = parts
        if not bounds and word in (None, EXACT):
            return None
        if word in PADDINGS and all(is_bound(bound) for bound in bounds):
            return (SAME.get(word, word), *map(float, (*bounds, 0, 0)[:2]))
    raise InvalidArgument(f"{where}: {given!r} is not a claim about padding; give {FORMS}")


def is_bound(number):
    """Whether a number can be a tolerance: finite and not negative."""
    return (isinstance(number, (int, float)) and not isinstance(number, bool)
            and math.isfinite(number) and number >= 0)

