// Goal: streams and events order work as CUDA documents, and outlive their handles while busy.
// Method: one small test per documented rule, on every driver. No test holds work back: each result
// has to follow from the order that CUDA promises, whatever runs when.

#include "tests/conformance/conformance_fixture.h"

namespace coppice {
namespace {

class StreamConformanceTest : public ConformanceTest {
 protected:
  // Queues kSteps host functions on `a`, each of which counts: more than are done by chance.
  void QueueSteps() {
    for (int step = 0; step < kSteps; ++step)
      EXPECT_CU(kSuccess, cu.LaunchHostFunc(a, Count, &ran_));
  }

  static constexpr int kSteps = 30;
  std::atomic<int> ran_ = 0;
};
COPPICE_CONFORMANCE_SUITE(StreamConformanceTest);

// Arguments: the documentation of each call.

TEST_P(StreamConformanceTest, UnknownFlagsAreRefused) {
  CuStream stream = nullptr;
  CuEvent event = nullptr;
  EXPECT_CU(kInvalidValue, cu.StreamCreate(&stream, 0x80));
  EXPECT_CU(kInvalidValue, cu.EventCreate(&event, 0x80));
  EXPECT_CU(kInvalidValue, cu.StreamWaitEvent(a, NewEvent(), 0x80));
}

TEST_P(StreamConformanceTest, BlockingStreamsAndEveryKindOfEventCanBeMade) {
  constexpr unsigned kBlockingSync = 1;
  CuStream stream = nullptr;
  ASSERT_CU(kSuccess, cu.StreamCreate(&stream, 0));
  const DeviceAddress word = NewWords(1);
  for (const unsigned flags :
       {kEventDefault, kBlockingSync, kEventDisableTiming, kBlockingSync | kEventDisableTiming}) {
    CuEvent event = nullptr;
    ASSERT_CU(kSuccess, cu.EventCreate(&event, flags)) << flags;
    EXPECT_CU(kSuccess, Store(stream, word, flags + 1));
    EXPECT_CU(kSuccess, cu.EventRecord(event, stream));
    EXPECT_CU(kSuccess, cu.EventSynchronize(event));
    EXPECT_EQ(Word(word), flags + 1);
    EXPECT_CU(kSuccess, cu.EventDestroy(event));
  }
  EXPECT_CU(kSuccess, cu.StreamDestroy(stream));
}

TEST_P(StreamConformanceTest, EventsBetweenProcessesMayNotKeepTime) {
  constexpr unsigned kInterprocess = 4;
  CuEvent event = nullptr;
  EXPECT_CU(kInvalidValue, cu.EventCreate(&event, kInterprocess));
}

TEST_P(StreamConformanceTest, NewStreamsAndEventsNeedAPlaceToGo) {
  EXPECT_CU(kInvalidValue, cu.StreamCreate(nullptr, kStreamNonBlocking));
  EXPECT_CU(kInvalidValue, cu.EventCreate(nullptr, 0));
}

TEST_P(StreamConformanceTest, NoEventIsAnInvalidHandle) {
  EXPECT_CU(kInvalidHandle, cu.EventRecord(nullptr, a));
  EXPECT_CU(kInvalidHandle, cu.EventQuery(nullptr));
  EXPECT_CU(kInvalidHandle, cu.EventSynchronize(nullptr));
  EXPECT_CU(kInvalidHandle, cu.EventDestroy(nullptr));
  EXPECT_CU(kInvalidHandle, cu.StreamWaitEvent(a, nullptr, 0));
}

// External waits make nodes, which only a capture has.
TEST_P(StreamConformanceTest, ExternalWaitsNeedACapture) {
  constexpr unsigned kWaitExternal = 1;
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, b));
  EXPECT_CU(kInvalidValue, cu.StreamWaitEvent(a, event, kWaitExternal));
}

// Order and completion: the Programming Guide on streams and events.

TEST_P(StreamConformanceTest, OperationsOfAStreamRunInOrder) {
  const DeviceAddress word = NewWords(1);
  for (int value = 1; value <= 20; ++value)
    EXPECT_CU(kSuccess, Store(a, word, value));
  EXPECT_EQ(Word(word), 20);
}

TEST_P(StreamConformanceTest, IdleStreamIsComplete) {
  EXPECT_CU(kSuccess, cu.StreamQuery(NewStream()));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(NewStream()));
}

