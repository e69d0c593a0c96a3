// One row per mapping.

#include <iterator>

#include "fmt/compile.h"
#include "fmt/format.h"

#include "tools/prof/export/memory_history.h"
#include "tools/prof/export/text_formats.h"

namespace coppice {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

}  // namespace

std::string RmmCsvOf(const TracedSession& session) {
  std::string text = "Thread,Time,Action,Pointer,Size,Stream\n";
  for (const HistoryStep& step : HistoryOf(session).steps) {
    const bool map = step.action == HistoryAction::kMap;
    if (!map && step.action != HistoryAction::kUnmap) continue;
    const int64_t seconds = step.time_ns / kNsPerSecond;
    fmt::format_to(std::back_inserter(text),
                   FMT_COMPILE("0,{:02}:{:02}:{:02}.{:06},{},{:#x},{},0\n"), seconds / 3600 % 24,
                   seconds / 60 % 60, seconds % 60, step.time_ns % kNsPerSecond / 1000,
                   map ? "allocate" : "free", step.address, step.bytes);
  }
  return text;
}

}  // namespace coppice
