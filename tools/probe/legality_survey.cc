// The survey `legality`: every call, in every capture mode, on the capturing thread and on
// another.

#include <memory>
#include <thread>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/probe/capture_stage.h"
#include "tools/probe/first_failure.h"
#include "tools/probe/legality_calls.h"
#include "tools/probe/legality_scene.h"
#include "tools/probe/survey.h"

namespace coppice {
namespace {

constexpr CuCaptureMode kModes[] = {CuCaptureMode::kGlobal, CuCaptureMode::kThreadLocal,
                                    CuCaptureMode::kRelaxed};

struct Verdict {
  CuResult result = CuResult::kUnknown;
  const char* capture = "";  // As CaptureStage::StatusOf.
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
  verdict.capture = scene->stage.StatusOf(scene->capturing());
  verdict.cleared = scene->Clear();
  return verdict;
}

}  // namespace

absl::Status FillLegality(const SurveyRun& run) {
  run.table.Comment("each row: one call while a non-blocking stream captures, with fresh objects;");
  run.table.Comment(
      "a note in parentheses names what of the capture the call touches, without one");
  run.table.Comment(
      "it touches nothing of it; thread: whether the call comes from the thread that");
  run.table.Comment("began the capture, the other has the default mode; result: a CUresult, 0 is");
  run.table.Comment("success; capture: its status afterwards; evidence: measured by this program");
  for (const UntriedCall& untried : UntriedCalls())
    run.table.Comment(fmt::format("not tried: {}: {}", untried.name, untried.reason));
  run.table.Columns({"call", "mode", "thread", "result", "capture", "evidence"});
  FirstFailure failure;
  int64_t done = 0;
  for (const LegalityCall& call : LegalityCalls()) {
    run.progress.Update(done++, static_cast<int64_t>(LegalityCalls().size()));
    for (const CuCaptureMode mode : kModes) {
      for (const bool on_other_thread : {false, true}) {
        const char* const thread = on_other_thread ? "other" : "same";
        COPPICE_ASSIGN_OR_RETURN(const Verdict verdict,
                                 Try(run.subject, call, mode, on_other_thread));
        run.table.Row(call.Name(), NameOf(mode), thread, static_cast<int>(verdict.result),
                      verdict.capture, "measured");
        failure.Note(verdict.cleared);
        if (!verdict.cleared.ok())
          run.table.Comment(fmt::format("after {} {} {}: {}", call.Name(), NameOf(mode), thread,
                                        MessageOf(verdict.cleared)));
      }
    }
  }
  return failure.status();
}

}  // namespace coppice
