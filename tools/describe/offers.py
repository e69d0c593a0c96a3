"""What C++ offers by families.CLASSES and families.GIVEN, and what C and Python call it."""

import re

import families
from headers import INCLUDE

METHOD = re.compile(r"^  (?!return|friend|explicit)(?:static |virtual |const )*"
                    r"[\w:]+(?:<.*?>+)?[&*]? [&*]?(\w+)\(", re.M)
FIELD = re.compile(r"^  (?!return|friend|static)(?:const )?[\w:]+(?:<[^\n]*>)?\*? (\w+)"
                   r"(?: = [^;(]*|\{\})?;", re.M)
PUBLIC = r"^class (?:\[\[nodiscard\]\] )?{} \{{\n(.*?)^ (?:private|protected):"
STRUCT = r"^struct {} \{{\n(.*?)^\}}"


def offered(read):
    """Names of the public methods of each class, and of the fields of each struct. `read` gives the
    text of a path."""
    def inside(pattern, name, header):
        return re.search(pattern.format(name), read(INCLUDE + header), re.S | re.M)[1]

    return {**{name: set(METHOD.findall(inside(PUBLIC, name, header)))
               for name, (header, *_) in families.CLASSES.items()},
            **{name: set(FIELD.findall(inside(STRUCT, name, header)))
               for name, (header, *_) in families.GIVEN.items()}}


def names_of(of, name):
    """What C and Python call it: a function without `coppice_` or a field, and an attribute or a
    key. None if C++ alone has it."""
    if f"{of}::{name}" in families.ALONE:
        return None
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    before = families.CLASSES[of][1] if of in families.CLASSES else ""
    return families.OTHER_NAMES.get(f"{of}::{name}", (before + snake, snake))
