"""The commands: they write traces in other tools' formats, plan what other tools recorded, and say
what a GPU's timeline shows."""

import argparse
import gzip
import json
import os
import pickle
import sys

from coppice.prof import (
    command, foreign, kineto, launches, memory_viz, padding, perfetto_trace, planned, profilers,
    recorded, tables)
from coppice.prof.command import Refused
from coppice.prof.traced import Trace

CODES = """\
Exit codes: 0 success; 2 a wrong option or file format; 4 the output cannot be written; 6 host
memory ran out
"""
EXPORT = f"""\
Formats:
  memory-viz    a memory snapshot for PyTorch's viewer, pytorch.org/memory_viz, and
                torch/cuda/_memory_viz.py; --mode selects what it shows:
                  history  memory that the session had mapped, and outputs that calls held
                  plan     the highest plan of each bucket, step by step, as a device of its own
                  path     calls that build on each other, with their plans one after another
  perfetto      the timeline of `coppice prof export chrome` as Perfetto's protobuf
                (needs the package perfetto)
  rmm-csv       mapped memory, in the format of RMM's logging adaptor
  nsys-sidecar  JSON: the bucket of each graph
`coppice prof export` writes JSON for chrome://tracing, and drawings for Graphviz.

The totals match `coppice prof summary` to the byte.

Examples:
  python -m coppice.prof export memory-viz t.trace -o t.pickle
  python -m coppice.prof export memory-viz t.trace --mode plan --json -o plans.json
  python -m coppice.prof export perfetto t.trace -o t.pftrace

{CODES}"""
IMPORT = f"""\
How much memory would this model need in one pool? Allocations become lifetimes, with a step per
event of the file. coppice plans them like the buffers of a graph. The peak of the allocated bytes
is a lower bound. You would save the difference between what the other allocator reserved and the
plan.

Formats:
  memory-viz  a file that torch.cuda.memory._dump_snapshot wrote, or the same as JSON; nothing that
              the pickle names is imported or run
  rmm-csv     a log of RMM's logging adaptor

Examples:
  python -m coppice.prof import memory-viz snapshot.pickle
  python -m coppice.prof import rmm-csv rmm.csv -o lifetimes.csv    for coppice plan

{CODES}"""
TIMELINE = f"""\
Which step of which program is a kernel inside a graph, and what did its padding cost? Kernels of
one launch have one correlation id on the timeline. They are compared with the kernels of each graph
in the trace, by name, grid and block. Kernels that a library launches in a graph of its own are not
in the trace, and get no step.

Formats of TIMELINE:
  JSON    a trace of PyTorch's profiler (export_chrome_trace), also as .gz
  SQLite  what `nsys export --type sqlite` writes; record with nsys profile --cuda-graph-trace=node

The cost of padding is the time of a kernel, times the share of its blocks that only padding needs.
That share is the mean over the calls of its bucket. Steps, sources and padding need --package.

-o adds arguments to these kernels: coppice program, coppice bucket, coppice step, coppice source
and coppice padding_pct. --table has a row for each node of a graph on the timeline: graph_id,
graph_node_id, node, program, bucket, step, kernel, source.

Examples:
  python -m coppice.prof timeline t.trace profile.json.gz --package model.zip
  python -m coppice.prof timeline t.trace report.sqlite --package model.zip -o padding.json
  python -m coppice.prof timeline t.trace report.sqlite --table nodes.csv --json

{CODES}"""

MODES = ("history", "plan", "path")


class Parser(argparse.ArgumentParser):
    """Reports an error in one line."""

    def error(self, message):
        raise Refused(f"{message}; see {self.prog} --help")


def call_number(text):
    if not text.isdecimal() or int(text) >= 1 << 31:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the number of a call or lane; give a number from 0 to 2^31 - 1")
    return int(text)


