// The survey `orders`: captures that end in odd ways, step by step.

#include <thread>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/probe/capture_stage.h"
#include "tools/probe/first_failure.h"
#include "tools/probe/survey.h"

namespace coppice {
namespace {

// One case: its steps become rows, each with the capture status of the origin after it.
class OrderCase {
 public:
  OrderCase(const char* name, CaptureStage& stage, Table& table)
      : name_(name), stage_(stage), table_(table) {}

  CaptureStage& stage() { return stage_; }
  const DriverTable& cu() const { return stage_.cu(); }

  void Step(const char* step, CuResult result) {
    table_.Row(name_, step, static_cast<int>(result), stage_.StatusOf(stage_.origin()));
  }

  // Makes the other stream take part in the capture.
  void Fork() {
    Step("record an event on the origin", cu().EventRecord(stage_.event(), stage_.origin()));
    Step("make the other stream wait for it",
         cu().StreamWaitEvent(stage_.other(), stage_.event(), 0));
  }
  void Join() {
    Step("record the event on the other stream", cu().EventRecord(stage_.event(), stage_.other()));
    Step("make the origin wait for it", cu().StreamWaitEvent(stage_.origin(), stage_.event(), 0));
  }
  void WorkOnOther() { Step("work on the other stream", stage_.Work(stage_.other())); }
  void WorkOnOrigin() { Step("work on the origin", stage_.Work(stage_.origin())); }
  void EndOther() { Step("end on the other stream", stage_.End(stage_.other())); }
  void EndOrigin() { Step("end on the origin", stage_.End(stage_.origin())); }

