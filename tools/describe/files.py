"""All files that follow from the description, as texts."""

import c_surface
import events
import families
import library
import python_surface
import reference
import specs
from headers import INCLUDE, Headers


class Description(Headers):
    """All that families.py names."""

    def __init__(self, read):
        super().__init__(lambda header: read(INCLUDE + header))
        for name, (header, _) in families.ENUMS.items():
            self.enum(header, name)
        for name, header in families.SPEC_ENUMS.items():
            self.enum(header, name)
        self.structs = {name: self.struct(header, name, headers=families.GROUPS)
                        for name, (header, _) in families.STRUCTS.items()}
        variant, header = families.EVENTS
        self.events = [self.struct(header, name) for name in self.alternatives(header, variant)]
        self.specs = {name: self.struct(header, name) for name, header in families.SPECS.items()}


def written(read):
    """The texts of all files that follow, by path. `read` gives the text of a path."""
    description = Description(read)
    header = c_surface.Header(read(c_surface.HEADER), description)
    numbers = {name: header.write_enum(description.enums[name]) for name in families.ENUMS}
    orders = {name: header.write_struct(description.structs[name], c_name)
              for name, (_, c_name) in families.STRUCTS.items()}
    options = sorted(description.structs["SessionOptions"].fields,
                     key=lambda field: orders["SessionOptions"].index(
                         families.flat_name(field.path)))
    return {
        c_surface.HEADER: header.text,
        "capi/described/session_fields.h": c_surface.header(description),
        "capi/described/session_fields.cc": c_surface.source(description, numbers),
        "graphs/described/session_fields.h": library.header(description),
        "graphs/described/session_fields.cc": library.source(description),
        "graphs/described/spec_fields.h": specs.header(description),
        "graphs/described/spec_fields.cc": specs.source(description),
        events.HEADER: events.header(description),
        "python/core/described/session_fields.h": python_surface.header(description, numbers),
        "python/core/described/session_fields.cc": python_surface.source(description, options),
        "python/coppice/figures.py": python_surface.figure_classes(description),
        "python/coppice/words.py": python_surface.word_tuples(description, numbers),
        **reference.pages(description, numbers, read),
    }
