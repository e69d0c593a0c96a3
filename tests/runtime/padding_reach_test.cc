// Goal: padding is followed through kernels, copies and fills of the emulator, and what is said of
// where it got names the program's step; what cannot be followed is said. Method: raw driver calls;
// a kernel that adds up two neighbours.

#include "coppice/runtime/padding_reach.h"

#include <optional>
#include <vector>

#include "coppice/runtime/access_bounds.h"

#include "tests/runtime/compiled_machine.h"

namespace coppice {
namespace {

constexpr int64_t kLaneCount = 32;
constexpr int64_t kAllBytes = 4 * kLaneCount;

constexpr char kNeighbours[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry Neighbours(.param .u64 x, .param .u64 y) {
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  setp.lt.u32 %p1, %r1, 31; mov.u32 %r3, 0;
  ld.global.u32 %r2, [%rd4];
  @%p1 ld.global.u32 %r3, [%rd4+4];
  add.u32 %r4, %r2, %r3;
  st.global.u32 [%rd5], %r4;
  ret;
}
)";
constexpr int kLineOfSum = 13;

class PaddingReachTest : public testing::Test {
 protected:
  void SetUp() override {
    CuLibrary library = nullptr;
    ASSERT_EQ(machine_.Load(kNeighbours, &library), CuResult::kSuccess);
    EXPECT_CU(kSuccess, machine_.cu.LibraryGetKernel(&kernel_, library, "Neighbours"));
    EXPECT_CU(kSuccess, machine_.cu.MemsetD8Async(x_, 1, kAllBytes, machine_.stream));
    EXPECT_CU(kSuccess, machine_.cu.CtxSynchronize());
    machine_.emulator->FollowPadding();
  }

  // Elements from 20 on are padding of input 2.
  void Mark() {
    machine_.emulator->MarkInput(x_, 4 * 20, 2, /*padding=*/false);
    machine_.emulator->MarkInput(x_ + 4 * 20, kAllBytes - 4 * 20, 2, /*padding=*/true);
  }
  void AddNeighbours(DeviceAddress from, DeviceAddress to) {
    void* arguments[] = {&from, &to};
    EXPECT_CU(kSuccess,
              machine_.cu.LaunchKernel(reinterpret_cast<CuFunction>(kernel_), 1, 1, 1, kLaneCount,
                                       1, 1, 0, machine_.stream, arguments, nullptr));
    EXPECT_CU(kSuccess, machine_.cu.CtxSynchronize());
  }
  std::optional<PaddingReach> Find(DeviceAddress address, int64_t elements) const {
    return machine_.emulator->FindPadding(address, 4 * elements);
  }

  const CompiledMachine machine_;
  const DeviceAddress x_ = machine_.Allocate(kAllBytes);
  const DeviceAddress y_ = machine_.Allocate(kAllBytes);
  const DeviceAddress z_ = machine_.Allocate(kAllBytes);
  CuKernel kernel_ = nullptr;
};

TEST_F(PaddingReachTest, SaysWhoseItIsAndWhichThreadLetItIn) {
  Mark();
  {
    const ArgumentBytes arguments[] = {
        {.argument = 0, .name = "x", .begin = x_, .bytes = kAllBytes, .writes = false},
        {.argument = 1, .name = "y", .begin = y_, .bytes = kAllBytes, .writes = true}};
    const std::string program = "decode";
    const AccessBounds bounds(arguments, {.program = program, .step = 3});
    AddNeighbours(x_, y_);
  }
  EXPECT_FALSE(Find(y_, 19).has_value());
  const std::optional<PaddingReach> reach = Find(y_, 20);
  ASSERT_TRUE(reach.has_value());
  EXPECT_EQ(reach->byte, 4 * 19);
  EXPECT_EQ(reach->inputs, std::vector<int>{2});
  EXPECT_EQ(reach->kernel, "Neighbours");
  EXPECT_EQ(reach->line, kLineOfSum);
  EXPECT_EQ(reach->thread, (std::array<unsigned, 3>{19, 0, 0}));
  EXPECT_EQ(reach->program, "decode");
  EXPECT_EQ(reach->step, 3);
  EXPECT_TRUE(machine_.emulator->PaddingGaps().empty());
}

TEST_F(PaddingReachTest, KernelsBehindEachOtherCarryItOn) {
  Mark();
  AddNeighbours(x_, y_);
  AddNeighbours(y_, z_);
  EXPECT_FALSE(Find(z_, 18).has_value());
  const std::optional<PaddingReach> reach = Find(z_, 19);
  ASSERT_TRUE(reach.has_value());
  EXPECT_EQ(reach->byte, 4 * 18);
}

TEST_F(PaddingReachTest, CopiesTakeItAlongAndFillsEndIt) {
  Mark();
  EXPECT_CU(kSuccess, machine_.cu.MemcpyDtoDAsync(z_, x_, kAllBytes, machine_.stream));
  EXPECT_CU(kSuccess, machine_.cu.CtxSynchronize());
  EXPECT_EQ(Find(z_, kLaneCount)->byte, 4 * 20);
  EXPECT_CU(kSuccess, machine_.cu.MemsetD32Async(z_ + 4 * 20, 0, 4, machine_.stream));
  EXPECT_CU(kSuccess, machine_.cu.CtxSynchronize());
  EXPECT_EQ(Find(z_, kLaneCount)->byte, 4 * 24);
}

TEST_F(PaddingReachTest, FollowingAgainForgets) {
  Mark();
  machine_.emulator->FollowPadding();
  AddNeighbours(x_, y_);
  EXPECT_FALSE(Find(y_, kLaneCount).has_value());
}

TEST_F(PaddingReachTest, WhatACopyBroughtNamesNoKernel) {
  Mark();
  EXPECT_CU(kSuccess, machine_.cu.MemcpyDtoDAsync(z_, x_, kAllBytes, machine_.stream));
  EXPECT_CU(kSuccess, machine_.cu.CtxSynchronize());
  EXPECT_EQ(Find(z_, kLaneCount)->kernel, "");
}

TEST_F(PaddingReachTest, CopiesToTheHostAreSaidIfTheyHavePadding) {
  Mark();
  std::vector<char> host(kAllBytes);
  EXPECT_CU(kSuccess, machine_.cu.MemcpyDtoHAsync(host.data(), x_, 4 * 20, machine_.stream));
  EXPECT_CU(kSuccess, machine_.cu.CtxSynchronize());
  EXPECT_TRUE(machine_.emulator->PaddingGaps().empty());
  EXPECT_CU(kSuccess, machine_.cu.MemcpyDtoHAsync(host.data(), x_, kAllBytes, machine_.stream));
  EXPECT_CU(kSuccess, machine_.cu.CtxSynchronize());
  EXPECT_EQ(machine_.emulator->PaddingGaps().size(), 1U);
}

TEST_F(PaddingReachTest, ARestartEndsIt) {
  Mark();
  machine_.emulator->Restart();
  Mark();
  EXPECT_FALSE(Find(x_, kLaneCount).has_value());
  EXPECT_TRUE(machine_.emulator->PaddingGaps().empty());
}

TEST_F(PaddingReachTest, SaysThatItCannotSeeIntoHostFunctions) {
  EXPECT_CU(kSuccess, machine_.cu.LaunchHostFunc(
                          machine_.stream, [](void* /*data*/) {}, nullptr));
  EXPECT_CU(kSuccess, machine_.cu.CtxSynchronize());
  EXPECT_EQ(machine_.emulator->PaddingGaps(), std::vector<std::string>{"a host function"});
}

}  // namespace
}  // namespace coppice