TEST_P(StreamConformanceTest, PollingAStreamComesToAnEnd) {
  const DeviceAddress word = NewWords(1);
  int64_t host = 0;
  for (int value = 1; value <= 20; ++value)
    EXPECT_CU(kSuccess, Store(a, word, value));
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(&host, word, sizeof(host), a));
  EXPECT_CU(kSuccess, Poll(a));
  EXPECT_EQ(host, 20) << "complete means that everything has run";
}

TEST_P(StreamConformanceTest, PollingAnEventComesToAnEnd) {
  const DeviceAddress word = NewWords(1);
  EXPECT_CU(kSuccess, Store(a, word, 3));
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, Poll(event));
  int64_t read = 0;
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(&read, word, sizeof(read), b));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(b));
  EXPECT_EQ(read, 3);
}

TEST_P(StreamConformanceTest, EventThatWasNeverRecordedIsComplete) {
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventQuery(event));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(a, event, 0));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
}

TEST_P(StreamConformanceTest, EventSynchronizeWaitsForTheWorkBeforeTheRecord) {
  const CuEvent event = NewEvent();
  QueueSteps();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  EXPECT_EQ(ran_, kSteps);
}

TEST_P(StreamConformanceTest, EventIsReadyOnceAllBeforeItIsDone) {
  const CuEvent event = NewEvent();
  QueueSteps();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, Poll(event));
  EXPECT_EQ(ran_, kSteps);
}

TEST_P(StreamConformanceTest, HostWaitsForTheLastRecordOfAnEvent) {
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  QueueSteps();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  EXPECT_EQ(ran_, kSteps);
}

TEST_P(StreamConformanceTest, WaitOrdersTwoStreams) {
  const DeviceAddress words = NewWords(2);
  for (int round = 1; round <= 10; ++round) {
    EXPECT_CU(kSuccess, Store(a, words, round));
    Order(a, b);
    EXPECT_CU(kSuccess, Move(b, words + 8, words));
    Order(b, a);
  }
  EXPECT_EQ(Word(words + 8), 10);
}

TEST_P(StreamConformanceTest, SynchronizeWaitsForAllWorkOfTheStream) {
  const DeviceAddress word = NewWords(1);
  int64_t host = 0;
  for (int value = 1; value <= 10; ++value)
    EXPECT_CU(kSuccess, Store(a, word, value));
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(&host, word, sizeof(host), a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(host, 10);
}

TEST_P(StreamConformanceTest, UnorderedStreamsAllFinishTheirOwnWork) {
  const DeviceAddress words = NewWords(6);
  std::vector<CuStream> streams;
  for (int i = 0; i < 6; ++i)
    streams.push_back(NewStream());
  for (int value = 1; value <= 10; ++value)
    for (int i = 0; i < 6; ++i)
      EXPECT_CU(kSuccess, Store(streams[i], words + 8 * i, 100 * i + value));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(Word(words + 8 * i), 100 * i + 10);
}

TEST_P(StreamConformanceTest, OrderIsTransitive) {
  const DeviceAddress words = NewWords(3);
  const CuStream c = NewStream();
  for (int round = 1; round <= 5; ++round) {
    EXPECT_CU(kSuccess, Store(a, words, round));
    Order(a, b);
    EXPECT_CU(kSuccess, Move(b, words + 8, words));
    Order(b, c);
    EXPECT_CU(kSuccess, Move(c, words + 16, words + 8));
    Order(c, a);
  }
  EXPECT_EQ(Word(words + 16), 5) << "a is after c, and so is every drain of a";
}

TEST_P(StreamConformanceTest, StreamWaitsForEachOfSeveralOthers) {
  const DeviceAddress words = NewWords(10);
  for (int i = 0; i < 5; ++i) {
    const CuStream stream = NewStream();
    EXPECT_CU(kSuccess, Store(stream, words + 8 * i, i + 1));
    Order(stream, a);
  }
  EXPECT_CU(kSuccess, cu.MemcpyDtoDAsync(words + 40, words, 40, a));
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(Word(words + 40 + 8 * i), i + 1);
}

TEST_P(StreamConformanceTest, SeveralStreamsWaitForOneEvent) {
  const DeviceAddress words = NewWords(5);
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, Store(a, words, 3));
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  for (int i = 1; i < 5; ++i) {
    const CuStream stream = NewStream();
    EXPECT_CU(kSuccess, cu.StreamWaitEvent(stream, event, 0));
    EXPECT_CU(kSuccess, Move(stream, words + 8 * i, words));
  }
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
  for (int i = 1; i < 5; ++i)
    EXPECT_EQ(Word(words + 8 * i), 3);
}

