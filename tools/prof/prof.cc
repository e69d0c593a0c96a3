// What the subcommands of `coppice prof` share.

#include "tools/prof/prof.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/support/text_file.h"
#include "tools/support/text_table.h"

namespace coppice {

const char* NameOf(BucketOrder order) {
  static constexpr std::array kNames = {"id",     "calls",     "replays", "eager", "padding",
                                        "height", "exclusive", "shared",  "exec",  "record"};
  static_assert(kNames.size() == kBucketOrderCount);
  return kNames[static_cast<size_t>(order)];
}

absl::StatusOr<BucketOrder> ParseBucketOrder(const std::string& text) {
  std::vector<const char*> names;
  for (int i = 0; i < kBucketOrderCount; ++i) {
    names.push_back(NameOf(static_cast<BucketOrder>(i)));
    if (text == names.back()) return static_cast<BucketOrder>(i);
  }
  return InvalidArgument("'{}' is not an order; give one of {}", text, fmt::join(names, ", "));
}

absl::StatusOr<int64_t> ParseBucketId(const std::string& text) {
  int64_t id = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, id);
  if (error == std::errc() && end == last && id >= 0) return id;
  return InvalidArgument("'{}' is not a bucket; give a number that `coppice prof buckets` lists",
                         text);
}

ExitCode FailProf(const Console& console, const absl::Status& status, ExitCode code) {
  Print(console.err, "coppice prof: {}\n", MessageOf(status));
  return code;
}

absl::StatusOr<ProfOutput> OutputOf(const ProfOptions& options, std::string_view suffix) {
  constexpr std::string_view kTraceSuffix = ".trace";
  const bool prints = options.json || options.ascii;
  if (options.out == "-" && prints)
    return InvalidArgument(
        "-o - and {} both print to standard output; give only one of them, or -o FILE{} instead of "
        "-o -",
        options.json ? "--json" : "--ascii", suffix);
  ProfOutput output = {.path = options.out};
  if (output.path.empty() && !prints) {
    const std::string_view trace = options.trace;
    output.path = trace.substr(
        0, trace.ends_with(kTraceSuffix) ? trace.size() - kTraceSuffix.size() : trace.size());
    output.path += suffix;
    output.chosen = true;
  }
  if (output.path != "-")
    COPPICE_RETURN_IF_ERROR(CheckOutputs({&options.trace, 1}, {&output.path, 1}));
  return output;
}

absl::Status WriteOutput(const ProfOutput& output, std::string_view text, const Console& console) {
  if (output.path.empty()) return absl::OkStatus();
  if (output.path == "-") {
    std::fwrite(text.data(), 1, text.size(), console.out);
    return absl::OkStatus();
  }
  COPPICE_RETURN_IF_ERROR(WriteTextFile(output.path, text));
  if (output.chosen) Print(console.out, "wrote {}\n", output.path);
  return absl::OkStatus();
}

std::string Dump(const nlohmann::ordered_json& json) {
  // A name may hold bytes that are not UTF-8.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

absl::StatusOr<std::vector<bool>> ChoosePrograms(const PoolTrace& trace, const std::string& name) {
  std::vector<bool> chosen;
  std::vector<std::string> labels;
  for (const TracedProgram& program : trace.programs) {
    labels.push_back(LabelOf(program));
    chosen.push_back(name.empty() || name == program.name || name == labels.back());
  }
  if (name.empty() || std::find(chosen.begin(), chosen.end(), true) != chosen.end()) return chosen;
  return InvalidArgument("the trace has no program {}; its programs are {}", Quote(name),
                         fmt::join(labels, ", "));
}

std::string NoteGaps(const PoolTrace& trace) {
  std::string note;
  if (trace.dropped > 0) {
    note += fmt::format(
        "note: the session dropped {} because a ring buffer was full, so counts are too low; make "
        "TraceOptions::events_per_lane larger, or set wait_when_full\n",
        Counted(trace.dropped, "event"));
  }
  if (!trace.ended)
    note += "note: the trace has no end: the session was still running, or ended abnormally\n";
  return note;
}

}  // namespace coppice
