// Goal: what conflicts with a capture is refused with CUDA's code and invalidates it, in every
// mode. Method: one small test per trigger of the codes 900 to 907, on every driver. The triggers
// are the Programming Guide's; which code each has is what ROCm's hip-tests expect of CUDA. Where
// nothing tells the outcome, the test asks that it is whole and that the streams stay usable.

#include "tests/conformance/capture_fixture.h"

namespace coppice {
namespace {

class CaptureConflictConformanceTest : public CaptureTest {
 protected:
  // Invalidates the capture of `stream`.
  void Invalidate(CuStream stream) {
    EXPECT_CU(kStreamCaptureUnsupported, cu.StreamQuery(stream));
    EXPECT_EQ(StatusOf(stream), CuCaptureStatus::kInvalidated);
  }
};
COPPICE_CONFORMANCE_SUITE(CaptureConflictConformanceTest);

// 900: waiting for what has not begun.

TEST_P(CaptureConflictConformanceTest, WaitingForTheCapturingStreamInvalidates) {
  for (const CuCaptureMode mode : kCaptureModes) {
    Begin(a, mode);
    EXPECT_CU(kStreamCaptureUnsupported, cu.StreamSynchronize(a));
    EXPECT_EQ(StatusOf(a), CuCaptureStatus::kInvalidated);
    EndInvalidated(a);
  }
}

TEST_P(CaptureConflictConformanceTest, QueryingTheCapturingStreamInvalidates) {
  Begin(a, CuCaptureMode::kRelaxed);
  EXPECT_CU(kStreamCaptureUnsupported, cu.StreamQuery(a));
  EndInvalidated(a);
}

TEST_P(CaptureConflictConformanceTest, WaitingForTheContextInvalidatesInEveryMode) {
  for (const CuCaptureMode mode : kCaptureModes) {
    Begin(a, mode);
    OnThread([&] { EXPECT_CU(kStreamCaptureUnsupported, cu.CtxSynchronize()); });
    EndInvalidated(a);
  }
}

TEST_P(CaptureConflictConformanceTest, WaitingForAForkedStreamInvalidatesToo) {
  for (const bool query : {false, true}) {
    Begin(a);
    Order(a, b);
    EXPECT_CU(kStreamCaptureUnsupported, query ? cu.StreamQuery(b) : cu.StreamSynchronize(b));
    EXPECT_EQ(StatusOf(b), CuCaptureStatus::kInvalidated);
    EndInvalidated(a);
    EXPECT_EQ(StatusOf(b), CuCaptureStatus::kNone);
  }
}

TEST_P(CaptureConflictConformanceTest, WaitingOnAnotherThreadInvalidatesToo) {
  Begin(a);
  OnThread([&] { EXPECT_CU(kStreamCaptureUnsupported, cu.StreamSynchronize(a)); });
  EndInvalidated(a);
}

TEST_P(CaptureConflictConformanceTest, WaitingForTheContextInvalidatesEveryCapture) {
  Begin(a);
  Begin(b, CuCaptureMode::kRelaxed);
  EXPECT_CU(kStreamCaptureUnsupported, cu.CtxSynchronize());
  EndInvalidated(a);
  EndInvalidated(b);
}

TEST_P(CaptureConflictConformanceTest, RelaxedThreadMayNotWaitForACaptureEither) {
  SetThreadMode(CuCaptureMode::kRelaxed);
  Begin(a);
  EXPECT_CU(kStreamCaptureUnsupported, cu.StreamSynchronize(a));
  EndInvalidated(a);
  Begin(a);
  EXPECT_CU(kStreamCaptureUnsupported, cu.CtxSynchronize());
  EndInvalidated(a);
  SetThreadMode(CuCaptureMode::kGlobal);
}

// Seen on an H200 with driver 580 by onnxruntime: a launch into a capture is no child node.
TEST_P(CaptureConflictConformanceTest, LaunchingAGraphIntoTheStreamInvalidates) {
  const CuGraphExec exec = Instantiate(NewGraph());
  for (const CuCaptureMode mode : kCaptureModes) {
    Begin(a, mode);
    EXPECT_CU(kStreamCaptureUnsupported, cu.GraphLaunch(exec, a));
    EndInvalidated(a);
  }
}

TEST_P(CaptureConflictConformanceTest, UploadingAGraphIntoTheStreamInvalidates) {
  const CuGraphExec exec = Instantiate(NewGraph());
  Begin(a, CuCaptureMode::kRelaxed);
  EXPECT_CU(kStreamCaptureUnsupported, cu.GraphUpload(exec, a));
  EndInvalidated(a);
}

// 907: events that stand for no real work.

TEST_P(CaptureConflictConformanceTest, WaitingForACapturedEventInvalidates) {
  for (const bool query : {false, true}) {
    Begin(a);
    const CuEvent event = NewEvent();
    EXPECT_CU(kSuccess, cu.EventRecord(event, a));
    EXPECT_CU(kCapturedEvent, query ? cu.EventQuery(event) : cu.EventSynchronize(event));
    EndInvalidated(a);
  }
}

TEST_P(CaptureConflictConformanceTest, CapturedEventIsNoEventForAnyThread) {
  for (const CuCaptureMode mode : kCaptureModes) {
    const CuEvent event = NewEvent();
    Begin(a, mode);
    EXPECT_CU(kSuccess, cu.EventRecord(event, a));
    OnThread([&] { EXPECT_CU(kCapturedEvent, cu.EventSynchronize(event)); });
    EndInvalidated(a);
  }
}

TEST_P(CaptureConflictConformanceTest, EventOfACaptureServesAgainOnceItIsRecorded) {
  const CuEvent event = NewEvent();
  Begin(a);
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  End(a);
  EXPECT_CU(kSuccess, cu.EventRecord(event, b));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(a, event, 0));
  ExpectUsable(a);
}

TEST_P(CaptureConflictConformanceTest, EventRecordedElsewhereLeavesTheCapture) {
  const CuEvent event = NewEvent();
  Begin(a, CuCaptureMode::kRelaxed);
  SetThreadMode(CuCaptureMode::kRelaxed);
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.EventRecord(event, b));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  SetThreadMode(CuCaptureMode::kGlobal);
  End(a);
}

