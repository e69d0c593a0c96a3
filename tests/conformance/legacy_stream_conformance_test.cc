// Goal: the legacy stream waits for the blocking streams of its context and has them wait, each
// thread has a stream of its own, and a blocking stream that captures refuses both orders. Method:
// stores to one word, which only that order makes end with one value; results of the calls.

#include "tests/conformance/capture_fixture.h"

namespace coppice {
namespace {

class LegacyStreamConformanceTest : public CaptureTest {
 protected:
  void SetUp() override {
    CaptureTest::SetUp();
    if (context == nullptr) return;
    ASSERT_CU(kSuccess, cu.StreamCreate(&blocking, 0));
    word = NewWords(1);
  }
  void TearDown() override {
    if (blocking != nullptr) {
      EXPECT_CU(kSuccess, cu.StreamDestroy(blocking));
    }
    CaptureTest::TearDown();
  }

  // The word once the legacy stream has drained.
  int64_t WordNow() {
    EXPECT_CU(kSuccess, cu.StreamSynchronize(nullptr));
    return Word(word);
  }

  CuStream Handle(uintptr_t value) const {
    return reinterpret_cast<CuStream>(value);  // NOLINT(performance-no-int-to-ptr)
  }

  const CuStream own = Handle(2);  // The thread's.
  CuStream blocking = nullptr;
  DeviceAddress word = 0;
};
COPPICE_CONFORMANCE_SUITE(LegacyStreamConformanceTest);

TEST_P(LegacyStreamConformanceTest, ItComesBehindBlockingStreams) {
  EXPECT_CU(kSuccess, Store(blocking, word, 1));
  EXPECT_CU(kSuccess, Store(nullptr, word, 2));
  EXPECT_EQ(WordNow(), 2);
}

TEST_P(LegacyStreamConformanceTest, BlockingStreamsComeBehindIt) {
  EXPECT_CU(kSuccess, Store(nullptr, word, 1));
  EXPECT_CU(kSuccess, Store(blocking, word, 2));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(blocking));
  EXPECT_EQ(WordNow(), 2);
}

TEST_P(LegacyStreamConformanceTest, ItOrdersTwoBlockingStreams) {
  CuStream second = nullptr;
  const DeviceAddress other = NewWords(1);
  ASSERT_CU(kSuccess, cu.StreamCreate(&second, 0));
  for (int64_t value = 0; value < 10; value += 2) {
    EXPECT_CU(kSuccess, Store(blocking, word, value));
    EXPECT_CU(kSuccess, Store(nullptr, other, value));
    EXPECT_CU(kSuccess, Store(second, word, value + 1));
    EXPECT_CU(kSuccess, Store(nullptr, other, value));
  }
  EXPECT_CU(kSuccess, cu.StreamSynchronize(second));
  EXPECT_EQ(WordNow(), 9);
  EXPECT_CU(kSuccess, cu.StreamDestroy(second));
}

TEST_P(LegacyStreamConformanceTest, ItWaitsForAStreamThatWasDestroyed) {
  CuStream gone = nullptr;
  ASSERT_CU(kSuccess, cu.StreamCreate(&gone, 0));
  EXPECT_CU(kSuccess, Store(gone, word, 1));
  EXPECT_CU(kSuccess, cu.StreamDestroy(gone));
  EXPECT_CU(kSuccess, Store(nullptr, word, 2));
  EXPECT_EQ(WordNow(), 2);
}

TEST_P(LegacyStreamConformanceTest, ZeroAndOneAreTheSameStream) {
  EXPECT_CU(kSuccess, Store(nullptr, word, 1));
  EXPECT_CU(kSuccess, Store(Handle(1), word, 2));
  EXPECT_CU(kSuccess, Store(nullptr, word, 3));
  EXPECT_EQ(WordNow(), 3);
}

TEST_P(LegacyStreamConformanceTest, AnEventOfItIsBehindBlockingStreams) {
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, Store(blocking, word, 1));
  EXPECT_CU(kSuccess, cu.EventRecord(event, nullptr));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(a, event, 0));
  EXPECT_CU(kSuccess, Store(a, word, 2));
  EXPECT_EQ(Word(word), 2);
}

TEST_P(LegacyStreamConformanceTest, WhatItWaitsForIsBeforeBlockingStreams) {
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, Store(a, word, 1));
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(nullptr, event, 0));
  EXPECT_CU(kSuccess, Store(blocking, word, 2));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(blocking));
  EXPECT_EQ(Word(word), 2);
}

TEST_P(LegacyStreamConformanceTest, AGraphRunsOnIt) {
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, word, 2));
  const CuGraphExec exec = Instantiate(End(a));
  EXPECT_CU(kSuccess, Store(blocking, word, 1));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, nullptr));
  EXPECT_EQ(WordNow(), 2);
}

TEST_P(LegacyStreamConformanceTest, AThreadHasAStreamOfItsOwn) {
  for (int64_t value = 1; value <= 3; ++value)
    EXPECT_CU(kSuccess, Store(own, word, value));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(own));
  EXPECT_EQ(Word(word), 3);
  EXPECT_CU(kSuccess, Store(own, word, 4));
  EXPECT_CU(kSuccess, Store(nullptr, word, 5));
  EXPECT_EQ(WordNow(), 5) << "a thread's own stream is a blocking one";
}

TEST_P(LegacyStreamConformanceTest, AThreadsOwnStreamCaptures) {
  Begin(own);
  OnThread([&] { EXPECT_EQ(StatusOf(own), CuCaptureStatus::kNone) << "another thread's"; });
  EXPECT_CU(kSuccess, Store(own, word, 6));
  const CuGraphExec exec = Instantiate(End(own));
  EXPECT_EQ(Word(word), 0);
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, own));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(own));
  EXPECT_EQ(Word(word), 6);
}

TEST_P(LegacyStreamConformanceTest, ItCannotBeDestroyed) {
  for (const uintptr_t handle : {0, 1, 2})
    EXPECT_NE(cu.StreamDestroy(Handle(handle)), CuResult::kSuccess);
  ExpectUsable(nullptr);
}

// Captures.

TEST_P(LegacyStreamConformanceTest, WorkBesideABlockingCaptureInvalidatesIt) {
  Begin(blocking);
  EXPECT_CU(kStreamCaptureImplicit, Store(nullptr, word, 1));
  EndInvalidated(blocking);
  EXPECT_EQ(Word(word), 0);
}

TEST_P(LegacyStreamConformanceTest, AskingBesideABlockingCaptureHarmsNothing) {
  CuCaptureStatus status = CuCaptureStatus::kNone;
  Begin(blocking);
  EXPECT_CU(kStreamCaptureImplicit, cu.StreamIsCapturing(nullptr, &status));
  EXPECT_EQ(StatusOf(blocking), CuCaptureStatus::kActive);
  End(blocking);
}

TEST_P(LegacyStreamConformanceTest, ItWorksBesideANonBlockingCapture) {
  Begin(a);
  EXPECT_CU(kSuccess, Store(nullptr, word, 1));
  End(a);
  EXPECT_EQ(WordNow(), 1);
}

}  // namespace
}  // namespace coppice
