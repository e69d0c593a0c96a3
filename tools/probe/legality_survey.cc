// The survey `legality`: every call, in every capture mode, on the capturing thread and on
// another.

#include <memory>
#include <thread>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/probe/legality_calls.h"
#include "tools/probe/legality_scene.h"
#include "tools/probe/survey.h"

namespace coppice {
namespace {

constexpr CuCaptureMode kModes[] = {CuCaptureMode::kGlobal, CuCaptureMode::kThreadLocal,
                                    CuCaptureMode::kRelaxed};

const char* NameOf(CuCaptureMode mode) {
  return mode == CuCaptureMode::kGlobal        ? "global"
         : mode == CuCaptureMode::kThreadLocal ? "thread_local"
                                               : "relaxed";
}

struct Verdict {
  CuResult result = CuResult::kUnknown;
  const char* capture = "";  // As LegalityScene::CaptureStatus.
  absl::Status cleared;      // Whether everything was given back.
};

absl::StatusOr<Verdict> Try(const Subject& subject,
                            const LegalityCall& call,
                            CuCaptureMode mode,
                            bool on_other_thread) {
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<LegalityScene> scene,
                           LegalityScene::Create(subject));
  COPPICE_RETURN_IF_ERROR(scene->Begin(mode));
  Verdict verdict;
  if (on_other_thread) {
    absl::Status current;
    std::thread([&] {
      current = subject.context().MakeCurrent();
      if (current.ok()) verdict.result = call.call(*scene);
    }).join();
    COPPICE_RETURN_IF_ERROR(current);
  } else {
    verdict.result = call.call(*scene);
  }
  verdict.capture = scene->CaptureStatus();
  verdict.cleared = scene->Clear();
  return verdict;
}

}  // namespace

absl::Status FillLegality(const SurveyRun& run) {
  run.Comment("each row: one call, on fresh objects, while a non-blocking stream is capturing;");
  run.Comment(
      "the call does not use that stream; thread: same is the thread that began the capture,");
  run.Comment("other is another thread in the default mode; result: a CUresult, 0 is success;");
  run.Comment("capture: status of the capture afterwards; evidence: measured by this program");
  run.Row("call", "mode", "thread", "result", "capture", "evidence");
  absl::Status failure;
  int64_t done = 0;
  for (const LegalityCall& call : LegalityCalls()) {
    const char* const name = DriverEntryAt(call.entry).symbol;
    run.progress.Update(done++, static_cast<int64_t>(LegalityCalls().size()));
    for (const CuCaptureMode mode : kModes) {
      for (const bool on_other_thread : {false, true}) {
        const char* const thread = on_other_thread ? "other" : "same";
        COPPICE_ASSIGN_OR_RETURN(const Verdict verdict,
                                 Try(run.subject, call, mode, on_other_thread));
        run.Row(name, NameOf(mode), thread, static_cast<int>(verdict.result), verdict.capture,
                "measured");
        failure.Update(verdict.cleared);
        if (!verdict.cleared.ok())
          run.Comment(fmt::format("after {} {} {}: {}", name, NameOf(mode), thread,
                                  MessageOf(verdict.cleared)));
      }
    }
  }
  return failure;
}

}  // namespace coppice
