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
    "one, says how often a row was seen. Columns of logs: input_tokens, output_tokens (vLLM:\n"
    "max_tokens), running, SGLang's new_tokens, and unpadded_tokens of vLLM's\n"
    "--cudagraph-metrics. vLLM has input_tokens only if it logs token ids.\n"
    "\n"
    "The limit is always a bucket. A prior keeps some buckets for sizes that were not seen yet,\n"
    "and adds buckets that double from the largest size to the limit, on top of --buckets. A cap\n"
    "bounds the padding of every call, seen or not. Waste is 100 x (padded - real) / real.\n"
    "\n"
    "Two columns are learned together: buckets are pairs, and waste is that of their elements.\n"
    "With --cost, it is that of the cost: the table has a column for each size and one for the\n"
    "cost, and a row for each pair of sizes. Caps apply to each size separately, and make the\n"
    "buckets a grid.\n"
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
    "A policy is a document that `coppice tune -o` wrote, a ladder in the form of `coppice run\n"
    "--policy`, or the ladder of another system:\n";

constexpr const char* kSimulateNotes =
    "A trace has columns of input and output tokens, and optionally of arrival times; without\n"
    "these, arrivals are a Poisson process. Usual names are found: prompt_tokens, input_length,\n"
    "ContextTokens, timestamp and others. The server batches continuously and prefills in\n"
    "chunks, like vLLM. Load is the offered work, divided by the work that the server does if\n"
    "all requests are there at once. The trace starts again until there are enough steps.\n"
    "\n"
    "A step takes overhead + max(weights, tokens x token) + context x kv + pairs x pair. The\n"
    "defaults are close to a dense model of 8B on an H100.\n"
    "\n"
    "Steps are written as CSV: decode_rows of steps that only decode, mixed_tokens of the\n"
    "others.\n"
    "\n"
    "With --relearn the steps also run through buckets that are learned again every period, from\n"
    "a decaying histogram, if that saves --gain points of waste, with at most --added new\n"
    "graphs.\n";

constexpr int64_t kTuneCountMax = 1'000'000'000;

absl::StatusOr<double> ParseNumber(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(number))
    return number;
  return InvalidArgument("'{}' is not a number; give one as 0.5", text);
}

absl::StatusOr<double> ParseRatio(const std::string& text) {
  COPPICE_ASSIGN_OR_RETURN(const double ratio, ParseNumber(text));
  if (ratio >= 1) return ratio;
  return InvalidArgument("'{}' is not a ratio; give a number from 1 on, as 1.25", text);
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
  return InvalidArgument("'{}' is not a pair of ratios; give numbers from 1 on or 0, as 1.5,1.25",
                         text);
}

// Sizes, or pairs of them.
absl::StatusOr<std::vector<JointSize>> ParseForced(const std::string& text) {
  const auto refused = [&text] {
    return InvalidArgument(
        "'{}' is not a list of sizes; give numbers from 1 to {} as 512,2048, or pairs as "
        "4x512,8x128",
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
  return InvalidArgument("'{}' is not above 0; give a number that is", text);
}

// Microseconds, or nanoseconds, from 0 on, as seconds.
template <int kPerSecond>
absl::StatusOr<double> ParseTime(const std::string& text) {
  COPPICE_ASSIGN_OR_RETURN(const double number, ParseNumber(text));
  if (number >= 0) return number / kPerSecond;
  return InvalidArgument("'{}' is below 0; give a time from 0 on", text);
}

absl::StatusOr<std::string> ParseStepColumn(const std::string& text) {
  if (text == "decode_rows" || text == "mixed_tokens") return text;
  return InvalidArgument("'{}' is not a column of steps; give decode_rows or mixed_tokens", text);
}

absl::StatusOr<uint64_t> ParseTuneSeed(const std::string& text) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc() && end == text.data() + text.size()) return seed;
  return InvalidArgument("'{}' is not a seed; give a whole number from 0 to 2^64 - 1", text);
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
  command.AddTexts("files", options.files, "TRACE", "CSV, JSON lines, or a log of a server");
  command.AddRepeated("--column", options.columns, "NAME",
                      "The column of sizes; give two for two symbols that are learned jointly");
  command.AddText("--weight", options.weight, "NAME",
                  "The column that says how often a row was seen, default count, if there is one");
  command.AddText("--cost", options.cost, "TABLE.csv",
                  "Measured cost of a call: columns size and cost, each size once; default its "
                  "elements. With\n"
                  "two columns, size is their product, or the table has both columns");
}

