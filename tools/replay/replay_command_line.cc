// Declares every option of `coppice replay` once, with its check and its help.

#include "tools/replay/replay_command_line.h"

namespace coppice {
namespace {

constexpr const char* kNotes =
    "A case is a file that the flight recorder of a session wrote: the inputs of its last\n"
    "calls. The calls run again on the emulator, which checks every access of every kernel.\n"
    "They run at their own sizes without graphs; then with their original padding, in several\n"
    "orders of blocks; then with NaNs, a pattern and noise in the padding. The command compares\n"
    "their outputs with the first run, and with the case. The first problem is the verdict:\n"
    "  out_of_bounds, misaligned, race, uninitialized, fault   a kernel did this; uninitialized\n"
    "                 also: no kernel writes an element of an output\n"
    "  wrong_claim    padding reaches live outputs\n"
    "  baked_in       a kernel never reads a size or a scalar that it is given\n"
    "  stale_input    an input lies in memory that was freed\n"
    "  differs        outputs differ for another reason\n"
    "  nothing        no problem was found\n"
    "  cannot_replay  the kernels are not in the case, or a call does not match the package\n"
    "\n"
    "--shrink looks for the fewest calls and the smallest sizes with the same verdict, and writes\n"
    "them as a case.\n"
    "\n"
    "--taint adds a note for each padded size of each call: the first live element of a buffer\n"
    "that padding of an input reaches, and the kernel, line and thread, even if no value differs.\n"
    "If padding reaches no live element, outputs cannot depend on it at these sizes, unless the\n"
    "note lists something that cannot be followed. Programs whose kernels read the real sizes are\n"
    "not followed.\n"
    "\n"
    "--depends adds a note for the last call of each program: which copied inputs each output\n"
    "depends on, by the same means. It does not list static inputs and constants.\n"
    "\n"
    "Examples:\n"
    "  coppice replay fault.coppice-case\n"
    "  coppice replay fault.coppice-case --shrink -o small.coppice-case --json\n"
    "  coppice replay fault.coppice-case --buffers values/\n"
    "  coppice replay fault.coppice-case --taint\n"
    "  coppice replay fault.coppice-case --package decoder.zip --constants weights.safetensors\n"
    "\n"
    "Exit codes: 0 nothing is wrong; 2 a wrong option, or a file that cannot be read or does\n"
    "not match the case; 3 something is wrong, or the case cannot be run; 4 the output cannot be\n"
    "written; 5 a signal stopped the command; 6 host memory ran out.";

constexpr int64_t kSeedsMax = 1000;
constexpr int64_t kCallsMax = 1'000'000;

}  // namespace

void AddReplay(Command& command, ReplayOptions& options) {
  command.SetFooter(kNotes);
  command.AddText("case", options.path, "CASE", "A file that a flight recorder wrote",
                  Command::Presence::kRequired);
  command.AddText("--package", options.package, "PACKAGE",
                  "The package of the programs, a folder or a zip file; default: the package\n"
                  "in the case");
  command.AddText("--constants", options.constants, "FILE.safetensors",
                  "Constants whose data is not in the package");
  command.AddCount("--seeds", options.seeds, kSeedsMax,
                   "Run padded calls in N orders of blocks, warps and streams, default 3");
  command.AddCount("--calls", options.calls, kCallsMax,
                   "Run only the last N calls, and the calls whose outputs they read, default 32");
  command.AddFlag("--shrink", options.shrink, "Find the smallest case with the same verdict");
  command.AddText("-o,--output", options.output, "CASE",
                  "Write the shrunken case here, default CASE.shrunk");
  command.AddText("--buffers", options.buffers, "FOLDER",
                  "Write every buffer to FOLDER/CALL/BUFFER.npy, with its values after an\n"
                  "unpadded run of the call");
  command.AddFlag("--taint", options.taint,
                  "Also follow the padding of each padded call through its kernels");
  command.AddFlag("--depends", options.depends,
                  "Also say which copied inputs each output depends on, by the last call of each\n"
                  "program");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

}  // namespace coppice