 private:
  const char* name_;
  CaptureStage& stage_;
  Table& table_;
};

void EndOnAnotherThread(OrderCase& order) {
  CaptureStage& stage = order.stage();
  absl::Status current;
  CuResult result = CuResult::kUnknown;
  std::thread([&] {
    current = stage.subject().context().MakeCurrent();
    if (current.ok()) result = stage.End(stage.origin());
  }).join();
  order.Step("end on another thread", CuResultOf(current).value_or(result));
  order.EndOrigin();
}

void EndOnForkedStream(OrderCase& order) {
  order.Fork();
  order.WorkOnOther();
  order.EndOther();
  order.EndOrigin();
}

void EndOnForkedStreamThenJoin(OrderCase& order) {
  order.Fork();
  order.WorkOnOther();
  order.EndOther();
  order.Join();
  order.EndOrigin();
}

// The event was recorded in a capture that is over.
void UseCapturedEvent(OrderCase& order, const char* step, CuResult (*use)(const CaptureStage&)) {
  const CaptureStage& stage = order.stage();
  order.Step("record an event on the origin",
             stage.cu().EventRecord(stage.event(), stage.origin()));
  order.EndOrigin();
  order.Step(step, use(stage));
  order.Step("record it on the other stream", stage.cu().EventRecord(stage.event(), stage.other()));
  order.Step("synchronize with it", stage.cu().EventSynchronize(stage.event()));
}

void QueryCapturedEvent(OrderCase& order) {
  UseCapturedEvent(order, "query it",
                   [](const CaptureStage& stage) { return stage.cu().EventQuery(stage.event()); });
}

void SynchronizeCapturedEvent(OrderCase& order) {
  UseCapturedEvent(order, "synchronize with it", [](const CaptureStage& stage) {
    return stage.cu().EventSynchronize(stage.event());
  });
}

void WaitForCapturedEvent(OrderCase& order) {
  UseCapturedEvent(order, "make the other stream wait for it", [](const CaptureStage& stage) {
    return stage.cu().StreamWaitEvent(stage.other(), stage.event(), 0);
  });
}

void WaitForUnrecordedEvent(OrderCase& order) {
  const CaptureStage& stage = order.stage();
  order.Step("make the origin wait for an event that was never recorded",
             stage.cu().StreamWaitEvent(stage.origin(), stage.event(), 0));
  order.WorkOnOrigin();
  order.EndOrigin();
}

void WaitForEventOfBefore(OrderCase& order) {
  const CaptureStage& stage = order.stage();
  order.Step("record an event on a stream that does not capture",
             stage.cu().EventRecord(stage.event(), stage.other()));
  order.Step("make the origin wait for it",
             stage.cu().StreamWaitEvent(stage.origin(), stage.event(), 0));
  order.WorkOnOrigin();
  order.EndOrigin();
}

void ForkWithWork(OrderCase& order) {
  order.Fork();
  order.WorkOnOther();
  order.EndOrigin();
  order.WorkOnOther();
}

void ForkWithoutWork(OrderCase& order) {
  order.Fork();
  order.EndOrigin();
  order.WorkOnOther();
}

void DestroyOrigin(OrderCase& order) {
  order.Step("destroy the origin", order.stage().DestroyOrigin());
  if (order.stage().origin() != nullptr) order.EndOrigin();
  order.WorkOnOther();
}

void DestroyForkedStream(OrderCase& order) {
  order.Fork();
  order.WorkOnOther();
  order.Step("destroy the other stream", order.stage().DestroyOther());
  order.EndOrigin();
}

void EndTwice(OrderCase& order) {
  order.EndOrigin();
  order.EndOrigin();
}

struct Case {
  const char* name;
  CuCaptureMode mode;
  void (*play)(OrderCase& order);
};

constexpr Case kCases[] = {
    {"end on another thread, global", CuCaptureMode::kGlobal, &EndOnAnotherThread},
    {"end on another thread, thread_local", CuCaptureMode::kThreadLocal, &EndOnAnotherThread},
    {"end on another thread, relaxed", CuCaptureMode::kRelaxed, &EndOnAnotherThread},
    {"end on a forked stream", CuCaptureMode::kThreadLocal, &EndOnForkedStream},
    {"end on a forked stream, then join", CuCaptureMode::kThreadLocal, &EndOnForkedStreamThenJoin},
    {"query a captured event after the capture", CuCaptureMode::kThreadLocal, &QueryCapturedEvent},
    {"synchronize with a captured event after the capture", CuCaptureMode::kThreadLocal,
     &SynchronizeCapturedEvent},
    {"wait for a captured event after the capture", CuCaptureMode::kThreadLocal,
     &WaitForCapturedEvent},
    {"wait for an event that was never recorded", CuCaptureMode::kThreadLocal,
     &WaitForUnrecordedEvent},
    {"wait for an event of another stream", CuCaptureMode::kThreadLocal, &WaitForEventOfBefore},
    {"fork with work, not joined", CuCaptureMode::kThreadLocal, &ForkWithWork},
    {"fork without work, not joined", CuCaptureMode::kThreadLocal, &ForkWithoutWork},
    {"destroy a capturing stream", CuCaptureMode::kThreadLocal, &DestroyOrigin},
    {"destroy a forked stream", CuCaptureMode::kThreadLocal, &DestroyForkedStream},
    {"end twice", CuCaptureMode::kThreadLocal, &EndTwice},
};

}  // namespace

absl::Status FillOrders(const SurveyRun& run) {
  run.table.Comment("every step runs once, after a capture of one kernel was begun on the origin;");
  run.table.Comment("result: a CUresult, 0 is success; status: of the origin's capture afterwards");
  run.table.Columns({"case", "step", "result", "status"});
  FirstFailure failure;
  for (const Case& played : kCases) {
    COPPICE_ASSIGN_OR_RETURN(CaptureStage stage, CaptureStage::Create(run.subject));
    COPPICE_RETURN_IF_ERROR(stage.Begin(played.mode));
    OrderCase order(played.name, stage, run.table);
    played.play(order);
    const absl::Status closed = stage.Close();
    failure.Note(closed);
    if (!closed.ok())
      run.table.Comment(fmt::format("after {}: {}", played.name, MessageOf(closed)));
  }
  return failure.status();
}

}  // namespace coppice
