// Declares every option of `coppice fit` once, with its check and its help.

#include "tools/coppice/fit_command_line.h"

#include <string>

#include "absl/status/statusor.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session_options.h"

#include "tools/coppice/tune_command_line.h"
#include "tools/run/run.h"
#include "tools/support/byte_text.h"

namespace coppice {
namespace {

constexpr int64_t kCacheTokensMax = 1'000'000'000'000;
constexpr int64_t kGraphsMax = 1024;  // Of a program, as LimitOptions has it.

constexpr const char* kNotes =
    "Chooses buckets for the programs of a package, and says how much memory their graphs\n"
    "take on a card and what is left for the cache. It needs no GPU: a session records each\n"
    "choice on an emulated device that allocates no memory, and counts the same bytes as on\n"
    "a card. The bytes of executables are an estimate, because no driver reports them.\n"
    "\n"
    "Traffic is a table with a column of sizes for each symbol that --size names; `coppice\n"
    "tune` lists the formats. A decoder needs no --size: decode.batch uses the column\n"
    "decode_rows, and prefill.length uses mixed_tokens. If the files have requests in place of\n"
    "these columns, fit simulates the steps of a server (see `coppice tune simulate`). The\n"
    "programs set the server's limits for requests at once and for tokens in a step.\n"
    "\n"
    "A choice is eligible if at least --replays-min of the calls have a bucket, and if it\n"
    "leaves room for --kv-tokens-min. For the goals `tokens` and `graphs`, it must also pad at\n"
    "most --padding-max. The goal `tokens` takes the eligible choice that leaves the most\n"
    "bytes, `graphs` takes the one with the fewest graphs, and `padding` takes the one that\n"
    "pads least.\n"
    "\n"
    "--write makes a folder with a policy for each symbol, PROGRAM.SYMBOL.json, and\n"
    "profile.json. Session::warming().LoadProfile (session.load_profile in Python) records the\n"
    "buckets of the profile before traffic arrives.\n"
    "\n"
    "Examples:\n"
    "  coppice fit decoder.zip --traffic requests.csv --memory 80GiB --kv-bytes-per-token 128KiB\n"
    "  coppice fit decoder.zip --traffic steps.csv --memory 80GiB --compare vllm --compare pow2\n"
    "  coppice fit encoder.zip --traffic lengths.csv --size encode.length=input_tokens "
    "--memory 24GiB\n"
    "  coppice fit decoder.zip --traffic requests.csv --memory 24GiB --kv-bytes-per-token 128KiB "
    "\\\n"
    "    --kv-tokens-min 100000 --check\n";

absl::StatusOr<FitGoal> ParseGoal(const std::string& text) {
  if (text == "tokens") return FitGoal::kTokens;
  if (text == "padding") return FitGoal::kPadding;
  if (text == "graphs") return FitGoal::kGraphs;
  return InvalidArgument("'{}' is not a goal; give tokens, padding or graphs", text);
}

void AddSimulator(Command& command, SimulatorOptions& simulator) {
  // The programs say both.
  simulator.sequences_max = 0;
  simulator.budget_tokens = 0;
  command.AddParsed("--load", &ParseLoads, simulator.loads,
                    "If the traffic is requests: offered work divided by capacity, default 0.7");
  command.AddCount("--steps", simulator.decode_steps, 100'000'000,
                   "If the traffic is requests: decode steps per load, default 60000");
  command.AddCount(
      "--seqs", simulator.sequences_max, kCacheTokensMax,
      "If the traffic is requests: how many run at once; default: as many as decode.batch allows");
  command.AddCount(
      "--budget", simulator.budget_tokens, kCacheTokensMax,
      "If the traffic is requests: tokens per step; default: as many as prefill.length allows");
}

}  // namespace

void AddFit(Command& command, FitOptions& options) {
  command.SetFooter(std::string(kNotes) + "\n" + kExitCodes);
  command.AddText("package", options.package, "PACKAGE", "A folder or a zip file",
                  Command::Presence::kRequired);
  command.AddRepeated("--trusted-key", options.trusted_keys, "KEY.pem",
                      "Accept only a package that one of these Ed25519 keys has signed");
  command.AddTexts("--traffic", options.traffic, "FILE",
                   "Steps or requests, as CSV, JSON lines, or a server log",
                   Command::Presence::kRequired);
  command.AddRepeated("--size", options.sizes, "PROGRAM.SYMBOL=COLUMN",
                      "The column with the sizes of a symbol");
  command.AddRepeated(
      "--at", options.at, "PROGRAM.SYMBOL=SIZE",
      "The size of a symbol without traffic; default: its hint, or else its smallest size");
  command.AddRepeated(
      "--limit", options.limits, "PROGRAM.SYMBOL=SIZE",
      "The last bucket; default: the largest size in the traffic that the package allows; larger\n"
      "calls run without a graph");
  command.AddParsed("--memory", &ParseBytes, options.memory_bytes,
                    "Memory of the card that may be used, default 80GiB");
  command.AddParsed("--weights", &ParseBytes, options.weights_bytes,
                    "Other memory that the application takes, besides the package's constants");
  command.AddParsed(
      "--kv-bytes-per-token", &ParseBytes, options.kv_bytes_per_token,
      "Bytes of cache per token; with it, the memory that is left is also given in tokens");
  command.AddCount("--kv-tokens-min", options.kv_tokens_min, kCacheTokensMax,
                   "Number of tokens that the cache must have room for");
  command.AddCount("--lanes", options.lanes, kLanesMax, "Calls at the same time, default 1");
  command.AddCount(
      "--buckets", options.buckets_max, kGraphsMax,
      "Largest number of buckets per program, default 64; one more if --limit is above every size\n"
      "in the traffic");
  command.AddParsed("--padding-max", &ParsePoints, options.padding_max,
                    "Largest padding in %, for the goals `tokens` and `graphs`, default 10");
  command.AddParsed(
      "--replays-min", &ParsePoints, options.replays_min,
      "Smallest share of calls that must have a bucket, in %, default 99; the others run without\n"
      "a graph");
  command.AddParsed("--prior", &ParseShare, options.prior,
                    "Share of the total weight given to sizes without calls, default 0.05");
  command.AddParsed("--goal", &ParseGoal, options.goal, "tokens (the default), padding or graphs");
  command.AddParsed("--exact", &ParseExactReplay, options.exact,
                    "Replay at exact sizes: never (the default), auto or always");
  command.AddRepeated("--compare", options.ladders, "LADDER",
                      "Also show the buckets of another system: vllm, sglang, pow2, ...");
  AddSimulator(command, options.simulator);
  command.AddText("--write", options.write, "FOLDER", "Write policies and a profile here");
  command.AddText("--plot", options.plot, "FILE.svg", "Plot padding against memory here");
  command.AddFlag("--check", options.check, "Exit 1 if no choice fits");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

}  // namespace coppice
