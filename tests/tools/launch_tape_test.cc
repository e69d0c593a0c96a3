// Goal: a tape holds the launches of a replay and nothing else, and making them again does what the
// replay did. Method: a session on the tape's driver, over an emulator, whose program copies its
// input, staged and padded, to its output.

#include "tools/bench/launch_tape.h"

#include <array>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/emulator.h"
#include "coppice/runtime/stream.h"

#include "tests/support/status_matchers.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kLength = 3;
constexpr int64_t kBucket = 4;

absl::Status CopyInput(CallContext& context) {
  COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
  return context.driver().Call<&DriverTable::MemcpyDtoDAsync>(
      y.data, context.input(0).data, static_cast<size_t>(y.element_count()) * sizeof(float),
      context.stream());
}

class LaunchTapeTest : public testing::Test {
 protected:
  void SetUp() override {
    COPPICE_ASSERT_OK_AND_ASSIGN(session_, Session::Create(context_, {}));
    ProgramSpec spec{.name = "copy", .claim = PaddingContents::kRowIndependent};
    const Dim length = Dim::Symbol(spec.AddSymbol("length", *PaddingPolicy::Pow2(kBucket)));
    spec.inputs = {{.name = "x", .dims = {length}}};
    spec.outputs = {{.name = "y", .dims = {length}}};
    COPPICE_ASSERT_OK_AND_ASSIGN(call_.program, session_->Register(std::move(spec), CopyInput));
    const std::array<int64_t, 1> dims = {kLength};
    x_ = {Tensor::Dense(memory_.address(), DType::kFloat32, dims)};
    call_.inputs = x_;
    call_.stream = stream_.handle();
    FillX(1);
    for (int i = 0; i < 2; ++i)  // Warm-up and recording.
      ASSERT_OK(session_->Run(call_));
  }

  void FillX(float value) const {
    const std::vector<float> values(kLength, value);
    ASSERT_OK(driver().Call<&DriverTable::MemcpyHtoDAsync>(
        memory_.address(), static_cast<const void*>(values.data()), values.size() * sizeof(float),
        stream_.handle()));
    ASSERT_OK(stream_.Synchronize());
  }

  std::vector<float> Read(const Tensor& y) const {
    std::vector<float> values(static_cast<size_t>(y.element_count()));
    EXPECT_OK(driver().Call<&DriverTable::MemcpyDtoHAsync>(static_cast<void*>(values.data()),
                                                           y.data, values.size() * sizeof(float),
                                                           stream_.handle()));
    EXPECT_OK(stream_.Synchronize());
    return values;
  }

  // Tapes one call and says where its output lies.
  std::vector<TapedLaunch> TapeCall(Tensor& y) {
    Lease lease;
    auto launches = tape_.Note([&]() -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(lease, session_->Run(call_));
      return absl::OkStatus();
    });
    EXPECT_OK(launches);
    EXPECT_EQ(lease.kind(), RunKind::kReplay);
    const absl::StatusOr<ReadScope> scope = lease.Read(stream_.handle());
    EXPECT_OK(scope);
    y = scope->output(0);
    return *std::move(launches);
  }

  const Driver& driver() const { return tape_.driver(); }

  const std::unique_ptr<Emulator> emulator_ = *Emulator::Create({});
  LaunchTape tape_{emulator_->driver()};
  const Context context_ = *Context::Create(driver());
  const Stream stream_ = *Stream::Create(driver());
  const DeviceMemory memory_ = *DeviceMemory::Create(driver(), kLength * sizeof(float));
  std::unique_ptr<Session> session_;
  std::array<Tensor, 1> x_;
  Call call_;
};

TEST_F(LaunchTapeTest, AReplayThatStagesIsAStagingLaunchAndAGraphLaunch) {
  Tensor y;
  const std::vector<TapedLaunch> launches = TapeCall(y);
  ASSERT_THAT(launches, SizeIs(2));
  EXPECT_EQ(launches[0].exec, nullptr);
  EXPECT_NE(launches[0].function, nullptr);
  EXPECT_EQ(launches[0].stream, stream_.handle());
  EXPECT_THAT(launches[0].grid, ElementsAre(1, 1, 1));
  const auto& passed =
      *reinterpret_cast<const StagingParamsOf<kWideStagingBytes>*>(launches[0].staging.data());
  EXPECT_EQ(passed.header.copy_count, 1);
  EXPECT_EQ(reinterpret_cast<const StagedCopy*>(passed.copies)->source, memory_.address());
  EXPECT_NE(launches[1].exec, nullptr);
  EXPECT_EQ(launches[1].stream, stream_.handle());
}

TEST_F(LaunchTapeTest, LaunchesMadeAgainStageWhatTheInputHoldsAndRunTheGraphOnIt) {
  Tensor y;
  const std::vector<TapedLaunch> launches = TapeCall(y);
  EXPECT_THAT(Read(y), ElementsAre(1, 1, 1));
  FillX(7);
  EXPECT_THAT(Read(y), ElementsAre(1, 1, 1));
  EXPECT_OK(Repeat(driver(), launches));
  EXPECT_THAT(Read(y), ElementsAre(7, 7, 7));
  EXPECT_THAT(emulator_->reports(), IsEmpty());
}

TEST_F(LaunchTapeTest, TheDriverIsTheInnerOneExceptWhileTheTapeNotes) {
  const DriverTable& inner = emulator_->driver().table();
  const DriverTable& table = driver().table();
  const auto is_inner = [&] {
    return table.GraphLaunch == inner.GraphLaunch && table.LaunchKernel == inner.LaunchKernel;
  };
  EXPECT_EQ(driver().kind(), DriverKind::kEmulator);
  EXPECT_TRUE(is_inner());
  EXPECT_OK(tape_.Note([&] {
    EXPECT_FALSE(is_inner());
    return absl::OkStatus();
  }));
  EXPECT_TRUE(is_inner());
  EXPECT_THAT(tape_.Note([] { return absl::AbortedError("work"); }),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_TRUE(is_inner());
}

TEST_F(LaunchTapeTest, ALaunchThatFailsIsNotNoted) {
  const auto launches = tape_.Note([&] {
    const DriverTable& table = driver().table();
    EXPECT_NE(table.GraphLaunch(nullptr, stream_.handle()), CuResult::kSuccess);
    EXPECT_NE(table.LaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
              CuResult::kSuccess);
    return absl::OkStatus();
  });
  ASSERT_OK(launches);
  EXPECT_THAT(*launches, IsEmpty());
}

TEST_F(LaunchTapeTest, RepeatingEndsWithTheFirstLaunchThatFails) {
  Tensor y;
  std::vector<TapedLaunch> launches = TapeCall(y);
  FillX(7);
  launches.insert(launches.begin(), TapedLaunch{});
  EXPECT_FALSE(Repeat(driver(), launches).ok());
  EXPECT_THAT(Read(y), ElementsAre(1, 1, 1));
}

}  // namespace
}  // namespace coppice
