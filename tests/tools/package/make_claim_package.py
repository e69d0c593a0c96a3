#!/usr/bin/env python3
"""Writes claims.zip beside this file: programs whose padding claims are known, without claims.

    python make_claim_package.py [-o claims.zip]        needs the exporter's PyTorch

    block    a transformer's layer    batch: any bits, equal bits; length: finite, equal bits
    mean     a masked mean, in two parts whose bounds follow from the padded length
                                      length: finite, within a tolerance
    sum      a sum of all elements    length: its fill, equal bits
    maximum  a maximum of all         length: none

`mean` multiplies by its mask, which a NaN would survive. Lengths of rows are at most the least
length of a call, so that whoever draws them needs not know it.
"""

import argparse
import pathlib
import sys

import torch

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(REPOSITORY / "python"), str(REPOSITORY / "python/tests")]

WIDTH = 16
LENGTH_MIN = 8


class Mean(torch.nn.Module):
    def forward(self, x, lengths):
        at = torch.arange(x.shape[1])
        seen = (at < lengths[:, None]).float()
        masked, first = x * seen[..., None], (2 * at < x.shape[1]).float()[:, None]
        return ((masked * first).sum(1) + (masked * (1 - first)).sum(1)) / lengths[:, None]


class Sum(torch.nn.Module):
    def forward(self, x):
        return x.sum(1)


class Maximum(torch.nn.Module):
    def forward(self, x):
        return x.amax(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-o", "--output",
                        default=str(pathlib.Path(__file__).with_name("claims.zip")))
    options = parser.parse_args()
    from coppice.export import torch as exporter
    from models import Block

    torch.manual_seed(3)
    rows = {"name": "batch", "min": 2, "max": 64}
    columns = {"name": "length", "min": LENGTH_MIN, "max": 256}
    x, lengths = torch.zeros(3, 12, WIDTH), torch.tensor([3, 8, 7])
    package = exporter.new_package()
    for name, model, args in (("block", Block(WIDTH, heads=2), (x, lengths)),
                              ("mean", Mean(), (x, lengths)), ("sum", Sum(), (x,)),
                              ("maximum", Maximum(), (x,))):
        dynamic = {"x": {0: rows, 1: columns}, "lengths": {0: rows}}
        exporter.add_program(package, name, model.eval(), args, archs=["80"], weights=True,
                             dynamic={key: dynamic[key] for key in ("x", "lengths")[:len(args)]})
    package.entry = "block"
    package.write(options.output)


if __name__ == "__main__":
    main()