TEST_P(StreamConformanceTest, StreamThatWaitsForItselfGoesOn) {
  const DeviceAddress word = NewWords(1);
  EXPECT_CU(kSuccess, Store(a, word, 1));
  Order(a, a);
  EXPECT_CU(kSuccess, Store(a, word, 2));
  EXPECT_EQ(Word(word), 2);
}

TEST_P(StreamConformanceTest, WaitUsesTheRecordOfItsOwnTime) {
  const DeviceAddress words = NewWords(2);
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, Store(a, words, 1));
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(b, event, 0));
  EXPECT_CU(kSuccess, Move(b, words + 8, words));
  Order(b, a);
  EXPECT_CU(kSuccess, Store(a, words, 2));
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));  // If b waited for this, both would be stuck.
  EXPECT_EQ(Word(words + 8), 1);
}

TEST_P(StreamConformanceTest, LaterRecordDoesNotWeakenAnEarlierWait) {
  const DeviceAddress words = NewWords(2);
  const CuEvent event = NewEvent();
  const CuStream idle = NewStream();
  EXPECT_CU(kSuccess, Store(a, words, 4));
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(b, event, 0));
  EXPECT_CU(kSuccess, cu.EventRecord(event, idle));
  EXPECT_CU(kSuccess, Move(b, words + 8, words));
  EXPECT_EQ(Word(words + 8), 4);
}

TEST_P(StreamConformanceTest, LastRecordOfAnEventCounts) {
  const DeviceAddress words = NewWords(2);
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, Store(a, words, 5));
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(b, event, 0));
  EXPECT_CU(kSuccess, Move(b, words + 8, words));
  EXPECT_EQ(Word(words + 8), 5);
}

TEST_P(StreamConformanceTest, EventMovesToTheStreamThatRecordsItLast) {
  const DeviceAddress words = NewWords(2);
  const CuEvent event = NewEvent();
  const CuStream c = NewStream();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, Store(b, words, 6));
  EXPECT_CU(kSuccess, cu.EventRecord(event, b));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(c, event, 0));
  EXPECT_CU(kSuccess, Move(c, words + 8, words));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(c));
  EXPECT_EQ(Word(words + 8), 6);
}

TEST_P(StreamConformanceTest, CompleteEventStaysComplete) {
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  const DeviceAddress word = NewWords(1);
  for (int value = 1; value <= 20; ++value)
    EXPECT_CU(kSuccess, Store(a, word, value));
  EXPECT_CU(kSuccess, cu.EventQuery(event)) << "work behind the record does not count";
}

TEST_P(StreamConformanceTest, RecordOnAnIdleStreamIsSoonComplete) {
  const CuEvent event = NewEvent();
  const CuStream idle = NewStream();
  EXPECT_CU(kSuccess, cu.EventRecord(event, idle));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  EXPECT_CU(kSuccess, cu.EventQuery(event));
}

TEST_P(StreamConformanceTest, ThreadsMayFillTheirStreamsAtTheSameTime) {
  const DeviceAddress words = NewWords(2);
  const auto fill = [&](CuStream stream, DeviceAddress word) {
    EXPECT_CU(kSuccess, cu.CtxSetCurrent(context));
    for (int value = 1; value <= 20; ++value)
      EXPECT_CU(kSuccess, Store(stream, word, value));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(stream));
  };
  std::thread other([&] { fill(b, words + 8); });
  fill(a, words);
  other.join();
  EXPECT_EQ(Word(words), 20);
  EXPECT_EQ(Word(words + 8), 20);
}

// Times: the documentation of cuEventElapsedTime. How long work takes is nobody's promise.

TEST_P(StreamConformanceTest, ElapsedTimesAreNotNegativeAndAddUp) {
  constexpr float kResolution = 0.005F;  // Milliseconds, of both terms and the sum.
  const DeviceAddress word = NewWords(1);
  CuEvent events[3];
  for (CuEvent& event : events) {
    event = NewEvent(kEventDefault);
    for (int value = 1; value <= 20; ++value)
      EXPECT_CU(kSuccess, Store(a, word, value));
    EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  }
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  float first = -1;
  float second = -1;
  float both = -1;
  EXPECT_CU(kSuccess, cu.EventElapsedTime(&first, events[0], events[1]));
  EXPECT_CU(kSuccess, cu.EventElapsedTime(&second, events[1], events[2]));
  EXPECT_CU(kSuccess, cu.EventElapsedTime(&both, events[0], events[2]));
  EXPECT_GE(first, 0);
  EXPECT_GE(second, 0);
  EXPECT_NEAR(both, first + second, kResolution);
}

