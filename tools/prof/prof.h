// `coppice prof`: what the trace of a session says about its memory and its calls.
//
// Equal traces give equal output, byte for byte.
//
// Units: bytes, nanoseconds, elements. Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "tools/prof/pool_trace.h"
#include "tools/support/console.h"

namespace coppice {

// What `coppice prof buckets` puts first: the largest, and of kId the smallest.
enum class BucketOrder : uint8_t {
  kId,
  kCalls,
  kReplays,
  kEager,
  kPadding,
  kHeight,
  kExclusive,
  kShared,
  kExec,
  kRecord,
};
inline constexpr int kBucketOrderCount = 10;

// "id", "calls", "replays", "eager", "padding", "height", "exclusive", "shared", "exec", "record".
const char* NameOf(BucketOrder order);
absl::StatusOr<BucketOrder> ParseBucketOrder(const std::string& text);

// A whole number from 0. Error: kInvalidArgument.
absl::StatusOr<int64_t> ParseBucketId(const std::string& text);

// A share that --fail-over takes, in percent: from 0, finite. Error: kInvalidArgument.
absl::StatusOr<double> ParsePercent(const std::string& text);

struct ProfOptions {
  std::string trace;
  std::string other;                // diff: the trace after the change.
  std::optional<double> fail_over;  // diff: growth of memory or padding, in percent, that fails.
  std::string page;                 // diff: where its page goes, "-" is standard output; or empty.
  bool json = false;
  BucketOrder sort = BucketOrder::kCalls;  // buckets.
  std::string program;            // buckets, why, policy, drop, kernels: only this; empty: all.
  std::string package;            // kernels: the package of the programs; empty: none is given.
  std::optional<int64_t> bucket;  // map: this bucket's nodes over their steps.
  std::string out;                // map, html: where it goes; empty: see OutputOf.
  bool what_if = false;           // html: the view of what-ifs, too.
  bool ascii = false;             // map: the picture as text on standard output.
  int64_t limit = 0;              // why, marks, check, diff: lines; 0: 50.
  bool strict = false;            // check: what the trace lacks is a finding.
};

// One per subcommand. Exit codes: 0, or 1 from ProfCheck if it found something, and from ProfDiff
// if too much grew; 2 the trace cannot be read; 4 the picture cannot be written.
ExitCode ProfSummary(const ProfOptions& options, const Console& console);
ExitCode ProfBuckets(const ProfOptions& options, const Console& console);
ExitCode ProfMap(const ProfOptions& options, const Console& console);
ExitCode ProfWhy(const ProfOptions& options, const Console& console);
ExitCode ProfMarks(const ProfOptions& options, const Console& console);
ExitCode ProfCheck(const ProfOptions& options, const Console& console);
ExitCode ProfDiff(const ProfOptions& options, const Console& console);
ExitCode ProfPolicy(const ProfOptions& options, const Console& console);
ExitCode ProfDrop(const ProfOptions& options, const Console& console);

// What the subcommands share.

inline constexpr int64_t kProfLinesDefault = 50;

// "coppice prof: message", and `code`.
ExitCode FailProf(const Console& console, const absl::Status& status, ExitCode code = kExitUsage);

// Where a picture or a page goes, and whether somebody has to be told.
struct ProfOutput {
  std::string path;     // Empty: nowhere; "-": standard output.
  bool chosen = false;  // Nobody named it: the trace's path, with `suffix` in place of ".trace".
};

// What -o means, `suffix` being ".svg", ".bucket3.svg" or ".html". Where nothing else is printed a
// command without -o writes beside the trace.
//
// Errors: kInvalidArgument  the output is the trace, or two things would go to standard output.
absl::StatusOr<ProfOutput> OutputOf(const ProfOptions& options, std::string_view suffix);

// Writes `text` there, and says where if nobody named it.
//
// Errors: kFailedPrecondition  the file cannot be written.
absl::Status WriteOutput(const ProfOutput& output, std::string_view text, const Console& console);

// The object as text of two spaces per level, ending in a newline.
std::string Dump(const nlohmann::ordered_json& json);

// Which programs `name` means: those called so, or so with their variant; all if it is empty.
// Errors: kInvalidArgument  none is; lists those there are.
absl::StatusOr<std::vector<bool>> ChoosePrograms(const PoolTrace& trace, const std::string& name);

// A line for people, about what the trace lacks; empty if nothing.
std::string NoteGaps(const PoolTrace& trace);

}  // namespace coppice
