// Names, columns, and steps that are simulated.

#include "tools/fit/fit_traffic.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/padding/padding_policy.h"

#include "tools/support/progress.h"
#include "tools/support/text_file.h"
#include "tools/tune/timed_requests.h"
#include "tools/tune/trace_columns.h"
#include "tools/tune/tune_traffic.h"

namespace coppice {
namespace {

constexpr const char* kDecodeRows = "decode_rows";
constexpr const char* kMixedTokens = "mixed_tokens";

struct SymbolPlace {
  int program = 0;
  int symbol = 0;
  friend auto operator<=>(const SymbolPlace&, const SymbolPlace&) = default;
};

const package::Symbol& SymbolAt(const package::Manifest& manifest, SymbolPlace place) {
  return manifest.programs[static_cast<size_t>(place.program)]
      .symbols[static_cast<size_t>(place.symbol)];
}

std::string NameOf(const package::Manifest& manifest, SymbolPlace place) {
  return fmt::format("{}.{}", manifest.programs[static_cast<size_t>(place.program)].name,
                     SymbolAt(manifest, place).name);
}

std::vector<std::pair<std::string, SymbolPlace>> AllSymbols(const package::Manifest& manifest) {
  std::vector<std::pair<std::string, SymbolPlace>> all;
  for (int program = 0; program < static_cast<int>(manifest.programs.size()); ++program) {
    const auto& symbols = manifest.programs[static_cast<size_t>(program)].symbols;
    for (int symbol = 0; symbol < static_cast<int>(symbols.size()); ++symbol)
      all.emplace_back(NameOf(manifest, {program, symbol}), SymbolPlace{program, symbol});
  }
  return all;
}

std::optional<SymbolPlace> Find(const package::Manifest& manifest, std::string_view name) {
  for (const auto& [other, place] : AllSymbols(manifest))
    if (other == name) return place;
  return std::nullopt;
}

std::string SymbolNames(const package::Manifest& manifest) {
  std::vector<std::string> names;
  for (const auto& [name, place] : AllSymbols(manifest))
    names.push_back(name);
  return names.empty() ? "no symbol" : fmt::format("{}", fmt::join(names, ", "));
}

// What stands on the right of "PROGRAM.SYMBOL=...", by symbol.
absl::StatusOr<std::map<SymbolPlace, std::string>> ParseGiven(
    const package::Manifest& manifest,
    const std::string& option,
    const std::vector<std::string>& texts) {
  std::map<SymbolPlace, std::string> given;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    const std::optional<SymbolPlace> place = Find(manifest, text.substr(0, equals));
    if (equals == std::string::npos || equals + 1 == text.size() || !place)
      return InvalidArgument("{} {}: give PROGRAM.SYMBOL=VALUE; the package has {}", option,
                             Quote(text), SymbolNames(manifest));
    if (!given.emplace(*place, text.substr(equals + 1)).second)
      return InvalidArgument("{} {}: {} already has a value; give one value per symbol", option,
                             Quote(text), NameOf(manifest, *place));
  }
  return given;
}

absl::StatusOr<std::map<SymbolPlace, int64_t>> ParseSizes(const package::Manifest& manifest,
                                                          const std::string& option,
                                                          const std::vector<std::string>& texts) {
  COPPICE_ASSIGN_OR_RETURN(const auto given, ParseGiven(manifest, option, texts));
  std::map<SymbolPlace, int64_t> sizes;
  for (const auto& [place, text] : given) {
    const package::Symbol& symbol = SymbolAt(manifest, place);
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || end != text.data() + text.size() || size < symbol.min ||
        size > symbol.max || size % symbol.multiple_of != 0)
      return InvalidArgument(
          "{} {}={}: the package does not allow this size; give a multiple of {} from {} to {}",
          option, NameOf(manifest, place), text, symbol.multiple_of, symbol.min, symbol.max);
    sizes.emplace(place, size);
  }
  return sizes;
}

// The symbols of a decoder, as `coppice run --package` knows them, by column.
std::map<SymbolPlace, std::string> DecoderSizes(const package::Manifest& manifest) {
  const std::optional<SymbolPlace> decode = Find(manifest, "decode.batch");
  const std::optional<SymbolPlace> prefill = Find(manifest, "prefill.length");
  if (!decode || !prefill) return {};
  return {{*decode, kDecodeRows}, {*prefill, kMixedTokens}};
}

