// Goal: every sentence of graphs/lane/stream_order.h. Method: streams of an emulator that write the
// same bytes, which reports every two writes that nobody orders; captures that must stay as they
// are; a ledger that counts calls.

#include "graphs/lane/stream_order.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice::internal {
namespace {

class StreamOrderTest : public testing::Test {
 protected:
  // Writes the shared bytes on `stream`.
  void Work(CuStream stream) const {
    ASSERT_OK(device_.driver().Call<&DriverTable::MemsetD8Async>(
        bytes_.address(), static_cast<unsigned char>(7), size_t{1024}, stream));
  }
  // A call of the lane: enters, begins, writes.
  void Call(CuStream stream) {
    ASSERT_OK(order_.Enter(stream));
    order_.BeginCall();
    Work(stream);
  }
  void BeginCapture(CuStream stream) const {
    ASSERT_OK(device_.driver().Call<&DriverTable::StreamBeginCapture>(stream,
                                                                      CuCaptureMode::kThreadLocal));
  }
  // Ends a capture, which nothing has added to or broken.
  void EndCapture(CuStream stream) const {
    CuGraph graph = nullptr;
    ASSERT_OK(device_.driver().Call<&DriverTable::StreamEndCapture>(stream, &graph));
    size_t nodes = 1;
    ASSERT_OK(device_.driver().Call<&DriverTable::GraphGetNodes>(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 0U);
    EXPECT_OK(device_.driver().Call<&DriverTable::GraphDestroy>(graph));
  }
  // Whether everything queued on the other stream has run, as the host may know.
  absl::Status Settle() const { return other_.Synchronize(); }

  TestDevice device_{DriverLedger::Options()};
  DeviceMemory bytes_ = *DeviceMemory::Create(device_.driver(), 1024);
  Stream other_ = *Stream::Create(device_.driver());
  StreamOrder order_ = *StreamOrder::Create(device_.driver(), 0);
};

TEST_F(StreamOrderTest, CallsAreNumberedFromOne) {
  EXPECT_EQ(order_.calls(), 0U);
  EXPECT_EQ(order_.BeginCall(), 1U);
  EXPECT_EQ(order_.BeginCall(), 2U);
  EXPECT_EQ(order_.calls(), 2U);
}

TEST_F(StreamOrderTest, WorkOnAnotherStreamIsBehindTheLast) {
  for (int round = 0; round < 4; ++round)
    Call(round % 2 == 0 ? device_.stream() : other_.handle());
  EXPECT_EQ(order_.switches(), 3);
  EXPECT_TRUE(order_.IsLast(other_.handle()));
  EXPECT_FALSE(order_.IsLast(device_.stream()));
  EXPECT_OK(Settle());
}

TEST_F(StreamOrderTest, TheSameStreamTakesNoDriverCall) {
  ASSERT_OK(order_.Enter(device_.stream()));
  const int64_t before = device_.ledger().calls();
  ASSERT_OK(order_.Enter(device_.stream()));
  EXPECT_EQ(order_.BeginCall(), 1U);
  EXPECT_EQ(device_.ledger().calls(), before);
  EXPECT_EQ(order_.switches(), 0);
}

TEST_F(StreamOrderTest, ReaderWaitsForTheLanesWorkAndIsNoCall) {
  Call(device_.stream());
  ASSERT_OK(order_.MakeWait(other_.handle()));
  Work(other_.handle());
  EXPECT_EQ(order_.calls(), 1U);
  EXPECT_TRUE(order_.IsLast(device_.stream()));
  EXPECT_OK(Settle());
}

TEST_F(StreamOrderTest, LaterWorkWaitsForWhoJoined) {
  Call(device_.stream());
  ASSERT_OK(order_.MakeWait(other_.handle()));
  Work(other_.handle());
  ASSERT_OK(order_.Join(other_.handle()));
  Call(device_.stream());
  const Stream third = *Stream::Create(device_.driver());
  Call(third.handle());
  EXPECT_OK(third.Synchronize());
}

TEST_F(StreamOrderTest, LaneThatRanNothingMayBeJoined) {
  Work(other_.handle());
  ASSERT_OK(order_.Join(other_.handle()));
  Call(device_.stream());
  EXPECT_OK(device_.Synchronize());
}

TEST_F(StreamOrderTest, HostWaitsForWhoJoinsWhileTheLastStreamCaptures) {
  Call(device_.stream());
  ASSERT_OK(device_.Synchronize());
  BeginCapture(device_.stream());
  Work(other_.handle());
  ASSERT_OK(order_.Join(other_.handle()));
  EndCapture(device_.stream());
  Work(device_.stream());  // Unordered on the device, so the host has waited.
  EXPECT_OK(device_.Synchronize());
}

TEST_F(StreamOrderTest, HostWaitsForWhoJoinsIfTheDriverRefusesOrder) {
  Call(device_.stream());
  ASSERT_OK(device_.Synchronize());
  Work(other_.handle());
  device_.ledger().Inject({.entry = DriverLedger::IndexOf(&DriverTable::StreamWaitEvent),
                           .result = CuResult::kInvalidValue});
  ASSERT_OK(order_.Join(other_.handle()));
  Work(device_.stream());
  EXPECT_OK(device_.Synchronize());
}

TEST_F(StreamOrderTest, StreamThatCapturesIsRefusedAndItsCaptureStays) {
  Call(device_.stream());
  BeginCapture(other_.handle());
  EXPECT_THAT(order_.Enter(other_.handle()), StatusIs(kRefused));
  EXPECT_THAT(order_.MakeWait(other_.handle()), StatusIs(kRefused));
  EXPECT_THAT(order_.Join(other_.handle()), StatusIs(kRefused));
  EXPECT_THAT(order_.RefuseCapture(other_.handle()), StatusIs(kRefused));
  EXPECT_OK(order_.RefuseCapture(device_.stream()));
  EndCapture(other_.handle());
  EXPECT_TRUE(order_.IsLast(device_.stream()));
  EXPECT_OK(order_.Enter(other_.handle()));
  EXPECT_OK(order_.Wait());
}

TEST_F(StreamOrderTest, StreamThatCapturesIsRefusedAsTheFirstOneAndBehindOneThatIsGone) {
  for (const bool behind_one : {false, true}) {
    if (behind_one) {
      {
        const Stream gone = *Stream::Create(device_.driver());
        Call(gone.handle());
      }
      EXPECT_THAT(order_.Enter(other_.handle()), StatusIs(kRefused));
    }
    BeginCapture(other_.handle());
    for (int i = 0; i < 2; ++i)
      EXPECT_THAT(order_.Enter(other_.handle()), StatusIs(kRefused));
    EndCapture(other_.handle());
  }
  EXPECT_OK(order_.Enter(other_.handle()));
  EXPECT_EQ(order_.switches(), 0);
}

TEST_F(StreamOrderTest, WhatMarksALastStreamThatCapturesIsRefused) {
  Call(device_.stream());
  EXPECT_FALSE(*order_.LastStreamCaptures());
  BeginCapture(device_.stream());
  EXPECT_TRUE(*order_.LastStreamCaptures());
  EXPECT_THAT(order_.Enter(other_.handle()), StatusIs(kRefused));
  EXPECT_THAT(order_.MakeWait(other_.handle()), StatusIs(kRefused));
  EXPECT_THAT(order_.Wait(), StatusIs(kRefused));
  EXPECT_THAT(order_.Drain(), StatusIs(kRefused));
  EXPECT_THAT(order_.IsIdle(), StatusIs(kRefused));
  EXPECT_THAT(order_.FindCompletedCall(), IsOk());
  EndCapture(device_.stream());
  EXPECT_OK(order_.Drain());
}

TEST_F(StreamOrderTest, LastStreamThatIsGoneIsWaitedForAndLeftByWhoeverNeedsItsOrderFirst) {
  const std::vector<std::function<absl::Status()>> needs = {
      [this] { return order_.Enter(other_.handle()); },
      [this] { return order_.MakeWait(other_.handle()); },
      [this] { return order_.Wait(); },
      [this] { return order_.Drain(); },
      [this] { return order_.IsIdle().status(); },
      [this] { return order_.FindCompletedCall().status(); },
      [this] { return order_.LastStreamCaptures().status(); },
  };
  for (const auto& need : needs) {
    {
      const Stream gone = *Stream::Create(device_.driver());
      Call(gone.handle());
    }
    EXPECT_THAT(need(), StatusIs(kRefused));
    EXPECT_EQ(*order_.FindCompletedCall(), order_.calls());
    EXPECT_OK(need());
    Call(other_.handle());  // The host alone has ordered it.
    ASSERT_OK(order_.Drain());
  }
}

TEST_F(StreamOrderTest, LastStreamThatIsGoneIsNotLeftWhileACaptureKeepsItFromBeingWaitedFor) {
  {
    const Stream gone = *Stream::Create(device_.driver());
    Call(gone.handle());
  }
  BeginCapture(device_.stream());
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(order_.Enter(other_.handle()), StatusIs(kRefused));
  CuGraph graph = nullptr;
  EXPECT_NE(device_.driver().table().StreamEndCapture(device_.stream(), &graph),
            CuResult::kSuccess);
  EXPECT_THAT(order_.Enter(other_.handle()), StatusIs(kRefused));
  EXPECT_OK(order_.Enter(other_.handle()));
}

TEST_F(StreamOrderTest, HostWaitsForWhoJoinsFromAStreamThatIsGone) {
  Call(device_.stream());
  ASSERT_OK(order_.Wait());
  CuStream handle = nullptr;
  {
    const Stream gone = *Stream::Create(device_.driver());
    handle = gone.handle();
    Work(handle);
  }
  ASSERT_OK(order_.Join(handle));
  Call(device_.stream());
  EXPECT_OK(device_.Synchronize());
}

TEST_F(StreamOrderTest, NothingIsWaitedForBeforeTheFirstCall) {
  EXPECT_FALSE(*order_.LastStreamCaptures());
  const int64_t before = device_.ledger().calls();
  EXPECT_OK(order_.Wait());
  EXPECT_TRUE(*order_.IsIdle());
  EXPECT_EQ(*order_.FindCompletedCall(), 0U);
  EXPECT_EQ(device_.ledger().calls(), before);
}

TEST_F(StreamOrderTest, HostMayWaitForTheLanesLastWork) {
  Call(device_.stream());
  ASSERT_OK(order_.Wait());
  Work(other_.handle());  // Ordered by the host alone.
  ASSERT_OK(SynchronizeStream(device_.driver(), other_.handle()));
  Work(device_.stream());
  order_.WaitAtEnd();
  Work(other_.handle());
  EXPECT_OK(Settle());
}

TEST_F(StreamOrderTest, IdleOnceReadersThatJoinedHaveRun) {
  Call(device_.stream());
  ASSERT_OK(order_.MakeWait(other_.handle()));
  for (int i = 0; i < 1000; ++i)
    Work(other_.handle());
  ASSERT_OK(order_.Join(other_.handle()));
  EXPECT_FALSE(*order_.IsIdle());
  ASSERT_OK(Settle());
  ASSERT_OK(device_.Synchronize());
  EXPECT_TRUE(*order_.IsIdle());
}

TEST_F(StreamOrderTest, DrainNotesThatAllCallsHaveRun) {
  Call(device_.stream());
  Call(device_.stream());
  ASSERT_OK(order_.Drain());
  const int64_t before = device_.ledger().calls();
  EXPECT_EQ(*order_.FindCompletedCall(), 2U);
  EXPECT_EQ(device_.ledger().calls(), before);
}

TEST_F(StreamOrderTest, PollingFindsTheLastCallThatRanByFiveDriverCalls) {
  Call(device_.stream());
  for (int i = 0; i < 1000; ++i)
    Work(device_.stream());
  uint64_t completed = 0;
  int polls = 0;
  while (completed < order_.calls()) {
    const int64_t before = device_.ledger().calls();
    COPPICE_ASSERT_OK_AND_ASSIGN(const uint64_t found, order_.FindCompletedCall());
    EXPECT_LE(device_.ledger().calls() - before, 5);
    EXPECT_GE(found, completed);
    completed = found;
    // A mark of the first call says nothing of the second.
    if (++polls == 1) Call(device_.stream());
  }
  EXPECT_GT(polls, 1);
  Work(other_.handle());  // The host knows that all calls before have run.
  EXPECT_OK(Settle());
}

TEST_F(StreamOrderTest, OwnStreamIsNoneOfTheCallers) {
  EXPECT_NE(order_.own_stream().handle(), nullptr);
  EXPECT_NE(order_.own_stream().handle(), device_.stream());
}

}  // namespace
}  // namespace coppice::internal
