// Reads the table of what captures forbid.

#include "runtime/emulator/capture_legality.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "coppice/base/status.h"
#include "coppice/base/tsv.h"

extern "C" const char coppice_capture_legality[];

namespace coppice::emulator {
namespace {

constexpr std::string_view kName = "capture legality";
constexpr std::string_view kColumns = "call\tmode\tthread\tresult\tcapture\tevidence";
constexpr int kCaptureErrorMin = 900;
constexpr int kCaptureErrorMax = 908;

// Index of `word` in `words`, or -1.
template <size_t count>
int IndexOf(std::string_view word, const std::string_view (&words)[count]) {
  const auto* const found = std::find(std::begin(words), std::end(words), word);
  return found == std::end(words) ? -1 : static_cast<int>(found - std::begin(words));
}

struct Row {
  int entry = 0;
  int mode = 0;
  int same_thread = 0;
  int result = 0;
  int invalidates = 0;
};

absl::StatusOr<Row> ParseRow(const TsvRow& text) {
  constexpr std::string_view kModes[] = {"global", "thread_local", "relaxed"};
  constexpr std::string_view kThreads[] = {"other", "same"};
  constexpr std::string_view kCaptures[] = {"active", "invalidated"};
  const std::optional<int> entry = FindDriverEntry(text.fields[0]);
  if (!entry.has_value())
    return InvalidArgument("{}:{}: '{}' is not a driver entry; give a name such as {}", kName,
                           text.line, text.fields[0], DriverEntryAt(0).symbol);
  Row row{.entry = *entry,
          .mode = IndexOf(text.fields[1], kModes),
          .same_thread = IndexOf(text.fields[2], kThreads),
          .result = 0,
          .invalidates = IndexOf(text.fields[4], kCaptures)};
  const std::string_view number = text.fields[3];
  const char* const last = number.data() + number.size();
  const auto [end, error] = std::from_chars(number.data(), last, row.result);
  if (row.mode < 0 || row.same_thread < 0 || row.invalidates < 0 || error != std::errc() ||
      end != last)
    return InvalidArgument(
        "{}:{}: '{} {} {} {}' is not a valid row; give a mode (global, thread_local or relaxed), a "
        "thread (same or other), the result as a CUresult number, and the state of the capture "
        "(active or invalidated)",
        kName, text.line, text.fields[1], text.fields[2], number, text.fields[4]);
  return row;
}

}  // namespace

std::string_view CaptureLegality::BuiltIn() {
  return coppice_capture_legality;
}

absl::StatusOr<CaptureLegality> CaptureLegality::Parse(std::string_view table) {
  CaptureLegality legality;
  COPPICE_ASSIGN_OR_RETURN(const std::vector<TsvRow> rows, ParseTsv(table, kName, kColumns));
  for (const TsvRow& text : rows) {
    if (text.fields[0].ends_with(')')) continue;
    COPPICE_ASSIGN_OR_RETURN(const Row row, ParseRow(text));
    // Any other result has nothing to do with the capture.
    const bool forbidden = row.result >= kCaptureErrorMin && row.result <= kCaptureErrorMax;
    legality.verdicts_[row.entry][row.mode][row.same_thread] = {
        .result = forbidden ? static_cast<CuResult>(row.result) : CuResult::kSuccess,
        .invalidates = row.invalidates == 1};
  }
  return legality;
}

}  // namespace coppice::emulator