// Whether all files have the column. Errors: kInvalidArgument  one has neither it nor requests.
absl::StatusOr<bool> HaveColumn(const std::vector<std::string>& files,
                                const ProgramTraffic& traffic,
                                const Console& console) {
  bool all = true;
  for (const std::string& path : files) {
    Progress progress(console.err, /*enabled=*/true, "read " + path);
    COPPICE_ASSIGN_OR_RETURN(
        const TraceColumns columns,
        ReadTraceColumns(path,
                         {KnownColumn(traffic.column, ColumnKind::kSize, /*required=*/false),
                          KnownColumn("input_tokens", ColumnKind::kSize, /*required=*/false),
                          KnownColumn("output_tokens", ColumnKind::kSize, /*required=*/false)},
                         [&](int64_t done, int64_t total) { progress.Update(done, total); }));
    all = all && columns.found[0];
    if (!columns.found[0] && !(columns.found[1] && columns.found[2]))
      return InvalidArgument(
          "{}: the file has neither a column {} for {}, nor the columns input_tokens and "
          "output_tokens; name the column of each symbol, for example with --size "
          "{}=COLUMN",
          path, traffic.column, traffic.name, traffic.name);
  }
  return all;
}

// Steps of a server that the requests of all files come to.
absl::StatusOr<std::vector<SimulatedStep>> StepsOf(const std::vector<std::string>& files,
                                                   const SimulatorOptions& simulator,
                                                   const Console& console) {
  std::vector<SimulatedStep> steps;
  for (const std::string& path : files) {
    COPPICE_ASSIGN_OR_RETURN(const std::vector<TimedRequest> requests, ReadRequests(path, console));
    Progress progress(console.err, /*enabled=*/true, "simulate " + path);
    SimulatedSteps simulated = SimulateSteps(requests, simulator, [&](int64_t done, int64_t total) {
      progress.Update(done, total);
      return !console.stopped();
    });
    if (console.stopped()) return absl::CancelledError(kStopped);
    if (simulated.steps.empty())
      return InvalidArgument(
          "{}: no step could be simulated; give steps with decode_rows and "
          "mixed_tokens, as `coppice tune simulate -o` writes them",
          path);
    steps.insert(steps.end(), simulated.steps.begin(), simulated.steps.end());
  }
  return steps;
}

// Symbols and limits; histograms are empty yet.
absl::StatusOr<std::vector<ProgramTraffic>> FindPrograms(const package::Manifest& manifest,
                                                         const FitOptions& options) {
  COPPICE_ASSIGN_OR_RETURN(auto columns, ParseGiven(manifest, "--size", options.sizes));
  COPPICE_ASSIGN_OR_RETURN(const auto at, ParseSizes(manifest, "--at", options.at));
  COPPICE_ASSIGN_OR_RETURN(const auto limits, ParseSizes(manifest, "--limit", options.limits));
  if (columns.empty()) columns = DecoderSizes(manifest);
  if (columns.empty())
    return InvalidArgument(
        "the package is not a decoder with decode.batch and prefill.length; give --size "
        "PROGRAM.SYMBOL=COLUMN for each symbol whose sizes are in the traffic; the package has {}",
        SymbolNames(manifest));
  std::vector<ProgramTraffic> programs;
  for (const auto& [place, column] : columns) {
    if (!programs.empty() && programs.back().program == place.program)
      return InvalidArgument(
          "--size {}: the program already has --size {}; fit learns one symbol per program, so "
          "give the others with --at",
          NameOf(manifest, place), programs.back().name);
    const package::Symbol& symbol = SymbolAt(manifest, place);
    ProgramTraffic& traffic = programs.emplace_back();
    traffic.program = place.program;
    traffic.symbol = place.symbol;
    traffic.name = NameOf(manifest, place);
    traffic.column = column;
    traffic.align = symbol.multiple_of;
    const auto limit = limits.find(place);
    traffic.limit = limit != limits.end() ? limit->second : 0;
    const auto& symbols = manifest.programs[static_cast<size_t>(place.program)].symbols;
    if (at.contains(place))
      return InvalidArgument(
          "--at {}: the traffic already has the sizes of this symbol; leave --at out",
          traffic.name);
    for (int i = 0; i < static_cast<int>(symbols.size()); ++i) {
      const package::Symbol& other = symbols[static_cast<size_t>(i)];
      const auto given = at.find({place.program, i});
      traffic.extents.push_back(given != at.end() ? given->second
                                : other.hint >= 0 ? other.hint
                                                  : std::max<int64_t>(other.min, 1));
    }
  }
  return programs;
}

