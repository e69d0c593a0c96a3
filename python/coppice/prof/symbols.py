"""Names of kernels: the identifier in a mangled symbol, and in what a demangler makes of it."""

import functools
import re

NUMBER = re.compile("[0-9]+")
REFERENCE = re.compile("S[0-9A-Z]*_|S[a-z]|T[0-9]*_|A[0-9]*_|Dv[0-9]+_|D[a-z]|Ut[0-9]*_")
LITERAL = re.compile("L[a-z]n?[0-9a-f]*E|LDn0?E")  # Of a type that has no name.
VALUE = re.compile("n?[0-9]*E")
OPENERS = ("I", "J", "N", "X", "F", "Z", "Ul")  # What an "E" closes.
QUALIFIERS = "KVrROL"
NAME_MAX = 1 << 16  # Characters; longer names are compared as they are.


@functools.lru_cache(maxsize=1 << 16)
def identifier(name):
    """ "attend" of "_ZN5model6attendIfEEvPT_", of "void model::attend<float>(float*)", and of
    "attend". A name that has no identifier is its own."""
    if len(name) > NAME_MAX:
        return name
    try:
        found = of_symbol(name) if name.startswith("_Z") else of_demangled(name)
    except (IndexError, RecursionError):
        found = None
    return found or name


def of_symbol(symbol):
    """The last name of a mangled function, without arguments of templates. None: this is no such
    symbol, or a function without a name."""
    nested = symbol.startswith("N", 2)
    place, last = 2 + nested, None
    while not (last and not nested) and symbol[place] != "E":
        if found := NUMBER.match(symbol, place):
            place, last = named(symbol, found)
        elif found := REFERENCE.match(symbol, place):
            place = found.end()
        elif symbol[place] == "I":
            place = behind(symbol, place)
        elif symbol[place] == "B":  # A tag of the ABI.
            place, _ = named(symbol, NUMBER.match(symbol, place + 1))
        elif symbol[place] in QUALIFIERS:
            place += 1
        else:
            return None
    return last


def named(symbol, found):
    """The place behind a name whose length was found, and the name."""
    if not found or len(found[0]) > 6 or found.end() + int(found[0]) > len(symbol):
        raise IndexError
    end = found.end() + int(found[0])
    return end, symbol[found.end():end]


def behind(symbol, place):
    """The place behind the "E" that closes what opens here."""
    depth = 0
    while True:
        if found := NUMBER.match(symbol, place):
            place, _ = named(symbol, found)
        elif found := REFERENCE.match(symbol, place) or LITERAL.match(symbol, place):
            place = found.end()
        elif symbol[place] == "L" and not symbol.startswith("_Z", place + 1):
            place = behind_enumerator(symbol, place + 1)
        elif symbol[place] == "E":
            place, depth = place + 1, depth - 1
        else:
            opener = symbol.startswith(OPENERS, place) or symbol[place] == "L"
            place += 3 if symbol[place] == "L" else 2 if symbol.startswith("Ul", place) else 1
            depth += opener
        if depth == 0:
            return place


def behind_enumerator(symbol, place):
    """The place behind a type with a name, a value, and "E"."""
    if found := NUMBER.match(symbol, place):
        place, _ = named(symbol, found)
    elif found := REFERENCE.match(symbol, place):
        place = found.end()
    else:
        place = behind(symbol, place)
    found = VALUE.match(symbol, place)
    if not found:
        raise IndexError
    return found.end()


def of_demangled(text):
    """The last identifier before the parameters, without arguments of templates."""
    if not re.search(r"[(<:\s]", text):
        return text
    text = text.replace("(anonymous namespace)", "").replace("->", "")
    depth, kept = 0, []
    for character in text:
        depth += character == "<"
        if not depth:
            kept.append(character)
        depth -= character == ">"
        if character == "(" and not depth:
            break
    found = re.findall(r"[^\W\d][\w$]*", "".join(kept))
    return found[-1] if found else None
