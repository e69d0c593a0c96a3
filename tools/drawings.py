"""The drawings of docs/ideas/ that explain an idea and show no measurement: tools/pictures.py makes
them. They are narrow, so that their words can be read on a phone."""

WIDTH, MARGIN = 480, 16
BLUE, ORANGE, GREY, RED = "#4e79a7", "#f28e2b", "#e8e8e8", "#c00"
HATCH = ('<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
         'patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="6" '
         'style="stroke:#000;stroke-width:1.5;stroke-opacity:0.45"/></pattern></defs>')


def on(colour):
    """The colour of words on a colour."""
    return "#fff" if colour == BLUE else "#000"


class Drawing:
    """Shapes and words, one below the other from `y` on."""

    def __init__(self, title):
        self.title, self.parts, self.y = title, [], MARGIN

    def text(self, x, y, words, size=14, anchor="start", colour="#000"):
        words = words.replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" '
                          f'style="fill:{colour}">{words}</text>')

    def line(self, words, size=14):
        """Words over the whole width."""
        self.y += size + 6
        self.text(MARGIN, self.y - 4, words, size)

    def box(self, x, y, width, height, colour, words="", hatched=False):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" '
                          f'style="fill:{colour};stroke:#fff"/>')
        if hatched:
            self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" '
                              'style="fill:url(#hatch)"/>')
        if words:
            self.text(x + width / 2, y + height / 2 + 5, words, anchor="middle",
                      colour=on(colour))

    def arrow(self, x, y, to_x, to_y):
        back = (-6, 0) if to_x > x else (0, -6)
        self.parts.append(f'<path d="M{x} {y}L{to_x + back[0]} {to_y + back[1]}" '
                          'style="stroke:#555;stroke-width:2;fill:none"/>')
        sides = ((to_x - 8, to_y - 5), (to_x - 8, to_y + 5)) if back[0] else \
            ((to_x - 5, to_y - 8), (to_x + 5, to_y - 8))
        points = " ".join(f"{px},{py}" for px, py in ((to_x, to_y), *sides))
        self.parts.append(f'<polygon points="{points}" style="fill:#555"/>')

    def write(self, path):
        height = self.y + MARGIN
        path.write_text("\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">', HATCH,
            '<rect width="100%" height="100%" style="fill:#fff"/>',
            f"<title>{self.title}</title>", "".join(self.parts), "</svg>"]) + "\n",
            encoding="utf-8")


def padding():
    """Calls of some rows in buckets that are powers of two."""
    drawing = Drawing("Calls of 3, 5 and 7 rows, padded to buckets of 4 and 8 rows")
    left, size = 120, 26
    drawing.line("rows of the call (blue) and padding (hatched)")
    for rows in (3, 5, 7, 8):
        bucket = 1 << (rows - 1).bit_length()
        y = drawing.y + 8
        drawing.text(MARGIN, y + 18, f"{rows} rows")
        for cell in range(bucket):
            drawing.box(left + cell * size, y, size, size, BLUE if cell < rows else GREY,
                        hatched=cell >= rows)
        drawing.text(left + bucket * size + 10, y + 18, f"bucket {bucket}")
        drawing.y = y + size
    drawing.y += 10
    drawing.line("5, 7 and 8 rows replay the same graph, that of bucket 8.")
    return drawing


def leases():
    """Where outputs of two calls lie, in a path and outside of one."""
    drawing = Drawing("An output that a later call writes over, and one that it reads in place")
    left, width = 130, 300

    def pool(words, blocks):
        y = drawing.y + 8
        drawing.text(MARGIN, y + 22, words)
        drawing.box(left, y, width, 34, GREY)
        for start, end, colour, name in blocks:
            drawing.box(left + start, y, end - start, 34, colour, name)
        drawing.y = y + 34

    drawing.line("The second call does not read y1:", 15)
    pool("y1 = f(a)", [(0, 110, BLUE, "y1")])
    pool("y2 = f(b)", [(0, 110, ORANGE, "y2")])
    drawing.line("y2 may lie where y1 was. Reading y1 is then an error.")
    drawing.y += 14
    drawing.line("The second call reads y1, or both are in a chain:", 15)
    pool("y1 = f(a)", [(0, 110, BLUE, "y1")])
    pool("y2 = f(y1)", [(0, 110, BLUE, "y1"), (110, 220, ORANGE, "y2")])
    drawing.line("y2 lies beside y1, and y1 is read without a copy.")
    drawing.y += 6
    drawing.line("The grey bar is the pool.")
    return drawing


