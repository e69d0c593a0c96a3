"""Headers as Markdown: a heading, the declaration and its comment for everything that is public."""

import os
import re

import declared
import prose

INCLUDE = "include/"


def anchor_of(name):
    return name.replace("::", ".").replace("~", "not-")


def shared_prefix(enum):
    """What enumerators of C have instead of an enum's name: COPPICE_STANCE_..."""
    prefix = os.path.commonprefix([one.name for one in enum.members])
    return prefix[:prefix.rindex("_") + 1] + "..."


class Page:
    """The reference of the headers that a page lists."""

    def __init__(self, find, language):
        self.find, self.language, self.lines = find, language, []
        self.counts, self.names = {}, {}  # Of anchors; each name's anchor.

    def anchor(self, name):
        """An anchor that the page does not have yet."""
        base = anchor_of(name)
        count = self.counts[base] = self.counts.get(base, 0) + 1
        anchor = base if count == 1 else f"{base}-{count}"
        self.names.setdefault(name, anchor)
        return anchor

    def header(self, path, text, up):
        """All that a header declares. `up` leads from the page to the repository's root."""
        included = path.removeprefix(INCLUDE)
        opening, items = declared.read(text)
        if self.language == "cpp":
            anchor = self.anchor(os.path.basename(included))
            self.names[included] = anchor
            self.lines += [f"## {included} {{ #{anchor} }}", ""]
        self.lines += [f"[The text of the header]({up}{path})", ""]
        self.lines += prose.markdown(opening, self.find)
        self.groups(items, "", 3)

    def groups(self, items, scope, level):
        fields = []
        for item in items:
            is_fields = level > 3 and isinstance(item, declared.Group) and all(
                one.kind == "field" for one in item.declarations)
            if is_fields:
                fields.append(item)
                continue
            self.fields(fields)
            fields = []
            if isinstance(item, declared.Remark):
                if item.title:
                    self.lines += [f"## {item.title}", ""]
                self.lines += prose.markdown(item.comment, self.find)
            else:
                self.group(item, scope, level)
        self.fields(fields)

    def title(self, declaration, scope):
        if not declaration.name:
            return shared_prefix(declaration)
        known = declaration.kind in ("struct", "class", "enum") and self.language == "cpp"
        return f"{declaration.kind} {scope}{declaration.name}" if known else \
            f"{scope}{declaration.name}"

    def group(self, group, scope, level):
        """Declarations that share a comment."""
        first, *rest = group.declarations
        titles = dict.fromkeys(self.title(one, scope) for one in group.declarations
                               if one is first or one.name != "NameOf")
        shown = ", ".join(f"`{title}`" for title in titles)
        anchor = self.anchor(scope + (first.name or shared_prefix(first)))
        self.lines += ["", f"{'#' * level} {shown} {{ #{anchor} }}", ""]
        for one in rest:
            self.lines += [f'<a id="{self.anchor(scope + (one.name or shared_prefix(one)))}"></a>']
        code = [*self.declaration(group.declarations)]
        self.lines += ["", f"```{self.language}", *code, "```", ""] if code else []
        self.lines += prose.markdown(group.comment, self.find) if group.comment else []
        for one in group.declarations:
            if one.kind == "enum":
                for member in one.members:
                    self.names[f"{scope}{one.name}::{member.name}" if one.name else member.name] = \
                        anchor
                self.table("enumerator", [(member.code, f"{member.above} {member.beside}".strip())
                                          for member in one.members])
            else:
                self.groups(one.members, f"{scope}{one.name}::", level + 1)

    def declaration(self, declarations):
        mark = "// {}" if self.language == "cpp" else "/* {} */"
        for one in declarations:
            if re.fullmatch(r"(typedef )?(struct|class|enum( class)?) ?\w*", one.code):
                continue  # Its heading says as much.
            beside = f"  {mark.format(one.beside)}" if one.beside else ""
            yield from (one.code + beside).split("\n")

    def fields(self, groups):
        """Fields that follow each other: what stands above a group is said where nothing else is,
        or once."""
        rows = []
        for group in groups:
            beside = all(one.beside for one in group.declarations)
            for i, one in enumerate(group.declarations):
                above = group.comment.replace("\n", " ") if not one.beside or (beside and i == 0) \
                    else ""
                rows.append((re.sub(r"\s+", " ", one.code).removesuffix(";"),
                             f"{above} {one.beside}".strip()))
        if rows:
            self.table("field", rows)

    def table(self, kind, rows):
        self.lines += ["", f"| {kind} | what it is |", "|---|---|",
                       *(f"| {prose.code(code)} | {prose.inline(said, self.find)} |"
                         for code, said in rows), ""]

