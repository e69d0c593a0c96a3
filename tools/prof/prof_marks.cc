// What happened between the marks that an application set.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/prof/prof.h"
#include "tools/support/byte_text.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

// From a mark to the next.
struct Phase {
  int64_t time_ns = 0;
  int mark = -1;  // Place in PoolTrace::marks; -1: from the session's beginning to its first mark.
  int64_t calls = 0;
  int64_t replays = 0;
  int64_t recorded = 0;
  int64_t evicted = 0;
  int64_t peak_bytes = 0;  // Of all kinds: the most there was, at the mark or behind it.
  int64_t end_bytes = 0;   // What the last event of the phase told, and
  int64_t end_ns = -1;     // when; -1: none did.
};

struct Phases {
  PoolTrace trace;
  std::vector<Phase> phases;  // In order of time, those of one time as they were set.
};

void Count(const TracedEvent& event, Phase& phase) {
  std::visit(Cases{[&](const CallEvent& call) {
                     ++phase.calls;
                     phase.replays += call.path == RunKind::kReplay ? 1 : 0;
                   },
                   [&](const RecordEvent& /*record*/) { ++phase.recorded; },
                   [&](const EvictEvent& /*evict*/) { ++phase.evicted; },
                   [&](const BytesEvent& bytes) {
                     phase.peak_bytes = std::max(phase.peak_bytes, bytes.total_bytes);
                     if (event.time_ns < phase.end_ns) return;
                     phase.end_ns = event.time_ns;
                     phase.end_bytes = bytes.total_bytes;
                   },
                   [](const auto& /*other*/) {}},
             event.what);
}

// Lanes follow each other in pieces, so that a call may come in the file long before the mark that
// it came after: the file is read once for the marks, and once for the rest.
absl::StatusOr<Phases> ReadPhases(const std::string& path) {
  Phases read;
  read.phases.emplace_back();
  COPPICE_RETURN_IF_ERROR(ReadPoolTrace(path, [&](const PoolTrace&, const TracedEvent& event) {
                            if (const auto* const mark = event.As<MarkEvent>())
                              read.phases.push_back({.time_ns = event.time_ns, .mark = mark->mark});
                          }).status());
  std::ranges::stable_sort(read.phases, {}, &Phase::time_ns);
  COPPICE_ASSIGN_OR_RETURN(
      read.trace, ReadPoolTrace(path, [&](const PoolTrace&, const TracedEvent& event) {
        const auto next = std::ranges::upper_bound(read.phases, event.time_ns, {}, &Phase::time_ns);
        Count(event, *std::prev(next));
      }));
  int64_t at_mark = 0;
  for (Phase& phase : read.phases) {
    phase.peak_bytes = std::max(phase.peak_bytes, at_mark);
    if (phase.end_ns >= 0) at_mark = phase.end_bytes;
  }
  return read;
}

std::string NameOfMark(const PoolTrace& trace, const Phase& phase) {
  return phase.mark < 0 ? "" : trace.marks[static_cast<size_t>(phase.mark)];
}

std::string MarksJson(const Phases& read) {
  nlohmann::ordered_json phases = nlohmann::ordered_json::array();
  for (const Phase& phase : read.phases) {
    nlohmann::ordered_json row = {{"time_ns", phase.time_ns}, {"mark", nullptr}};
    if (phase.mark >= 0) row["mark"] = NameOfMark(read.trace, phase);
    row["calls"] = phase.calls;
    row["replays"] = phase.replays;
    row["graphs_recorded"] = phase.recorded;
    row["graphs_evicted"] = phase.evicted;
    row["total_peak_bytes"] = phase.peak_bytes;
    phases.push_back(std::move(row));
  }
  return Dump({{"schema", kPoolTraceSchema},
               {"ended", read.trace.ended},
               {"dropped_events", read.trace.dropped},
               {"phases", phases}});
}

std::string MarksTable(const Phases& read, size_t lines) {
  TextTable table("rrrrrrl",
                  {"seconds", "calls", "replays", "recorded", "evicted", "peak", "from mark"});
  for (size_t i = 0; i < lines; ++i) {
    const Phase& phase = read.phases[i];
    table.Add({fmt::format("{:.6f}", static_cast<double>(phase.time_ns) / 1e9),
               fmt::format("{}", phase.calls), fmt::format("{}", phase.replays),
               fmt::format("{}", phase.recorded), fmt::format("{}", phase.evicted),
               FormatBytes(phase.peak_bytes),
               phase.mark < 0 ? "(the beginning)" : NameOfMark(read.trace, phase)});
  }
  return table.Format();
}

}  // namespace

ExitCode ProfMarks(const ProfOptions& options, const Console& console) {
  const absl::StatusOr<Phases> read = ReadPhases(options.trace);
  if (!read.ok()) return FailProf(console, read.status());
  if (options.json) {
    Print(console.out, "{}", MarksJson(*read));
    return kExitOk;
  }
  const auto limit = static_cast<size_t>(options.limit > 0 ? options.limit : kProfLinesDefault);
  const size_t lines = std::min(limit, read->phases.size());
  Print(console.out, "{}{}", NoteGaps(read->trace), MarksTable(*read, lines));
  if (read->trace.marks.empty())
    Print(console.out,
          "  no mark was set; set marks with Session::trace().Mark, coppice_mark or "
          "coppice.prof.mark\n");
  if (lines < read->phases.size())
    Print(console.out, "  ... and {} more; give --limit\n", read->phases.size() - lines);
  return kExitOk;
}

}  // namespace coppice
