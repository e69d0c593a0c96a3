// Declares every option of `coppice run` once, with its check and its help.

#include "tools/run/run_command_line.h"

#include <cstdint>
#include <string>

#include "tools/run/run.h"
#include "tools/support/byte_text.h"

namespace coppice {
namespace {

constexpr const char* kRunExamples =
    "A trace is a CSV file with the header arrival_seconds,input_tokens,output_tokens. Further\n"
    "columns are ignored. If every arrival is empty, arrivals are a Poisson process. Time is a\n"
    "virtual clock, so batches depend only on the trace and the seed. Policies: exact,\n"
    "linear:STEP, pow2, geometric:RATIO:ALIGN, ramp:MINIMUM:STEP, or a list of buckets.\n"
    "\n"
    "Examples:\n"
    "  coppice run                                  2000 generated requests, 20 of them verified\n"
    "  coppice run trace.csv --limit 200 --verify all --poison\n"
    "  coppice run --order random:7 --json          record every bucket ahead, shuffled\n"
    "  coppice run --trace-out run.trace            keep every call, recording and byte\n"
    "  coppice run --dump-graphs graphs             then: dot -Tsvg -O graphs/*.dot\n"
    "  coppice run --package samples/torch_decoder.zip --requests 20\n"
    "  coppice run --generate code --prefill-policy pow2 --decode-policy 1,2,4,8,16,32\n"
    "  coppice run trace.csv --policy vllm --relearn=500\n";

constexpr int64_t kCountMax = 10'000'000;

void AddRun(Command& command, RunOptions& options) {
  command.SetFooter(std::string(kRunExamples) + "\n" + kExitCodes);
  command.AddText("trace", options.trace, "TRACE.csv",
                  "Trace file; without it, requests are generated");
  command.AddParsed("--generate", &ParseTraceKind, options.generate,
                    "Generate conv, code or mix (the default), after the Azure traces of 2023");
  command.Exclude("--generate", "trace");
  command.AddCount("--requests", options.requests, kCountMax,
                   "Requests to generate, default 2000, or 20 with a package:\nthe emulator takes "
                   "about 4 s for each of its requests");
  command.Exclude("--requests", "trace");
  command.AddCount("--limit", options.limit, kCountMax, "Run only the first N requests");
  command.AddParsed("--device", &ParseDeviceChoice, options.device,
                    "auto (the default: cuda where there is a device), host or cuda");
  command.AddParsed("--kernels", &ParseKernelChoice, options.kernels,
                    "How the emulator runs kernels: host, as host code (the default), or ptx,\n"
                    "as PTX of nvcc, which it executes and checks by instruction");
  command.AddCount(
      "--shrink", options.shrink, 1024,
      "Divide lengths by N, default 8 on the host and 1 on CUDA; with a package, so that"
      "\n8192 tokens fit its context");
  command.AddText("--package", options.package, "PKG",
                  "Serve the decoder of this kernel package, as samples/torch_decoder.py exports "
                  "one;\n"
                  "its slots and its context are limits of the run");
  command.AddParsed(
      "--exact", &ParseExactReplay, options.exact,
      "Replay the package at the sizes of each step, with one executable for buckets\n"
      "with the same kernels: never (the default), auto (if a size repeats) or\n"
      "always");
  command.AddCount("--slots", options.slots, 1024,
                   "Requests that run at once, default 32, or as many as the package has");
  command.AddText("--policy", options.policy, "TEXT",
                  "Padding policy of both programs: a ladder, a list, a preset such as vllm, or\n"
                  "POLICY.json of coppice tune; each program takes the buckets that fit");
  command.AddText("--prefill-policy", options.prefill_policy, "TEXT",
                  "Policy of prompt lengths, default geometric:1.25:16, or the package's");
  command.AddText("--decode-policy", options.decode_policy, "TEXT",
                  "Policy of batch sizes, default ramp:1:4, or the package's");
  command.AddOptionalCount(
      "--relearn", options.relearn_period, kRelearnPeriod, kCountMax,
      "Learn the buckets of both programs again every N steps of a program, default 1000;\n"
      "a step counts half after 4 N further ones. It begins with the given policies. A swap\n"
      "has to save a percentage point of padding, and adds at most 4 buckets. It first records\n"
      "their graphs, at most 16, and 64 in a minute of the virtual clock; graphs of old buckets\n"
      "are dropped");
  command.AddParsed("--order", &ParseRecordingOrder, options.order,
                    "Record every bucket ahead: asc, desc or random:SEED");
  command.AddParsed("--seed", &ParseSeed, options.seed, "Seed of everything drawn, default 1");
  command.AddParsed(
      "--verify", &ParseVerifyScope, options.verify,
      "Compare with eager unpadded steps: all, none or sample:N requests, default sample:20");
  command.AddParsed(
      "--budget", &ParseBytes, options.budget_bytes,
      "Bytes that the session may hold, such as 4GiB; default any number; graphs that do not fit\n"
      "are dropped");
  command.AddText("--trace-out", options.trace_out, "FILE",
                  "Write a trace to FILE, for coppice prof; no event is lost");
  command.AddText("--dump-graphs", options.dump_graphs, "DIR",
                  "Draw every graph that exists at the end into a file of DIR, for Graphviz");
  command.AddText("--dump-steps", options.dump_steps, "DIR",
                  "Write inputs and outputs of every step to files of DIR (tools/run/step_log.h)");
  command.AddFlag("--poison", options.poison,
                  "Run each step twice, with two poisons in the padding");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
  command.AddFlag("--quiet", options.quiet, "No notes and no progress bar");
}

}  // namespace

const Subcommand kRunSubcommand = {"run", "Replay a request trace through recorded graphs",
                                   &Declared<&AddRun, &RunCommand>::On};

}  // namespace coppice