def packages():
    """From sources through a package to those that run it."""
    drawing = Drawing("What makes a kernel package, and what runs it")
    columns = [(MARGIN, "PyTorch model"), (170, "Triton kernels"), (324, "CUDA source")]
    tools = ["coppice.export.torch", "coppice.export.triton", "coppice package build"]
    top, width, middle = drawing.y + 4, 140, WIDTH / 2
    for (x, words), tool in zip(columns, tools, strict=True):
        drawing.box(x, top, width, 34, GREY, words)
        drawing.arrow(x + width / 2, top + 36, x + width / 2, top + 62)
        drawing.text(x + width / 2, top + 78, tool, 12, "middle")
        drawing.arrow(x + width / 2, top + 86, x + width / 2, top + 112)
    drawing.box(MARGIN, top + 114, WIDTH - 2 * MARGIN, 54, BLUE)
    drawing.text(middle, top + 136, "block.zip: kernels and a manifest", 15, "middle", "#fff")
    drawing.text(middle, top + 156, "sizes and launches as formulas of the sizes of a call", 13,
                 "middle", "#fff")
    runners = ["Python", "C", "C++", "coppice package run"]
    at, widths = MARGIN, (86, 60, 70, 208)
    for words, size in zip(runners, widths, strict=True):
        drawing.arrow(at + size / 2, top + 170, at + size / 2, top + 196)
        drawing.box(at, top + 198, size, 34, ORANGE, words)
        at += size + 8
    drawing.y = top + 232
    return drawing


def recording():
    """What calls of one bucket do, one after the other."""
    drawing = Drawing("The calls of a bucket: warm-up, record, replay, replay")
    columns = [("warm_up", ["run kernels", "one by one", "note the", "allocations"], GREY),
               ("record", ["plan memory", "record", "the graph", "launch it"], ORANGE),
               ("replay", ["copy inputs", "launch"], BLUE), ("replay", ["copy inputs", "launch"],
                                                           BLUE)]
    top, width = drawing.y + 20, 106
    for index, (kind, steps, colour) in enumerate(columns):
        x = MARGIN + index * (width + 8)
        drawing.text(x + width / 2, top - 6, f"call {index + 1}", 14, "middle")
        drawing.box(x, top, width, 30 + 22 * len(steps), colour)
        drawing.text(x + width / 2, top + 20, kind, 15, "middle", on(colour))
        for row, step in enumerate(steps):
            drawing.text(x + width / 2, top + 42 + 22 * row, step, 13, "middle",
                         on(colour))
    drawing.y = top + 118
    drawing.y += 8
    drawing.line("If no graph is possible, a call runs eagerly, and gives a reason.")
    return drawing


def exact():
    """Blocks of a kernel at a call of 5 rows, with padding and without."""
    drawing = Drawing("A call of 5 rows, replayed with padding and at its exact size")
    left, size, bucket, rows = MARGIN, 40, 8, 5

    def blocks(words, launched):
        drawing.line(words, 15)
        for cell in range(bucket):
            x, y = left + cell * size, drawing.y + 6
            if cell < launched:
                drawing.box(x, y, size, 34, BLUE if cell < rows else GREY, hatched=cell >= rows)
            else:
                drawing.parts.append(f'<rect x="{x}" y="{y}" width="{size}" height="34" '
                                     'style="fill:#fff;stroke:#999;stroke-dasharray:3 3"/>')
        drawing.text(left + bucket * size + 10, drawing.y + 28, f"{launched} blocks")
        drawing.y += 46

    blocks("With padding: the kernel runs for all rows of the bucket", bucket)
    blocks("Exact: the launch is set to the rows of the call", rows)
    drawing.line("Both use the memory of the bucket of 8 rows. The kernel of this")
    drawing.line("example has one block per row.")
    return drawing


DRAWINGS = {"padding": padding, "leases": leases, "packages": packages, "recording": recording,
            "exact": exact}


def make(folder):
    for name, drawn in DRAWINGS.items():
        drawn().write(folder / f"{name}.svg")
