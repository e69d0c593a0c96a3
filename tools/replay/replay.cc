// Reads a case, finds its package, examines and perhaps shrinks it.

#include "tools/replay/replay.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/graphs/case_file.h"

#include "tools/package/package_rewrite.h"
#include "tools/replay/case_buffers.h"
#include "tools/replay/examination.h"
#include "tools/replay/shrink_case.h"
#include "tools/support/printable.h"
#include "tools/support/scratch_folder.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

// Keeps the last calls and those whose outputs they read.
void KeepLast(int64_t count, Case& value) {
  if (std::ssize(value.calls) <= count) return;
  std::set<uint64_t> needed;
  const auto first_kept = static_cast<ptrdiff_t>(value.calls.size()) - count;
  for (auto i = static_cast<ptrdiff_t>(value.calls.size()) - 1; i >= 0; --i) {
    const CaseCall& call = value.calls[static_cast<size_t>(i)];
    if (i < first_kept && !needed.contains(call.number)) continue;
    needed.insert(call.number);
    for (const CaseInput& input : call.inputs)
      if (input.output >= 0) needed.insert(input.call);
  }
  std::erase_if(value.calls, [&](const CaseCall& call) { return !needed.contains(call.number); });
}

std::string OutputOf(const ReplayOptions& options) {
  return options.output.empty() ? options.path + ".shrunk" : options.output;
}

class ReplayJob {
 public:
  explicit ReplayJob(const ReplayOptions& options) : options_(options) {}

  absl::Status Run(const Console& console);
  const Verdict& verdict() const { return verdict_; }

 private:
  // The package's path; the one in the case goes into a folder for that. Empty: there is none.
  absl::StatusOr<std::string> FindPackage(const Case& value);
  absl::Status Shrink(const Examination& examination, const Case& value, const Console& console);

  const ReplayOptions& options_;
  std::optional<ScratchFolder> scratch_;
  Verdict verdict_;
};

absl::StatusOr<std::string> ReplayJob::FindPackage(const Case& value) {
  if (!options_.package.empty()) return options_.package;
  if (value.package.empty()) return std::string();
  COPPICE_ASSIGN_OR_RETURN(ScratchFolder scratch, ScratchFolder::Create());
  scratch_.emplace(std::move(scratch));
  std::string path = scratch_->path() + "/package.zip";
  COPPICE_RETURN_IF_ERROR(WriteTextFile(path, value.package));
  return path;
}

absl::Status ReplayJob::Shrink(const Examination& examination,
                               const Case& value,
                               const Console& console) {
  if (verdict_.call == 0) return absl::OkStatus();
  COPPICE_ASSIGN_OR_RETURN(Shrunken shrunken, ShrinkCase(examination, value, verdict_, console));
  const std::string path = OutputOf(options_);
  COPPICE_RETURN_IF_ERROR(WriteCase(shrunken.value, path));
  verdict_ = std::move(shrunken.verdict);
  verdict_.shrunk = path;
  return absl::OkStatus();
}

absl::Status ReplayJob::Run(const Console& console) {
  if (options_.shrink) {
    const std::array inputs = {options_.path, options_.package, options_.constants};
    const std::array outputs = {OutputOf(options_)};
    COPPICE_RETURN_IF_ERROR(CheckOutputs(inputs, outputs));
  }
  if (!options_.buffers.empty()) COPPICE_RETURN_IF_ERROR(MakeFolder(options_.buffers));
  COPPICE_ASSIGN_OR_RETURN(Case value, ReadCase(options_.path));
  const size_t recorded = value.calls.size();
  KeepLast(options_.calls, value);
  const auto is_callable = [&](const CaseCall& call) {
    return value.programs[static_cast<size_t>(call.program)].package_program.empty();
  };
  verdict_.kind = VerdictKind::kCannotReplay;
  if (value.calls.empty()) {
    verdict_.text = "the case has no calls";
    return absl::OkStatus();
  }
  if (std::ranges::all_of(value.calls, is_callable)) {
    verdict_.text = fmt::format(
        "program '{}' is a callable, whose kernels are not in the case; the case has only the "
        "sizes and inputs of its calls",
        value.programs[static_cast<size_t>(value.calls.back().program)].name);
    return absl::OkStatus();
  }
  COPPICE_ASSIGN_OR_RETURN(const std::string package, FindPackage(value));
  if (package.empty()) {
    verdict_.text = "the package is not in the case; give it with --package";
    return absl::OkStatus();
  }
  COPPICE_ASSIGN_OR_RETURN(const Examination examination,
                           Examination::Create(value, {package, options_.constants}));
  const absl::StatusOr<Verdict> found = examination.Examine(value, options_.seeds, console);
  if (absl::IsCancelled(found.status()) || absl::IsInvalidArgument(found.status()))
    return found.status();
  if (!found.ok()) {
    verdict_.text = MessageOf(found.status());
    return absl::OkStatus();
  }
  verdict_ = *found;
  if (value.calls.size() < recorded)
    verdict_.notes.push_back(
        fmt::format("{} of the {} calls in the case ran; give a larger --calls to run more",
                    value.calls.size(), recorded));
  if (options_.shrink) COPPICE_RETURN_IF_ERROR(Shrink(examination, value, console));
  if (options_.taint) verdict_.padding = examination.FollowPadding(value, console);
  if (options_.depends) verdict_.inputs = examination.FollowInputs(value, console);
  if (options_.buffers.empty()) return absl::OkStatus();
  // The verdict stands, whatever becomes of these.
  const absl::Status written = WriteBuffers(value, {package, options_.constants}, options_.buffers);
  if (!written.ok()) verdict_.notes.push_back("no buffers were written: " + MessageOf(written));
  return absl::OkStatus();
}

}  // namespace

ExitCode Replay(const ReplayOptions& options, const Console& console) {
  ReplayJob job(options);
  if (const absl::Status status = job.Run(console); !status.ok()) {
    // A message may quote the file.
    Print(console.err, "coppice replay: {}\n", Printable(MessageOf(status)));
    if (absl::IsCancelled(status)) return kExitStopped;
    return absl::IsFailedPrecondition(status) ? kExitOutput : kExitUsage;
  }
  const Verdict& verdict = job.verdict();
  Print(console.out, "{}",
        options.json ? FormatVerdictJson(verdict, options.path)
                     : FormatVerdict(verdict, options.path));
  return verdict.kind == VerdictKind::kNothing ? kExitOk : kExitDevice;
}

}  // namespace coppice
