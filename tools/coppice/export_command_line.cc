// Formats are arguments, so that both commands read as a sentence.

#include "tools/coppice/export_command_line.h"

namespace coppice {
namespace {

constexpr const char* kExportNotes =
    "Formats:\n"
    "  memory-viz    a memory snapshot for PyTorch's viewer, pytorch.org/memory_viz, and\n"
    "                torch/cuda/_memory_viz.py; --mode says of what:\n"
    "                  history  what the session had mapped, and outputs that calls held\n"
    "                  plan     a pretended device per bucket: its highest plan, step by step\n"
    "                  path     calls that build on each other, their plans in a row\n"
    "  chrome        JSON for Perfetto, ui.perfetto.dev, and chrome://tracing\n"
    "  perfetto      the same as Perfetto's protobuf\n"
    "  rmm-csv       what was mapped, as RMM's logging adaptor writes it\n"
    "  nsys-sidecar  JSON: which bucket each graph is of\n"
    "  dot           Graphviz: which graphs follow which\n"
    "\n"
    "Totals are those of `coppice prof summary`, to the byte.\n"
    "\n"
    "Examples:\n"
    "  coppice prof export chrome t.trace -o t.json\n"
    "  coppice prof export memory-viz t.trace -o t.pickle\n"
    "  coppice prof export memory-viz t.trace --mode plan --json -o plans.json\n"
    "  coppice prof export dot t.trace | dot -Tsvg -o t.svg\n"
    "\n"
    "Exit codes: 0 success; 2 a wrong option, or a file that is no trace; 4 the output cannot be\n"
    "written; 6 host memory ran out.";

constexpr const char* kImportNotes =
    "What would this model need in one pool? Allocations become lifetimes, a step per event of "
    "the\n"
    "file, and are planned as coppice plans those of a graph. The peak of what was allocated is a\n"
    "bound from below; what the other allocator reserved is what the plan would save.\n"
    "\n"
    "Formats:\n"
    "  memory-viz  what torch.cuda.memory._dump_snapshot wrote, or the same as JSON; read by "
    "opcodes\n"
    "              that run nothing\n"
    "  rmm-csv     what RMM's logging adaptor wrote\n"
    "\n"
    "Examples:\n"
    "  coppice prof import memory-viz snapshot.pickle\n"
    "  coppice prof import rmm-csv rmm.csv -o lifetimes.csv    for coppice plan\n"
    "\n"
    "Exit codes: 0 success; 2 a wrong option, or a file that is no such thing; 4 the output "
    "cannot\n"
    "be written; 6 host memory ran out.";

}  // namespace

void AddProfExchange(Command& prof, ProfExchangeOptions& options) {
  ProfExportOptions& given = options.given_out;
  Command& out = prof.AddSubcommand("export", "The trace in a format of other people's tools");
  out.SetFooter(kExportNotes);
  out.AddParsed("format", &ParseExportFormat, given.format,
                "memory-viz, chrome, perfetto, rmm-csv, nsys-sidecar or dot");
  out.AddText("trace", given.trace, "TRACE", "Trace file");
  out.AddText("-o,--out", given.out, "FILE", "Write to this file; - or nothing is standard output");
  out.AddParsed("--mode", &ParseVizMode, given.mode,
                "memory-viz: history (the default), plan or path");
  out.AddFlag("--json", given.json, "memory-viz: JSON in place of a pickle");
  out.AddParsed("--call", &ParseTracedNumber, given.call,
                "path: its last call, default that of the longest path");
  out.AddParsed("--lane", &ParseTracedNumber, given.lane, "path: the lane of that call, default 0");

  ProfImportOptions& taken = options.taken_in;
  Command& in = prof.AddSubcommand("import", "Plan what another allocator was asked for");
  in.SetFooter(kImportNotes);
  in.AddParsed("format", &ParseImportFormat, taken.format, "memory-viz or rmm-csv");
  in.AddText("file", taken.file, "FILE", "What the other allocator wrote");
  in.AddText("-o,--out", taken.out, "FILE.csv",
             "Write the lifetimes to this file, for coppice plan; of one device");
  in.AddFlag("--json", taken.json, "Print JSON and nothing else on standard output");
}

ExitCode RunProfExchange(const Command& prof,
                         const ProfExchangeOptions& options,
                         const Console& console) {
  return prof.Given("export") ? ProfExport(options.given_out, console)
                              : ProfImport(options.taken_in, console);
}

}  // namespace coppice