void AddLearn(Command& command, TuneLearnOptions& options) {
  AddTraffic(command, options.traffic);
  command.AddCount("--buckets", options.buckets, kTuneCountMax, "Most buckets");
  command.AddParsed("--price", &ParseBytes, options.price,
                    "What a bucket has to save on this traffic, in the unit of the cost, such as "
                    "64KiB;\n"
                    "in place of --buckets, or with it");
  command.AddCounts("--limit", options.limit, PaddingPolicy::kExtentMax,
                    "The last bucket, default the largest size there is; with two columns A,B");
  command.AddCounts("--align", options.align, PaddingPolicy::kExtentMax,
                    "Buckets are multiples of it, except the limit and forced ones; default 1; "
                    "with two\n"
                    "columns A,B");
  command.AddCount("--product", options.product, int64_t{1} << 48,
                   "With two columns: most elements of a bucket, default any");
  command.AddParsed("--prior", &ParseShare, options.prior,
                    "Share of the weight that is spread over sizes without a call, default 0.05;\n"
                    "0: none, and no buckets that double");
  command.AddParsed("--max-ratio", &ParseRatios, options.max_ratio,
                    "Pad no size to more than this times itself, default any; with two columns a "
                    "number\n"
                    "for both, or A,B; 0 is any");
  command.AddCounts("--max-gap", options.max_gap, kTuneCountMax,
                    "With --max-ratio: or by this many more elements; with two columns also A,B");
  command.AddParsed("--force", &ParseForced, options.forced,
                    "Sizes that are always buckets, such as the chunk size of a chunked prefill; "
                    "with two\n"
                    "columns pairs, such as 8x2048");
  command.AddText("-o,--output", options.output, "POLICY.json", "Write the policy here");
  command.AddText("--plot", options.plot, "FILE.svg", "Draw histogram, buckets and waste here");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

void AddScore(Command& command, TuneScoreOptions& options) {
  command.SetFooter(std::string(kScoreNotes) + PresetList() + "\n" + kExitCodes);
  command.AddText("policy", options.policy, "POLICY", "A document, a ladder or a system's name",
                  Command::Presence::kRequired);
  AddTraffic(command, options.traffic);
  command.AddCounts("--limit", options.limit, PaddingPolicy::kExtentMax,
                    "Last bucket of a ladder, default its system's, or the largest size there is");
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
                    "Time of a prompt's token to attend to one token, default 0.73");
}

void AddRelearning(Command& command, TuneSimulateOptions& options) {
  command.AddFlag("--relearn", options.relearn, "Also learn buckets again during the simulation");
  command.AddParsed("--column", &ParseStepColumn, options.column,
                    "Sizes to learn from: decode_rows, the default, or mixed_tokens");
  command.AddText("--start", options.start, "POLICY",
                  "The first buckets: a document or a ladder, default geometric:1.25:1");
  command.AddCount("--buckets", options.buckets, kTuneCountMax, "Most buckets, default 25");
  command.AddCount("--limit", options.limit, PaddingPolicy::kExtentMax,
                   "The last bucket, default --seqs or --budget");
  command.AddCount("--align", options.align, PaddingPolicy::kExtentMax, "Default 1");
  command.AddParsed("--prior", &ParseShare, options.prior, "Default 0.02");
  command.AddParsed("--max-ratio", &ParseRatioOrNone, options.max_ratio,
                    "Default 1.5; 0: any padding");
  command.AddCount("--max-gap", options.max_gap, kTuneCountMax, "Default 2");
  command.AddCount("--period", options.period, kTuneCountMax,
                   "Steps from one learning to the next, default 1000");
  command.AddParsed("--gain", &ParsePoints, options.gain,
                    "Points of waste that a swap has to save, default 1");
  command.AddParsed("--gain-each", &ParsePoints, options.gain_each,
                    "The same for each new graph, default 0.25");
  command.AddCount("--added", options.added, kTuneCountMax, "Most new graphs in a swap, default 4");
  command.AddParsed("--half-life", &ParsePositive, options.half_life,
                    "Steps after which a step counts half, default 4000");
}

void AddSimulate(Command& command, TuneSimulateOptions& options) {
  command.SetFooter(std::string(kSimulateNotes) + "\n" + kExitCodes);
  command.AddText("trace", options.trace, "TRACE", "Requests", Command::Presence::kRequired);
  SimulatorOptions& simulator = options.simulator;
  command.AddParsed("--load", &ParseLoads, simulator.loads,
                    "Offered work over capacity; several are run one after another; default 0.7");
  command.AddCount("--steps", simulator.decode_steps, 100'000'000,
                   "Decode steps of each load, default 60000");
  command.AddCount("--budget", simulator.budget_tokens, kTuneCountMax,
                   "Tokens of a step, default 8192");
  command.AddCount("--seqs", simulator.sequences_max, kTuneCountMax,
                   "Requests that run at once, default 512");
  command.AddCount("--kv-tokens", simulator.kv_tokens, 1'000'000'000'000,
                   "Tokens that the KV cache holds, default 440000");
  AddModel(command, simulator.model);
  command.AddParsed("--seed", &ParseTuneSeed, simulator.seed, "Seed of arrivals, default 1");
  command.AddText("-o,--output", options.output, "STEPS.csv", "Write the steps here");
  AddRelearning(command, options);
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

}  // namespace

absl::StatusOr<double> ParseShare(const std::string& text) {
  COPPICE_ASSIGN_OR_RETURN(const double share, ParseNumber(text));
  if (share >= 0 && share < 1) return share;
  return InvalidArgument("'{}' is not a share; give a number from 0 up to, not including, 1", text);
}

absl::StatusOr<double> ParsePoints(const std::string& text) {
  COPPICE_ASSIGN_OR_RETURN(const double points, ParseNumber(text));
  if (points >= 0) return points;
  return InvalidArgument("'{}' is below 0; give points of waste from 0 on", text);
}

absl::StatusOr<std::vector<double>> ParseLoads(const std::string& text) {
  std::vector<double> loads;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const absl::StatusOr<double> load = ParseNumber(text.substr(begin, end - begin));
    if (!load.ok() || *load <= 0 || *load > 10)
      return InvalidArgument("'{}' is not a list of loads; give numbers above 0, as 0.3,0.95",
                             text);
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
  AddSimulate(command.AddSubcommand("simulate", "From requests to the sizes of a server's steps"),
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