TEST_P(StreamConformanceTest, NoTimePassesBetweenAnEventAndItself) {
  const CuEvent event = NewEvent(kEventDefault);
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  float milliseconds = -1;
  EXPECT_CU(kSuccess, cu.EventElapsedTime(&milliseconds, event, event));
  EXPECT_EQ(milliseconds, 0);
}

TEST_P(StreamConformanceTest, ElapsedTimeNeedsTwoRecordsThatKeepTime) {
  const CuEvent good = NewEvent(kEventDefault);
  const CuEvent untimed = NewEvent();
  const CuEvent unrecorded = NewEvent(kEventDefault);
  EXPECT_CU(kSuccess, cu.EventRecord(good, a));
  EXPECT_CU(kSuccess, cu.EventRecord(untimed, a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  float milliseconds = -1;
  for (const CuEvent bad : {untimed, unrecorded, CuEvent()}) {
    EXPECT_CU(kInvalidHandle, cu.EventElapsedTime(&milliseconds, good, bad));
    EXPECT_CU(kInvalidHandle, cu.EventElapsedTime(&milliseconds, bad, good));
  }
}

TEST_P(StreamConformanceTest, ElapsedTimeIsReadyOnceAllBeforeBothEventsIsDone) {
  const CuEvent start = NewEvent(kEventDefault);
  const CuEvent end = NewEvent(kEventDefault);
  EXPECT_CU(kSuccess, cu.EventRecord(start, a));
  QueueSteps();
  EXPECT_CU(kSuccess, cu.EventRecord(end, a));
  float milliseconds = -1;
  const CuResult result = cu.EventElapsedTime(&milliseconds, start, end);
  if (result != CuResult::kSuccess) {
    EXPECT_CU(kNotReady, result);
    EXPECT_CU(kSuccess, Poll(end));
    EXPECT_CU(kSuccess, cu.EventElapsedTime(&milliseconds, start, end));
  }
  EXPECT_EQ(ran_, kSteps);
}

// Destroying what is busy: resources go once the work is done, says each call's documentation.

TEST_P(StreamConformanceTest, DestroyedStreamFinishesItsWork) {
  const DeviceAddress word = NewWords(1);
  CuStream stream = nullptr;
  ASSERT_CU(kSuccess, cu.StreamCreate(&stream, kStreamNonBlocking));
  EXPECT_CU(kSuccess, Store(stream, word, 8));
  EXPECT_CU(kSuccess, cu.StreamDestroy(stream));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
  EXPECT_EQ(Word(word), 8);
}

TEST_P(StreamConformanceTest, DestroyedEventIsStillWaitedFor) {
  const DeviceAddress words = NewWords(2);
  CuEvent event = nullptr;
  ASSERT_CU(kSuccess, cu.EventCreate(&event, kEventDisableTiming));
  EXPECT_CU(kSuccess, Store(a, words, 9));
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(b, event, 0));
  EXPECT_CU(kSuccess, cu.EventDestroy(event));
  EXPECT_CU(kSuccess, Move(b, words + 8, words));
  EXPECT_EQ(Word(words + 8), 9);
}

TEST_P(StreamConformanceTest, DestroyedStreamKeepsItsWaits) {
  const DeviceAddress words = NewWords(2);
  CuStream stream = nullptr;
  ASSERT_CU(kSuccess, cu.StreamCreate(&stream, kStreamNonBlocking));
  EXPECT_CU(kSuccess, Store(a, words, 2));
  Order(a, stream);
  EXPECT_CU(kSuccess, Move(stream, words + 8, words));
  EXPECT_CU(kSuccess, cu.StreamDestroy(stream));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
  EXPECT_EQ(Word(words + 8), 2);
}

TEST_P(StreamConformanceTest, EventOutlivesItsStream) {
  const DeviceAddress words = NewWords(2);
  const CuEvent event = NewEvent();
  CuStream stream = nullptr;
  ASSERT_CU(kSuccess, cu.StreamCreate(&stream, kStreamNonBlocking));
  EXPECT_CU(kSuccess, Store(stream, words, 7));
  EXPECT_CU(kSuccess, cu.EventRecord(event, stream));
  EXPECT_CU(kSuccess, cu.StreamDestroy(stream));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(b, event, 0));
  EXPECT_CU(kSuccess, Move(b, words + 8, words));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  EXPECT_EQ(Word(words + 8), 7);
}

}  // namespace
}  // namespace coppice
