"""Finds the sizes of outputs as expressions of symbols, by trying which size depends on which
symbol.

A function is asked for its sizes at a few points near the sizes of a call. It finds sizes that are
linear in the symbols, products of symbols, or quotients of one symbol. Each expression is checked
at a point from which it was not derived.
"""

import itertools

from coppice.errors import InvalidArgument

QUOTIENTS = range(2, 17)  # What a quotient may divide by.


def points_around(sizes, dims):
    """The points at which to ask: the sizes themselves, each symbol changed alone by a step, and
    all changed by a lot. Returns these, and further points of each symbol alone for sizes that are
    not linear."""
    near = {name: dims[name].probes(size) for name, size in sizes.items()}
    alone = [{**sizes, name: others[0]} for name, others in near.items() if others]
    far = {name: near[name][-1] if near[name] else size for name, size in sizes.items()}
    more = {name: [{**sizes, name: other} for other in others[1:]]
            for name, others in near.items()}
    return [dict(sizes), *alone, far], more


def expression_of(value_at, sizes, dims, where):
    """The text of a size, or a number. `value_at(point)` is its value at a point; it is called
    several times. Raises InvalidArgument if no expression is found."""
    base, (points, more) = value_at(sizes), points_around(sizes, dims)
    moved = {}
    for point in points[1:-1]:
        name = next(name for name in sizes if point[name] != sizes[name])
        moved[name] = (point[name] - sizes[name], value_at(point) - base)
    changing = [name for name, (_, change) in moved.items() if change]
    if not changing and value_at(points[-1]) == base:
        return base
    for text, value in itertools.chain(linear(base, sizes, moved),
                                       products(base, sizes, changing)):
        if all(value(point) == value_at(point) for point in points):
            return text
    stepwise = [name for name in moved if any(value_at(point) != base for point in more[name])]
    if len(stepwise) == 1:
        name, asked = stepwise[0], [*points, *more[stepwise[0]]]
        for text, value, edge in quotients(base, sizes, name):
            edges = [{**sizes, name: size} for size in (edge - 1, edge) if dims[name].allows(size)]
            if all(value(point) == value_at(point) for point in asked + edges):
                return text
    known = ", ".join(f"{value_at(point)} at {describe(point)}" for point in points)
    raise InvalidArgument(f"{where} is {known}, and coppice cannot derive it as a sum, product or "
                          "quotient of symbols; give it in outputs=")


def describe(point):
    return " ".join(f"{name}={size}" for name, size in point.items())


def linear(base, sizes, moved):
    """Candidates of the form a*n + b*m + c."""
    steps = {name: change // distance for name, (distance, change) in moved.items() if change}
    rest = base - sum(step * sizes[name] for name, step in steps.items())
    terms = [name if step == 1 else f"{step}*{name}" for name, step in steps.items()]
    text = " + ".join(terms) + (f" {'+' if rest > 0 else '-'} {abs(rest)}" if rest else "")
    yield text, lambda point: rest + sum(step * point[name] for name, step in steps.items())


def products(base, sizes, changing):
    """Candidates of the form a*n*m."""
    size = product(sizes, changing)
    if len(changing) > 1 and size and base % size == 0:
        factor = base // size
        text = "*".join(([str(factor)] if factor != 1 else []) + changing)
        yield text, lambda point: factor * product(point, changing)


def product(point, names):
    result = 1
    for name in names:
        result *= point[name]
    return result


def quotients(base, sizes, name):
    """Candidates of the form a*((n + b) // d), likely ones first: those with small shifts and
    powers of two. Each comes with the next size at which its value changes."""
    forms = []
    for divisor in QUOTIENTS:
        for factor in {1, 2, 4, 8, divisor}:
            if base % factor == 0:
                least = base // factor * divisor - sizes[name]
                forms += [(factor, shift, divisor) for shift in range(least, least + divisor)]
    for factor, shift, divisor in sorted(forms, key=unlikeliness):
        text = f"({name} {'+' if shift > 0 else '-'} {abs(shift)})" if shift else name
        text = f"{factor}*({text} // {divisor})" if factor != 1 else f"{text} // {divisor}"
        edge = sizes[name] + divisor - (sizes[name] + shift) % divisor
        yield text, lambda point, s=shift, d=divisor, f=factor: f * ((point[name] + s) // d), edge


def unlikeliness(form):
    factor, shift, divisor = form
    return (abs(shift) >= divisor, divisor & (divisor - 1) != 0, factor not in (1, divisor),
            divisor, abs(shift))