TEST_P(CaptureConflictConformanceTest, WaitForAnEventOfAnEndedCaptureHarmsNoStream) {
  const CuEvent event = NewEvent();
  Begin(a);
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  End(a);
  cu.StreamWaitEvent(b, event, 0);
  ExpectUsable(b);
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kNone);
}

// 902: two captures.

TEST_P(CaptureConflictConformanceTest, MergingTwoCapturesInvalidatesBoth) {
  Begin(a);
  Begin(b);
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, b));
  EXPECT_CU(kStreamCaptureMerge, cu.StreamWaitEvent(a, event, 0));
  EndInvalidated(a);
  EndInvalidated(b);
}

TEST_P(CaptureConflictConformanceTest, ForkedStreamsMayNotMergeEither) {
  const CuStream c = NewStream();
  const CuStream d = NewStream();
  Begin(a);
  Begin(b);
  Order(a, c);
  Order(b, d);
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, d));
  EXPECT_CU(kStreamCaptureMerge, cu.StreamWaitEvent(c, event, 0));
  for (const CuStream stream : {a, b, c, d})
    EXPECT_EQ(StatusOf(stream), CuCaptureStatus::kInvalidated);
  EndInvalidated(a);
  EndInvalidated(b);
}

// 905: work from outside.

TEST_P(CaptureConflictConformanceTest, WaitingForRealWorkBreaksTheIsolation) {
  for (const CuStream stream : {a, b}) {
    const CuEvent event = NewEvent();
    EXPECT_CU(kSuccess, cu.EventRecord(event, stream));
    Begin(a);
    EXPECT_CU(kStreamCaptureIsolation, cu.StreamWaitEvent(a, event, 0));
    EndInvalidated(a);
  }
}

TEST_P(CaptureConflictConformanceTest, ForkedStreamsAreIsolatedToo) {
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, NewStream()));
  Begin(a);
  Order(a, b);
  EXPECT_CU(kStreamCaptureIsolation, cu.StreamWaitEvent(b, event, 0));
  EndInvalidated(a);
}

