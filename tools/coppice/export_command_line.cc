// The format is an argument, so that the command reads as a sentence.

#include "tools/coppice/export_command_line.h"

namespace coppice {
namespace {

constexpr const char* kExportNotes =
    "Formats:\n"
    "  chrome  JSON for Perfetto, ui.perfetto.dev, and chrome://tracing\n"
    "  dot     Graphviz: which graphs follow which\n"
    "`python -m coppice.prof export` writes other formats: for PyTorch's viewer, Perfetto\n"
    "(protobuf), RMM and nsys. `python -m coppice.prof import` reads files of other tools.\n"
    "\n"
    "The totals match `coppice prof summary` to the byte.\n"
    "\n"
    "Examples:\n"
    "  coppice prof export chrome t.trace -o t.json\n"
    "  coppice prof export dot t.trace | dot -Tsvg -o t.svg\n"
    "\n"
    "Exit codes: 0 success; 2 a wrong option, or a file that is not a trace; 4 the output\n"
    "cannot be written; 6 host memory ran out.";

}  // namespace

void AddProfExport(Command& prof, ProfExportOptions& options) {
  Command& command = prof.AddSubcommand("export", "Write the trace as a timeline or a drawing");
  command.SetFooter(kExportNotes);
  command.AddParsed("format", &ParseExportFormat, options.format, "chrome or dot");
  command.AddText("trace", options.trace, "TRACE", "Trace file");
  command.AddText("-o,--out", options.out, "FILE",
                  "Write to this file; default: - (standard output)");
}

}  // namespace coppice
