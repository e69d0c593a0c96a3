// Declares every option of `coppice tune` once, with its check and its help.

#include "tools/coppice/tune_command_line.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/padding/padding_presets.h"

#include "tools/support/byte_text.h"
#include "tools/support/command.h"

namespace coppice {
namespace {

constexpr const char* kLearnNotes =
    "Finds the buckets that waste least on the sizes in a column of CSV files, JSON lines, or\n"
    "logs of vLLM and SGLang; several files are taken together. A column `count`, if there is\n"
    "one, says how often a row was seen. Columns of logs: input_tokens, output_tokens (for vLLM,\n"
    "the max_tokens of the request), running, SGLang's new_tokens, and unpadded_tokens of vLLM's\n"
    "--cudagraph-metrics. vLLM has input_tokens only if it logs token ids.\n"
    "\n"
    "The limit is always a bucket. A prior keeps some buckets for sizes that have not been seen\n"
    "yet, and adds doubling buckets from the largest size to the limit, on top of --buckets. A\n"
    "cap (--max-ratio, --max-gap) limits the padding of every call, seen or not. Waste is 100 x\n"
    "(padded - real) / real.\n"
    "\n"
    "Two columns are learned together: buckets are pairs, and waste counts elements (the\n"
    "product of the two sizes). With --cost, waste counts cost: the table has a column for each\n"
    "size and one for the cost, and a row for each pair of sizes. Caps apply to each size\n"
    "separately, and make the buckets a grid.\n"
    "\n"
    "Examples:\n"
    "  coppice tune trace.csv --column input_tokens --buckets 32 --limit 16384 -o policy.json\n"
    "  coppice tune score policy.json other.csv --column input_tokens\n"
    "  coppice tune score vllm steps.csv --column decode_rows\n"
    "  coppice tune simulate trace.csv --load 0.7 -o steps.csv\n"
    "  coppice tune steps.csv --column decode_rows --buckets 25 --limit 512 --max-ratio 1.25\n"
    "  coppice tune simulate trace.csv --load 0.3,0.95,0.7 --relearn --start policy.json\n"
    "  coppice tune b.csv --column batch --column length --buckets 64 --limit 8,8192\n"
    "  coppice tune b.csv --column batch --column length --price 256KiB --plot b.svg\n";

constexpr const char* kScoreNotes =
    "A policy is a file from `coppice tune -o`, a ladder such as pow2 or 1,2,4 (see `coppice run\n"
    "--help`), or the ladder of another system:\n";

constexpr const char* kSimulateNotes =
    "A trace has columns of input and output tokens, and optionally of arrival times. Without\n"
    "arrival times, arrivals are a Poisson process. Common column names are recognised:\n"
    "prompt_tokens, input_length, ContextTokens, timestamp and others. The server batches\n"
    "continuously and prefills in chunks, like vLLM. Load is the offered work, divided by the\n"
    "work that the server does if all requests arrive at once. The trace is repeated until\n"
    "there are enough steps.\n"
    "\n"
    "A step takes overhead + max(weights, tokens x token) + context x kv + pairs x pair. The\n"
    "defaults are close to a dense 8B model on an H100.\n"
    "\n"
    "Steps are written as CSV. Steps that only decode fill the column decode_rows, and other\n"
    "steps fill mixed_tokens.\n"
    "\n"
    "With --relearn, buckets are also learned again after every --period steps, from a decaying\n"
    "histogram. They replace the old ones if that saves --gain points of waste with at most\n"
    "--added new graphs.\n";

constexpr int64_t kTuneCountMax = 1'000'000'000;

absl::StatusOr<double> ParseNumber(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(number))
    return number;
  return InvalidArgument("'{}' is not a number; give a number such as 0.5", text);
}

absl::StatusOr<double> ParseRatio(const std::string& text) {
  COPPICE_ASSIGN_OR_RETURN(const double ratio, ParseNumber(text));
  if (ratio >= 1) return ratio;
  return InvalidArgument("'{}' is not a ratio; give a number of at least 1, such as 1.25", text);
}

// Also 0, for no cap.
absl::StatusOr<double> ParseRatioOrNone(const std::string& text) {
  if (text == "0") return 0.0;
  return ParseRatio(text);
}

// One, or one of each column, where 0 is no cap.
absl::StatusOr<std::vector<double>> ParseRatios(const std::string& text) {
  const size_t comma = text.find(',');
  if (comma == std::string::npos) {
    COPPICE_ASSIGN_OR_RETURN(const double ratio, ParseRatio(text));
    return std::vector<double>{ratio};
  }
  const absl::StatusOr<double> first = ParseRatioOrNone(text.substr(0, comma));
  const absl::StatusOr<double> second = ParseRatioOrNone(text.substr(comma + 1));
  if (first.ok() && second.ok()) return std::vector<double>{*first, *second};
  return InvalidArgument(
      "'{}' is not a pair of ratios; give two numbers that are 0 or at least 1, such as 1.5,1.25",
      text);
}

// Sizes, or pairs of them.
absl::StatusOr<std::vector<JointSize>> ParseForced(const std::string& text) {
  const auto refused = [&text] {
    return InvalidArgument(
        "'{}' is not a list of sizes; give numbers from 1 to {}, such as 512,2048, or pairs such "
        "as 4x512,8x128",
        text, PaddingPolicy::kExtentMax);
  };
  std::vector<JointSize> sizes;
  const char* const last = text.data() + text.size();
  for (const char* next = text.data(); next <= last; ++next) {
    JointSize size;
    auto [end, error] = std::from_chars(next, last, size.a);
    bool fits = error == std::errc() && size.a >= 1 && size.a <= PaddingPolicy::kExtentMax;
    if (fits && end != last && *end == 'x') {
      const auto second = std::from_chars(end + 1, last, size.b);
      end = second.ptr;
      fits = second.ec == std::errc() && size.b >= 1 && size.b <= PaddingPolicy::kExtentMax;
    }
    if (!fits || (end != last && *end != ',')) return refused();
    sizes.push_back(size);
    next = end;
  }
  return sizes;
}

absl::StatusOr<double> ParsePositive(const std::string& text) {
  COPPICE_ASSIGN_OR_RETURN(const double number, ParseNumber(text));
  if (number > 0) return number;
  return InvalidArgument("'{}' is not above 0; give a positive number", text);
}

// Microseconds, or nanoseconds, from 0 on, as seconds.
template <int kPerSecond>
absl::StatusOr<double> ParseTime(const std::string& text) {
  COPPICE_ASSIGN_OR_RETURN(const double number, ParseNumber(text));
  if (number >= 0) return number / kPerSecond;
  return InvalidArgument("'{}' is below 0; give a time of 0 or more", text);
}

absl::StatusOr<std::string> ParseStepColumn(const std::string& text) {
  if (text == "decode_rows" || text == "mixed_tokens") return text;
  return InvalidArgument("'{}' is not a column of steps; give decode_rows or mixed_tokens", text);
}

std::string PresetList() {
  size_t width = 0;
  for (const PaddingPreset& preset : PaddingPresets())
    width = std::max(width, std::string_view(preset.name).size() + 2);
  std::string text;
  for (const PaddingPreset& preset : PaddingPresets())
    text += fmt::format("  {:<{}}{} ({})\n", preset.name, width, preset.rule, preset.source);
  return text;
}

void AddTraffic(Command& command, TrafficOptions& options) {
  command.AddTexts("files", options.files, "TRACE", "CSV, JSON lines, or a server log");
  command.AddRepeated("--column", options.columns, "NAME",
                      "The column of sizes; give two for two symbols that are learned jointly");
  command.AddText(
      "--weight", options.weight, "NAME",
      "The column that says how often a row was seen; default: the column `count`, if there is\n"
      "one");
  command.AddText(
      "--cost", options.cost, "TABLE.csv",
      "Table of the measured cost of a call, with columns `size` and `cost`, and one row per\n"
      "size; default: the cost is the number of elements. With two --column options, the table\n"
      "has either a column for each of them, or a column `size` with their product");
}

void AddLearn(Command& command, TuneLearnOptions& options) {
  AddTraffic(command, options.traffic);
  command.AddCount("--buckets", options.buckets, kTuneCountMax, "Largest number of buckets");
  command.AddParsed(
      "--price", &ParseBytes, options.price,
      "The least that each bucket must save on this traffic, in the unit of the cost, such as\n"
      "64KiB; can be given instead of --buckets, or together with it");
  command.AddCounts(
      "--limit", options.limit, PaddingPolicy::kExtentMax,
      "The last bucket; default: the largest size in the files. For two columns, give A,B");
  command.AddCounts(
      "--align", options.align, PaddingPolicy::kExtentMax,
      "Buckets are multiples of this number, except the limit and forced buckets; default 1. For\n"
      "two columns, give A,B");
  command.AddCount("--product", options.product, int64_t{1} << 48,
                   "With two columns: largest number of elements in a bucket; default: no limit");
  command.AddParsed(
      "--prior", &ParseShare, options.prior,
      "Share of the weight that is spread over sizes without a call, default 0.05; with 0, they\n"
      "get no weight, and there are no doubling buckets above the largest size");
  command.AddParsed(
      "--max-ratio", &ParseRatios, options.max_ratio,
      "Largest ratio of a bucket to the size padded to it; default: no limit. For two columns,\n"
      "give one number for both, or A,B, where 0 is no limit");
  command.AddCounts(
      "--max-gap", options.max_gap, kTuneCountMax,
      "With --max-ratio: padding by up to this many elements is always allowed; for two columns,\n"
      "give one number for both, or A,B");
  command.AddParsed(
      "--force", &ParseForced, options.forced,
      "Sizes that are always buckets, such as the chunk size of a chunked prefill; for two\n"
      "columns, give pairs such as 8x2048");
  command.AddText("-o,--output", options.output, "POLICY.json", "Write the policy here");
  command.AddText("--plot", options.plot, "FILE.svg",
                  "Draw the histogram, the buckets and the waste here");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

void AddScore(Command& command, TuneScoreOptions& options) {
  command.SetFooter(std::string(kScoreNotes) + PresetList() + "\n" + kExitCodes);
  command.AddText("policy", options.policy, "POLICY",
                  "A policy file, a ladder, or the name of a system", Command::Presence::kRequired);
  AddTraffic(command, options.traffic);
  command.AddCounts(
      "--limit", options.limit, PaddingPolicy::kExtentMax,
      "Last bucket of a ladder. By default, the ladder of a system keeps its own last bucket, and\n"
      "other ladders end at the largest size in the files");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

void AddModel(Command& command, StepModel& model) {
  command.AddParsed("--overhead-us", &ParseTime<1'000'000>, model.overhead_s,
                    "Overhead of each step, default 500");
  command.AddParsed("--weights-us", &ParseTime<1'000'000>, model.weights_s,
                    "Time to read the weights, default 4800");
  command.AddParsed("--token-us", &ParseTime<1'000'000>, model.token_s,
                    "Time to compute a token, default 22.4");
  command.AddParsed("--kv-ns", &ParseTime<1'000'000'000>, model.kv_s,
                    "Time to read a token's keys and values, default 39");
  command.AddParsed("--pair-ns", &ParseTime<1'000'000'000>, model.pair_s,
                    "Time that a prompt token takes to attend to one token, default 0.73");
}

void AddRelearning(Command& command, TuneSimulateOptions& options) {
  command.AddFlag("--relearn", options.relearn, "Also relearn the buckets during the simulation");
  command.AddParsed("--column", &ParseStepColumn, options.column,
                    "Sizes to learn from: decode_rows (the default) or mixed_tokens");
  command.AddText("--start", options.start, "POLICY",
                  "The first buckets: a policy file or a ladder, default geometric:1.25:1");
  command.AddCount("--buckets", options.buckets, kTuneCountMax,
                   "Largest number of buckets, default 25");
  command.AddCount("--limit", options.limit, PaddingPolicy::kExtentMax,
                   "The last bucket; default: --seqs for decode_rows, --budget for mixed_tokens");
  command.AddCount("--align", options.align, PaddingPolicy::kExtentMax,
                   "Buckets are multiples of this number, default 1");
  command.AddParsed("--prior", &ParseShare, options.prior,
                    "Share of the total weight given to sizes without calls, default 0.02");
  command.AddParsed("--max-ratio", &ParseRatioOrNone, options.max_ratio,
                    "Largest ratio of a bucket to the size padded to it, default 1.5; 0: no limit");
  command.AddCount("--max-gap", options.max_gap, kTuneCountMax,
                   "Padding by up to this many elements is always allowed, default 2");
  command.AddCount("--period", options.period, kTuneCountMax,
                   "Steps after which buckets are learned again, default 1000");
  command.AddParsed("--gain", &ParsePoints, options.gain,
                    "Percentage points of waste that a swap must save, default 1");
  command.AddParsed(
      "--gain-each", &ParsePoints, options.gain_each,
      "Percentage points that a swap must save in addition for each new graph, default 0.25");
  command.AddCount("--added", options.added, kTuneCountMax,
                   "Largest number of new graphs in a swap, default 4");
  command.AddParsed("--half-life", &ParsePositive, options.half_life,
                    "Steps after which the weight of a step has halved, default 4000");
}

void AddSimulate(Command& command, TuneSimulateOptions& options) {
  command.SetFooter(std::string(kSimulateNotes) + "\n" + kExitCodes);
  command.AddText("trace", options.trace, "TRACE", "Requests", Command::Presence::kRequired);
  SimulatorOptions& simulator = options.simulator;
  command.AddParsed(
      "--load", &ParseLoads, simulator.loads,
      "Offered work divided by capacity, default 0.7; several loads, such as 0.3,0.95, are run\n"
      "one after another");
  command.AddCount("--steps", simulator.decode_steps, 100'000'000,
                   "Decode steps of each load, default 60000");
  command.AddCount("--budget", simulator.budget_tokens, kTuneCountMax,
                   "Largest number of tokens in a step, default 8192");
  command.AddCount("--seqs", simulator.sequences_max, kTuneCountMax,
                   "Requests that run at once, default 512");
  command.AddCount("--kv-tokens", simulator.kv_tokens, 1'000'000'000'000,
                   "Tokens that the KV cache holds, default 440000");
  AddModel(command, simulator.model);
  command.AddParsed("--seed", &ParseSeed, simulator.seed, "Seed of arrivals, default 1");
  command.AddText("-o,--output", options.output, "STEPS.csv", "Write the steps here");
  AddRelearning(command, options);
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

}  // namespace

absl::StatusOr<double> ParseShare(const std::string& text) {
  COPPICE_ASSIGN_OR_RETURN(const double share, ParseNumber(text));
  if (share >= 0 && share < 1) return share;
  return InvalidArgument("'{}' is not a share; give a number of at least 0 and below 1", text);
}

absl::StatusOr<double> ParsePoints(const std::string& text) {
  COPPICE_ASSIGN_OR_RETURN(const double points, ParseNumber(text));
  if (points >= 0) return points;
  return InvalidArgument("'{}' is below 0; give a number of 0 or more", text);
}

absl::StatusOr<std::vector<double>> ParseLoads(const std::string& text) {
  std::vector<double> loads;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const absl::StatusOr<double> load = ParseNumber(text.substr(begin, end - begin));
    if (!load.ok() || *load <= 0 || *load > 10)
      return InvalidArgument(
          "'{}' is not a list of loads; give numbers above 0 and up to 10, such as 0.3,0.95", text);
    loads.push_back(*load);
    begin = end + 1;
  }
  return loads;
}

void AddTune(Command& command, TuneCommandOptions& options) {
  command.SetFooter(std::string(kLearnNotes) + "\n" + kExitCodes);
  AddLearn(command, options.learn);
  AddScore(command.AddSubcommand("score", "What a policy wastes on traffic, per bucket"),
           options.score);
  AddSimulate(
      command.AddSubcommand("simulate", "Simulate a server, and write the sizes of its steps"),
      options.simulate);
  command.AllowNoSubcommand();
}

ExitCode RunTune(const Command& command,
                 const TuneCommandOptions& options,
                 const Console& console) {
  if (command.Given("score")) return TuneScore(options.score, console);
  if (command.Given("simulate")) return TuneSimulate(options.simulate, console);
  return TuneLearn(options.learn, console);
}

}  // namespace coppice