// Whether a call may have the size: others are refused by the program's guards.
bool Allows(const package::Symbol& symbol, int64_t size) {
  return size >= std::max<int64_t>(symbol.min, 1) &&
         size <= std::min(symbol.max, PaddingPolicy::kExtentMax) && size % symbol.multiple_of == 0;
}

// Sets what the calls of these sizes mean for the program, and its limit if that is not given.
absl::Status TakeSizes(const package::Symbol& symbol,
                       const SizeHistogram& sizes,
                       ProgramTraffic& traffic) {
  for (const SizeCount& each : sizes.counts()) {
    if (Allows(symbol, each.size))
      traffic.sizes.Add(each.size, each.count);
    else
      traffic.refused += each.count;
  }
  if (traffic.sizes.empty())
    return InvalidArgument(
        "{}: no size in column {} is in the range that the package allows, {} to {}; give traffic "
        "with such sizes",
        traffic.name, traffic.column, symbol.min, symbol.max);
  if (traffic.limit == 0) traffic.limit = traffic.sizes.largest();
  const int64_t least = traffic.sizes.counts().front().size;
  if (least > traffic.limit)
    return InvalidArgument("--limit {}={}: no call is that small; give at least {}", traffic.name,
                           traffic.limit, least);
  if (traffic.sizes.largest() > traffic.limit) traffic.beyond = traffic.sizes.largest();
  return absl::OkStatus();
}

bool IsOfSteps(const ProgramTraffic& traffic) {
  return traffic.column == kDecodeRows || traffic.column == kMixedTokens;
}

int64_t LargestOf(const package::Manifest& manifest,
                  const std::vector<ProgramTraffic>& programs,
                  const char* column) {
  for (const ProgramTraffic& each : programs)
    if (each.column == column) {
      const int64_t most = SymbolAt(manifest, {each.program, each.symbol}).max;
      return std::min({each.limit > 0 ? each.limit : most, most, PaddingPolicy::kExtentMax});
    }
  return 0;
}

SizeHistogram HistogramOf(const std::vector<SimulatedStep>& steps, bool decode) {
  std::map<int64_t, double> counts;
  for (const SimulatedStep& step : steps)
    if (step.decode == decode) counts[step.size] += 1;
  SizeHistogram sizes;
  for (const auto& [size, count] : counts)
    sizes.Add(size, count);
  return sizes;
}

}  // namespace

absl::StatusOr<std::vector<ProgramTraffic>> ReadFitTraffic(const package::Manifest& manifest,
                                                           const FitOptions& options,
                                                           const Console& console) {
  COPPICE_ASSIGN_OR_RETURN(std::vector<ProgramTraffic> programs, FindPrograms(manifest, options));
  // All of them, if one is: half a server would be none.
  bool simulates = false;
  for (const ProgramTraffic& each : programs) {
    if (!IsOfSteps(each)) continue;
    COPPICE_ASSIGN_OR_RETURN(const bool there, HaveColumn(options.traffic, each, console));
    simulates = simulates || !there;
  }
  std::vector<SimulatedStep> steps;
  if (simulates) {
    SimulatorOptions simulator = options.simulator;
    const int64_t rows = LargestOf(manifest, programs, kDecodeRows);
    const int64_t tokens = LargestOf(manifest, programs, kMixedTokens);
    if (simulator.sequences_max == 0) simulator.sequences_max = std::max<int64_t>(rows, 1);
    if (simulator.budget_tokens == 0) simulator.budget_tokens = std::max<int64_t>(tokens, 1);
    COPPICE_ASSIGN_OR_RETURN(steps, StepsOf(options.traffic, simulator, console));
  }
  for (ProgramTraffic& each : programs) {
    SizeHistogram sizes;
    if (simulates && IsOfSteps(each)) {
      each.simulated = true;
      sizes = HistogramOf(steps, each.column == kDecodeRows);
    } else {
      COPPICE_ASSIGN_OR_RETURN(
          Traffic traffic,
          ReadTraffic(
              {.files = options.traffic, .columns = {each.column}, .weight = {}, .cost = {}},
              console));
      sizes = std::move(traffic.histogram);
    }
    COPPICE_RETURN_IF_ERROR(
        TakeSizes(SymbolAt(manifest, {each.program, each.symbol}), sizes, each));
  }
  return programs;
}

}  // namespace coppice