def parser():
    result = Parser(prog="python -m coppice.prof",
                    description="Traces and memory snapshots in the formats of other tools")
    parts = result.add_subparsers(dest="command", required=True, metavar="export|import|timeline")
    add = {name: parts.add_parser(name, help=help, description=help, epilog=notes,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
           for name, help, notes in (
               ("export", "Write a trace in the format of another tool", EXPORT),
               ("import", "Plan the allocations of another allocator", IMPORT),
               ("timeline", "Join the timeline of a GPU with a trace of the same run", TIMELINE))}
    out, into = add["export"].add_argument, add["import"].add_argument
    out("format", metavar="FORMAT", choices=("memory-viz", "perfetto", "rmm-csv", "nsys-sidecar"))
    out("trace", metavar="TRACE", help="trace file")
    out("-o", "--out", metavar="FILE",
        help="write to this file (default: -, standard output)")
    out("--mode", choices=MODES, help="memory-viz: what to show (default: history)")
    out("--json", action="store_true", help="memory-viz: write JSON instead of a pickle")
    out("--call", type=call_number, metavar="N",
        help="path: the call that the path ends at (default: the end of the longest path)")
    out("--lane", type=call_number, metavar="N", help="path: the lane of that call (default: 0)")
    into("format", metavar="FORMAT", choices=("memory-viz", "rmm-csv"))
    into("file", metavar="FILE", help="file written by the other allocator")
    into("-o", "--out", metavar="FILE.csv",
         help="write the lifetimes to this file, for coppice plan; only if FILE has one device")
    into("--json", action="store_true", help="print JSON and nothing else on standard output")
    timeline_options(add["timeline"].add_argument)
    return result


def timeline_options(add):
    add("trace", metavar="TRACE", help="trace file")
    add("timeline", metavar="TIMELINE", help="file written by the profiler")
    add("--package", metavar="PKG", help="the package whose programs the trace replayed")
    add("-o", "--out", metavar="OUT.json",
        help="write the timeline with steps to this file, as .gz if its name ends so")
    add("--table", metavar="TABLE.csv", help="write what each graph node is to this file")
    add("--json", action="store_true", help="print JSON and nothing else on standard output")


def check(options):
    given = vars(options)
    check_paths([given.get(name) for name in ("trace", "file", "timeline", "package")],
                [given.get(name) for name in ("out", "table")])
    if options.command == "export":
        check_export(options)
    elif options.command == "timeline" and "-" in (options.out, options.table):
        raise Refused("standard output gets the table of steps; give a path with -o and --table")


def check_paths(sources, outs):
    outs = [out for out in outs if out and out != "-"]
    for number, out in enumerate(outs):
        if any(source and same_file(source, out) for source in sources):
            raise Refused(f"{out}: this would overwrite an input; give another path")
        if any(out == other or same_file(out, other) for other in outs[:number]):
            raise Refused(f"{out}: this is the path of two outputs; give another path")


def same_file(path, other):
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def check_export(options):
    viz = options.format == "memory-viz"
    if not viz and (options.json or options.mode):
        raise Refused(f"{options.format} has only one form; use --json and --mode with memory-viz"
                      " only")
    if options.mode != "path" and (options.call is not None or options.lane is not None):
        raise Refused("--call and --lane choose a path; give --mode path with them")
    if options.lane is not None and options.call is None:
        raise Refused("--lane is the lane of the call that --call names; give --call, too")
    binary = options.format == "perfetto" or (viz and not options.json)
    if binary and not options.out and sys.stdout.isatty():
        raise Refused(f"{options.format} is binary; give -o FILE, or redirect standard output")


def write(path, data):
    """Writes a file (None or "-": standard output). A file that cannot be written completely is
    removed, because half of it could be taken for all of it. Raises Refused with the code
    OUTPUT."""
    standard, opened = path in (None, "-"), False
    try:
        with open(sys.stdout.fileno() if standard else path, "wb", closefd=not standard) as file:
            opened = True
            file.write(data)
    except OSError as error:
        if opened and not standard and os.path.isfile(path):
            os.unlink(os.path.realpath(path))
        raise Refused(f"{'standard output' if standard else path}: the file cannot be written: "
                      f"{error.strerror}; give another path", command.OUTPUT) from error


def document(value):
    return (json.dumps(value, indent=2) + "\n").encode()


def exported(options):
    """The trace in the format, as bytes."""
    if options.format == "perfetto":
        chrome = "".join(command.lines("prof", "export", "chrome", options.trace))
        return perfetto_trace.packed(json.loads(chrome))
    trace = Trace(options.trace)
    if options.format == "rmm-csv":
        return tables.rmm_csv(trace).encode()
    if options.format == "nsys-sidecar":
        return document(tables.nsys_sidecar(trace))
    if options.mode == "path":
        snapshot = memory_viz.path(trace, options.lane or 0, options.call)
    else:
        draw = memory_viz.plan if options.mode == "plan" else memory_viz.history
        snapshot = draw(trace)
    if options.json:
        return json.dumps(snapshot, separators=(",", ":")).encode() + b"\n"
    return pickle.dumps(snapshot, protocol=2)  # What all viewers read.


def run_export(options):
    write(options.out, exported(options))


def run_import(options):
    read = foreign.read_snapshot if options.format == "memory-viz" else foreign.read_rmm
    devices = read(options.file)
    if options.out and len(devices) != 1:
        raise Refused(f"{options.file}: it has {len(devices)} devices, but -o writes the "
                      "lifetimes of one device only; leave out -o")
    rows = [planned.plan(lifetimes) for lifetimes in devices]
    if options.out:
        write(options.out, planned.lifetimes_csv(devices[0]).encode())
    told = {"file": options.file, "format": options.format, "devices": rows}
    write(None, document(told) if options.json else planned.table(rows).encode())


def run_timeline(options):
    nodes = recorded.read(options.trace, options.package)
    timeline = profilers.read(options.timeline)
    joined = launches.join(timeline, nodes)
    told = padding.report(timeline, joined, options.trace, options.package)
    if options.out:
        data = kineto.annotated(timeline)
        write(options.out, gzip.compress(data, mtime=0) if options.out.endswith(".gz") else data)
    if options.table:
        write(options.table, padding.pairs(timeline.kernels).encode())
    write(None, document(told) if options.json else padding.table(told).encode())


def main(arguments=None):
    try:
        options = parser().parse_args(arguments)
        check(options)
        {"export": run_export, "import": run_import,
         "timeline": run_timeline}[options.command](options)
    except Refused as error:
        print(f"coppice.prof: {error}", file=sys.stderr)
        return error.code
    except MemoryError:
        print("coppice.prof: host memory ran out; trace less", file=sys.stderr)
        return command.MEMORY
    return 0


if __name__ == "__main__":
    sys.exit(main())
