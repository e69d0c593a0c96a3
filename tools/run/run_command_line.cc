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
    "columns are ignored. If arrival_seconds is empty in every row, arrivals are a Poisson\n"
    "process. Time is counted on a virtual clock, so batches depend only on the trace and the\n"
    "seed. Policies:\n"
    "exact, linear:STEP, pow2, geometric:RATIO:ALIGN, ramp:MINIMUM:STEP, or a list of buckets.\n"
    "\n"
    "Examples:\n"
    "  coppice run                                  2000 generated requests, 20 of them verified\n"
    "  coppice run trace.csv --limit 200 --verify all --poison\n"
    "  coppice run --order random:7 --json          record every bucket first, in random order\n"
    "  coppice run --trace-out run.trace            trace every call, recording and byte\n"
    "  coppice run --dump-graphs graphs             then: dot -Tsvg -O graphs/*.dot\n"
    "  coppice run --package samples/torch_decoder.zip --requests 20\n"
    "  coppice run --generate code --prefill-policy pow2 --decode-policy 1,2,4,8,16,32\n"
    "  coppice run trace.csv --policy vllm --relearn=500\n";

constexpr int64_t kCountMax = 10'000'000;

void AddOutputs(Command& command, RunOptions& options) {
  command.AddText("--trace-out", options.trace_out, "FILE",
                  "Write a trace to FILE, for coppice prof; no event is lost");
  command.AddText("--dump-graphs", options.dump_graphs, "DIR",
                  "Draw each graph that exists at the end as a Graphviz file in DIR");
  command.AddText(
      "--dump-steps", options.dump_steps, "DIR",
      "Write the inputs and outputs of every step to files in DIR (tools/run/step_log.h)");
  command.AddFlag("--poison", options.poison,
                  "Run each step twice, with a different poison in the padding each time");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
  command.AddFlag("--quiet", options.quiet, "No notes and no progress bar");
}

void AddRun(Command& command, RunOptions& options) {
  command.SetFooter(std::string(kRunExamples) + "\n" + kExitCodes);
  command.AddText("trace", options.trace, "TRACE.csv",
                  "Trace file; without it, requests are generated");
  command.AddParsed(
      "--generate", &ParseTraceKind, options.generate,
      "Kind of requests to generate, modelled on the Azure traces of 2023: conv, code or mix (the\n"
      "default)");
  command.Exclude("--generate", "trace");
  command.AddCount(
      "--requests", options.requests, kCountMax,
      "Number of requests to generate; default 2000, or 20 with a package, because the emulator\n"
      "takes about 4 s for each request to a package");
  command.Exclude("--requests", "trace");
  command.AddCount("--limit", options.limit, kCountMax, "Run only the first N requests");
  command.AddParsed("--device", &ParseDeviceChoice, options.device,
                    "auto (the default: cuda if there is a device), host or cuda");
  command.AddParsed(
      "--kernels", &ParseKernelChoice, options.kernels,
      "How the emulator runs kernels: host runs them as host code (the default); ptx executes the\n"
      "PTX that nvcc made, and checks each instruction");
  command.AddCount(
      "--shrink", options.shrink, 1024,
      "Divide the lengths of requests by N; default 8 on the host and 1 on CUDA; with a package,\n"
      "the smallest N for which 8192 / N tokens fit into its context");
  command.AddText(
      "--package", options.package, "PKG",
      "Serve the decoder in this kernel package, such as the one that samples/torch_decoder.py\n"
      "exports; its slots and its context limit the run");
  command.AddParsed(
      "--exact", &ParseExactReplay, options.exact,
      "When to replay the package at the exact sizes of each step: never (the default), auto (if\n"
      "a size repeats) or always. Buckets with the same kernels then share one executable");
  command.AddCount(
      "--slots", options.slots, 1024,
      "Requests that run at once; default 32, or with a package, as many as it serves");
  command.AddText(
      "--policy", options.policy, "TEXT",
      "Padding policy for both programs, prefill and decode: a rule such as pow2, a list of\n"
      "buckets, a preset such as vllm, or a POLICY.json from coppice tune; each program takes the\n"
      "buckets that fit");
  command.AddText("--prefill-policy", options.prefill_policy, "TEXT",
                  "Policy for prompt lengths; default: --policy, else the package's policy, else\n"
                  "geometric:1.25:16");
  command.AddText(
      "--decode-policy", options.decode_policy, "TEXT",
      "Policy for batch sizes; default: --policy, else the package's policy, else ramp:1:4");
  command.AddOptionalCount(
      "--relearn", options.relearn_period, kRelearnPeriod, kCountMax,
      "Learn the buckets of a program again after every N steps of that program, default 1000.\n"
      "The weight of a step halves every 4 N steps. The run starts with the buckets of the given\n"
      "policies. A swap to new buckets must save a percentage point of padding, and adds at most\n"
      "4 buckets. It first records their graphs, at most 16 per swap and 64 per minute of the\n"
      "virtual clock, and then drops the graphs of old buckets");
  command.AddParsed(
      "--order", &ParseRecordingOrder, options.order,
      "Record every bucket before the first request, in this order: asc, desc or random:SEED");
  command.AddParsed("--seed", &ParseSeed, options.seed, "Seed for all random numbers, default 1");
  command.AddParsed(
      "--verify", &ParseVerifyScope, options.verify,
      "Compare with eager unpadded steps: all, none or sample:N requests, default sample:20");
  command.AddParsed(
      "--budget", &ParseBytes, options.budget_bytes,
      "Limit on the bytes that the session holds, such as 4GiB; default: no limit. The session\n"
      "drops graphs that do not fit");
  AddOutputs(command, options);
}

}  // namespace

const Subcommand kRunSubcommand = {"run", "Replay a request trace through recorded graphs",
                                   &Declared<&AddRun, &RunCommand>::On};

}  // namespace coppice
