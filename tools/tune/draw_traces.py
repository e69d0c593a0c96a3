#!/usr/bin/env python3
"""Draws traces of requests that nobody served, for score_traces.py.

    draw_traces.py FOLDER [--requests 20000] [--seed 1]

Writes a CSV file of each kind of traffic, with the columns arrival_seconds, input_tokens and
output_tokens; arrivals are those of a Poisson process. The same seed draws the same files.
"""

import argparse
import csv
import math
import pathlib
import random
import sys

ARRIVALS_PER_SECOND = 2.0
TEMPLATES = (512, 1480, 2210, 3900, 6100)  # Tokens of the prompts that questions are put into.


def lognormal(draw, median, sigma):
    return draw.lognormvariate(math.log(median), sigma)


def chat(draw, _):
    return lognormal(draw, 600, 1.1), lognormal(draw, 200, 0.8)


def templates(draw, _):
    template = draw.choices(TEMPLATES, (5, 4, 3, 2, 1))[0]
    return template + lognormal(draw, 60, 0.7), lognormal(draw, 30, 0.6)


def documents(draw, _):
    return 900 * draw.paretovariate(1.1), lognormal(draw, 350, 0.6)


def drifting(draw, progress):
    """Chat, and ever more summaries."""
    summary = draw.random() < 0.2 + 0.5 * progress
    prompt = lognormal(draw, 2400, 0.4) if summary else lognormal(draw, 180, 0.9)
    return prompt, lognormal(draw, 250, 0.7)


def uniform(draw, _):
    return draw.uniform(1, 4096), lognormal(draw, 200, 0.4)


# What draws the tokens of a request, at a part of the trace from 0 to 1; no prompt has more tokens.
KINDS = {"drawn_chat": (chat, 16384), "drawn_templates": (templates, 8192),
         "drawn_documents": (documents, 131072), "drawn_drifting": (drifting, 8192),
         "drawn_uniform": (uniform, 4096)}
OUTPUT_MAX = 2000


def rows_of(kind, requests, seed):
    """Lines of a trace: arrival, tokens of the prompt, tokens of the answer."""
    tokens_of, limit = KINDS[kind]
    draw = random.Random(f"{kind} {seed}")
    arrival = 0.0
    for i in range(requests):
        arrival += draw.expovariate(ARRIVALS_PER_SECOND)
        prompt, answer = tokens_of(draw, i / requests)
        yield (f"{arrival:.3f}", min(max(round(prompt), 1), limit),
               min(max(round(answer), 1), OUTPUT_MAX))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="where to write them; made if need be")
    parser.add_argument("--requests", type=int, default=20000,
                        help="of each trace (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    options = parser.parse_args()
    if options.requests < 1:
        parser.error(f"--requests {options.requests}: give at least 1")
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        for kind in KINDS:
            with open(options.folder / f"{kind}.csv", "w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(("arrival_seconds", "input_tokens", "output_tokens"))
                writer.writerows(rows_of(kind, options.requests, options.seed))
    except OSError as error:
        print(f"draw_traces.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
