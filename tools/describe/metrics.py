"""The families that graphs/metrics/metrics_text.cc writes, for the reference."""

import re

from headers import DescriptionError

SOURCE = "graphs/metrics/metrics_text.cc"
FAMILY = re.compile(r'\{"(coppice_\w+)",\s*k(Counter|Gauge|Histogram|Info),\s*(""|k\w+),\s*'
                    r'"([^"]*)"\}')
EACH = re.compile(r'WriteEach<(\w+)>')
LABEL = re.compile(r'\{"(\w+)",\s*(?:"(\w+)"|[^{}]*)\}')
SUFFIXES = {"Counter": "_total", "Info": "_info"}


def labels_of(code, each, description):
    """Labels of a family, each with its values where they are known. `code` is what follows it."""
    if each:
        words = [one.word for one in description.enums[each].enumerators]
        label = re.search(r'"(\w+)"', code)[1]
        return {label: words[1:] if each == "Reason" else words}
    found = {}
    for label, value in LABEL.findall(code):
        found.setdefault(label, [])
        found[label] += [value] if value else []
    return found


def rows(read, description):
    """Name, type, labels, unit and help of each family, in the order of a page."""
    text = read(SOURCE)
    matches = list(FAMILY.finditer(text))
    shown = re.search(r"kShown\[\] = \{(.*?)\};", text, re.S)
    if len(matches) < 20 or not shown:
        raise DescriptionError(f"{SOURCE}: has no families that can be read")
    shown = re.findall(r'"(\w+)"', shown[1])
    figures = [field for field in description.structs["SessionStats"].fields
               if not field.by and field.name not in shown]
    for index, match in enumerate(matches):
        if match[1] == "coppice_graphs":  # Figures come before graphs.
            for field in figures:
                yield f"coppice_{field.name}_total", "counter", {}, "", field.sentence
        name, kind, unit, said = match.groups()
        end = matches[index + 1].start() if index + 1 < len(matches) else len(text)
        before = text[text.rfind(";", 0, match.start()):match.start()]
        each = EACH.search(before)
        after = text[match.end():end].partition("\n}\n")[0]
        yield (name + SUFFIXES.get(kind, ""), kind.lower(),
               labels_of(after, each and each[1], description),
               "" if unit == '""' else unit[1:].lower(), said)


def table_rows(read, description):
    for name, kind, labels, unit, said in rows(read, description):
        shown = [f"`{label}`" + (": " + ", ".join(f"`{value}`" for value in values)
                                 if values else "") for label, values in labels.items()]
        yield [f"`{name}`", kind, "; ".join(shown), unit, said]
