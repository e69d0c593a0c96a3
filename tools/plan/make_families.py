#!/usr/bin/env python3
"""Writes the families of programs that `coppice bench pool` measures.

  make_families.py FILE            packed, as the build embeds them; program_families.h says how
  make_families.py --csv FOLDER    as `coppice plan` reads them

A family has one program per bucket, as a server would record it. Beside them there are fifteen
single programs that are large: six training steps, and nine drawn at random. All are the same on
every machine.

Exit codes: 0 success; 1 FILE or FOLDER cannot be written; 2 wrong arguments.
"""

import argparse
import itertools
import pathlib
import sys

from program_models import (EagerDecoderStep, FusedDecoder, FusedDecoderStep, T5Base, bert_large,
                            random_program)
from program_models_gpt import GptTrainingStep
from program_models_unet import DiffusionUnet

RANDOM_SEED = 1
PREFILL_TOKENS = (16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896,
                  1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 6144, 8192)
BERT_SEQUENCES = (32, 64, 96, 128, 192, 256, 320, 384, 448, 512)
IMAGES = ((512, 512), (512, 768), (768, 512), (640, 640), (768, 768), (768, 1024), (896, 896),
          (1024, 1024))


def decode_batches(last):
    """The batches that servers capture: 1, 2, 4, then multiples of 8."""
    return [1, 2, 4, *range(8, last + 1, 8)]


def decoding(**model):
    return {f"b{batch}": FusedDecoderStep(FusedDecoder(**model), batch).program()
            for batch in decode_batches(512)}


def families():
    """Name and buckets of each family, a bucket by the name of its extents; by name."""
    ramp = range(16, 513, 16)
    yield "bert_large_eager_bxs60", {
        f"b{batch}s{sequence}": bert_large(batch, sequence, eager=True)
        for batch in (1, 2, 4, 8, 16, 32) for sequence in BERT_SEQUENCES}
    for name, eager in (("bert_large_eager_seq32", True), ("bert_large_sdpa_seq32", False)):
        yield name, {f"s{sequence}": bert_large(32, sequence, eager) for sequence in ramp}
    yield "llama70b_fp8_tp8_decode67", decoding(layers=80, hidden=8192, heads=64,
                                                intermediate=28672, ranks=8, fp8=True)
    yield "llama8b_eager_decode19", {f"b{batch}": EagerDecoderStep(batch, 1024).program()
                                     for batch in decode_batches(128)}
    yield "llama8b_fused_decode67", decoding()
    yield "llama8b_nologits_decode67", decoding(logits=False)
    yield "llama8b_prefill28", {
        f"t{tokens}": FusedDecoderStep(FusedDecoder(decode=False), tokens).program()
        for tokens in PREFILL_TOKENS}
    yield "mixtral_decode67", decoding(vocabulary=32000, experts=8)
    yield "t5_base_seq32", {f"s{sequence}": T5Base(8).program(sequence, 32)
                            for sequence in range(32, 1025, 32)}
    yield "unet_sd15_24", {f"b{batch}_{height}x{width}": DiffusionUnet(batch).program(height, width)
                           for batch in (1, 2, 4) for height, width in IMAGES}


def large_programs():
    """Kind, name and buffers of each single program; by kind, then by name."""
    for name in ("long_1000", "long_20000", "long_5000", "mix_1000", "mix_20000", "mix_5000",
                 "short_1000", "short_20000", "short_5000"):
        lives, _, count = name.partition("_")
        yield "random", name, random_program(int(count), lives, RANDOM_SEED)
    for name, layers, checkpointed in (("gpt_L12", 12, False), ("gpt_L120", 120, False),
                                       ("gpt_L360", 360, False), ("gpt_L48", 48, False),
                                       ("gptckpt_L240", 240, True), ("gptckpt_L48", 48, True)):
        yield "train", name, GptTrainingStep().program(layers, checkpointed)


def packed(kind, name, programs):
    """The lines of programs: lifetimes that buckets share are written once, as are equal sizes."""
    def lifetimes(program):
        return [buffer[:2] for buffer in program]

    yield f"{kind} {name}"
    for shape, group in itertools.groupby(programs, lifetimes):
        group = [*group]
        columns = [*zip(*([size for *_, size in program] for program in group))]
        classes = {column: at for at, column in enumerate(dict.fromkeys(columns))}
        begins = [0, *(begin for begin, _ in shape)]
        yield "shape " + " ".join(
            f"{begin - before} {end - begin} {classes[column]}"
            for before, (begin, end), column in zip(begins, shape, columns))
        for sizes in zip(*classes):
            yield "sizes " + " ".join(map(str, sizes))


def write_packed(path):
    lines = [line for name, buckets in families()
             for line in packed("family", name, buckets.values())]
    for _, name, program in large_programs():
        lines += packed("program", name, [program])
    path.write_text("\n".join(lines) + "\n")


def write_csv(folder):
    def write(kind, name, program):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        rows = (f"{at},{begin},{end},{size}" for at, (begin, end, size) in enumerate(program))
        (folder / kind / f"{name}.csv").write_text("\n".join(["id,lower,upper,size", *rows, ""]))

    for name, buckets in families():
        for at, (bucket, program) in enumerate(buckets.items()):
            write(name, f"{at:03}_{bucket}", program)
    for kind, name, program in large_programs():
        write(kind, name, program)


def main(arguments):
    parser = argparse.ArgumentParser(prog="make_families.py", description=__doc__,
                                     allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", nargs="?", type=pathlib.Path)
    parser.add_argument("--csv", metavar="FOLDER", type=pathlib.Path)
    options = parser.parse_args(arguments)
    if bool(options.file) == bool(options.csv):
        parser.error("give either FILE or --csv FOLDER")
    try:
        if options.csv:
            write_csv(options.csv)
        else:
            write_packed(options.file)
    except OSError as error:
        print(f"make_families.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
