#!/usr/bin/env python3
"""Measures PyTorch at what `coppice bench` measures of coppice; prints one JSON object.

  torch_side.py steps       chains of tiny kernels that no compiler can fuse, in every way to run
                            them: eager, torch.cuda.CUDAGraph, torch.compile(mode=reduce-overhead)
  torch_side.py decode      the decode step of a small decoder, batch by batch, in the same ways
  torch_side.py buckets     bytes and times of 67 batch sizes of it, recorded into one graph pool,
                            and how long another thread's kernels wait meanwhile
  torch_side.py recapture   dropping 64 recorded graphs with their pool, and recording them again

Times are microseconds (record_ms: milliseconds), bytes are bytes; progress goes to stderr.
--device cpu is a dry run: host times of the eager ways, and a reason for all that needs a GPU.

Exit codes: 0 measured, with a reason for whatever is skipped; 1 SIGTERM or SIGINT stopped it, and
what was finished is printed; 2 wrong arguments; 3 there is no torch, or no such device.
"""

import argparse
import contextlib
import json
import signal
import sys

from notes import one_line, progress

MODEL = {"layers": 2, "d_model": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 176,
         "vocab": 512, "slots": 512, "max_context": 512, "rope_theta": 10000.0, "rms_eps": 1e-5}
BUCKETS = [1, 2, 4, *range(8, 513, 8)]  # 67 of them.
SIZES = {"steps": [10, 100, 300, 1000], "decode": [1, 2, 4, 8, 16, 32, 64, 128, 256],
         "buckets": BUCKETS, "recapture": BUCKETS}


def positive_int(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' must be at least 1")
    return value


def int_list(text):
    return [positive_int(item) for item in text.split(",")]


def model_of(text):
    """A model's configuration as JSON; what it leaves out is that of the default."""
    return {**MODEL, **json.loads(text)}


def parse_arguments(arguments):
    description, _, details = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="torch_side.py", description=description, epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=SIZES)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--model", type=model_of, default=MODEL, metavar="JSON",
                        help="the decoder's configuration; default " + json.dumps(MODEL))
    parser.add_argument("--repetitions", type=positive_int, metavar="N",
                        help="samples of each way, or rounds of recapture; default 101, and 20")
    parser.add_argument("--sizes", type=int_list, metavar="N,...",
                        help="kernels of a step, else batch sizes; default as coppice bench's")
    options = parser.parse_args(arguments)
    options.repetitions = options.repetitions or (20 if options.section == "recapture" else 101)
    options.sizes = options.sizes or SIZES[options.section]
    return options


def open_device(options):
    """The device, its section, and what the report says of it. ImportError, Skip: there is none."""
    import torch
    import torch_buckets
    import torch_device
    import torch_ways

    torch.set_grad_enabled(False)
    device = torch_device.Cuda() if options.device == "cuda" else torch_device.Cpu()
    measure = getattr(torch_ways, options.section, None) or getattr(torch_buckets, options.section)
    return device, measure, {"section": options.section, "torch": torch.__version__,
                             "device": device.name, "driver": device.driver_version}


class Stopped(BaseException):
    """A signal asks to end; nothing that handles errors may keep it."""


def stop(number, _):
    raise Stopped(signal.Signals(number).name)


def run(measure, device, options, report):
    """Runs the section; returns the exit code. Whatever happens, the report has what was done."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        measure(device, options, report)
    except Stopped as signal_name:
        report["stopped"] = str(signal_name)
        return 1
    except Exception as error:
        report["skipped"] = one_line(error)
        progress(report["skipped"])
    return 0


def main(arguments=None):
    options = parse_arguments(arguments)
    with contextlib.redirect_stdout(sys.stderr):  # Whatever a library prints is no JSON.
        try:
            device, measure, report = open_device(options)
        except Exception as error:
            progress(f"torch_side.py: {one_line(error)}; install torch for this machine's driver, "
                     "or pass --device cpu")
            return 3
        code = run(measure, device, options, report)
        if device.notes:
            report["notes"] = device.notes
    print(json.dumps(report))
    return code


if __name__ == "__main__":
    sys.exit(main())