TEST_P(CaptureConflictConformanceTest, WaitForAnEventThatWasNeverRecordedIsWholeOrRefused) {
  const CuEvent event = NewEvent();
  Begin(a);
  if (cu.StreamWaitEvent(a, event, 0) == CuResult::kSuccess) {
    EXPECT_EQ(NodeCount(End(a)), 0U);
  } else {
    EndInvalidated(a);
  }
  ExpectUsable(a);
}

// 901: what an invalidated capture still does.

TEST_P(CaptureConflictConformanceTest, InvalidatedCaptureRefusesItsStreamsAndEvents) {
  const DeviceAddress word = NewWords(1);
  const CuEvent event = NewEvent();
  Begin(a, CuCaptureMode::kRelaxed);
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kStreamCaptureUnsupported, cu.StreamQuery(a));
  EXPECT_CU(kStreamCaptureInvalidated, Store(a, word, 1));
  EXPECT_CU(kStreamCaptureInvalidated, cu.EventRecord(NewEvent(), a));
  EXPECT_CU(kStreamCaptureInvalidated, cu.StreamWaitEvent(b, event, 0));
  EndInvalidated(a);
}

TEST_P(CaptureConflictConformanceTest, WaitingForAStreamOfAnInvalidatedCaptureIsRefusedAsThat) {
  Begin(a);
  Invalidate(a);
  EXPECT_CU(kStreamCaptureInvalidated, cu.StreamSynchronize(a));
  EndInvalidated(a);
}

TEST_P(CaptureConflictConformanceTest, InvalidatedCaptureTakesNoWorkOfAnyKind) {
  const DeviceAddress words = NewWords(2);
  int64_t host = 0;
  std::atomic<int> runs = 0;
  Begin(a);
  Invalidate(a);
  EXPECT_CU(kStreamCaptureInvalidated, cu.MemcpyHtoDAsync(words, &host, sizeof(host), a));
  EXPECT_CU(kStreamCaptureInvalidated, cu.MemcpyDtoHAsync(&host, words, sizeof(host), a));
  EXPECT_CU(kStreamCaptureInvalidated, Move(a, words + 8, words));
  EXPECT_CU(kStreamCaptureInvalidated, cu.MemsetD8Async(words, 1, 8, a));
  EXPECT_CU(kStreamCaptureInvalidated, cu.LaunchHostFunc(a, Count, &runs));
  EndInvalidated(a);
  EXPECT_EQ(Word(words), 0);
  EXPECT_EQ(runs, 0);
}

TEST_P(CaptureConflictConformanceTest, InvalidationReachesEveryStreamOfTheCapture) {
  const CuStream c = NewStream();
  Begin(a);
  Order(a, b);
  Order(b, c);
  Invalidate(b);
  EXPECT_EQ(StatusOf(a), CuCaptureStatus::kInvalidated);
  EXPECT_EQ(StatusOf(c), CuCaptureStatus::kInvalidated);
  EXPECT_EQ(InfoOf(c).status, CuCaptureStatus::kInvalidated);
  EndInvalidated(a);
  for (const CuStream stream : {a, b, c}) {
    EXPECT_EQ(StatusOf(stream), CuCaptureStatus::kNone);
    ExpectUsable(stream);
  }
}

TEST_P(CaptureConflictConformanceTest, InvalidationLeavesOtherCapturesAlone) {
  const DeviceAddress word = NewWords(1);
  Begin(a);
  Begin(b);
  Invalidate(a);
  EXPECT_CU(kSuccess, Store(b, word, 1));
  EXPECT_EQ(NodeCount(End(b)), 1U);
  EndInvalidated(a);
}

TEST_P(CaptureConflictConformanceTest, CaptureAfterAnInvalidatedOneStartsAfresh) {
  const DeviceAddress word = NewWords(1);
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, word, 1));
  Invalidate(a);
  EndInvalidated(a);
  EXPECT_EQ(Word(word), 0) << "what was captured never runs";
  Begin(a);
  EXPECT_TRUE(InfoOf(a).tail.empty());
  EXPECT_CU(kSuccess, Store(a, word, 2));
  const CuGraph graph = End(a);
  EXPECT_EQ(NodeCount(graph), 1U);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(word), 2);
}

}  // namespace
}  // namespace coppice
