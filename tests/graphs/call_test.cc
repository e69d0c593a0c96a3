// Goal: every sentence of call.h that session tests do not ask. Method: affine on the emulator,
// with calls whose spans end before the device has run.

#include "coppice/graphs/call.h"

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

class CallTest : public SessionFixture {};

TEST_F(CallTest, SpansAreReadDuringRunOnly) {
  const Affine affine = MakeAffine();
  const DeviceMemory input = *device_.Upload(Ramp(4));
  const DeviceMemory target = *device_.Upload(std::vector<float>(4));
  const std::vector<int64_t> sizes = {4};
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay}) {
    std::vector<Tensor> inputs = {Tensor::Dense(input.address(), DType::kFloat32, sizes)};
    std::vector<Tensor> targets = {Tensor::Dense(target.address(), DType::kFloat32, sizes)};
    std::vector<int64_t> scalars = {std::bit_cast<int64_t>(2.0)};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease,
                                 affine.session->Run({.program = affine.program,
                                                      .binding = affine.binding,
                                                      .inputs = inputs,
                                                      .scalars = scalars,
                                                      .stream = device_.stream(),
                                                      .output_mode = OutputMode::kWriteInto,
                                                      .targets = targets}));
    inputs[0] = targets[0] = Tensor();
    scalars[0] = 0;
    EXPECT_EQ(lease.kind(), kind);
    EXPECT_EQ(device_.Download<float>(target.address(), 4), Expected(4));
  }
}

TEST_F(CallTest, CallBorrowsOnTheFirstLaneWithoutPoisonUnlessItSaysOtherwise) {
  const coppice::Call call;
  EXPECT_EQ(call.lane, 0);
  EXPECT_EQ(call.poison, Poison::kOff);
  EXPECT_EQ(call.output_mode, OutputMode::kBorrow);
  EXPECT_TRUE(call.targets.empty());
}

TEST_F(CallTest, OnlyOutputsThatAreCopiedOutNeedCopyOutBytes) {
  EXPECT_FALSE(NeedsCopyOutBytes(OutputMode::kBorrow));
  EXPECT_TRUE(NeedsCopyOutBytes(OutputMode::kCopyOut));
  EXPECT_FALSE(NeedsCopyOutBytes(OutputMode::kWriteInto));
}

TEST_F(CallTest, BindingMayBeNullOnlyIfTheProgramBindsNothing) {
  Affine affine = MakeAffine();
  affine.binding = nullptr;
  EXPECT_THAT(Call(affine, 4), StatusIs(kWrongArgument));
}

}  // namespace
}  // namespace coppice
