// Goal: access_bounds.h: a compiled kernel accesses what its arguments stand for and its module's
// variables, however it is launched, and nothing else that is mapped. Method: raw driver calls on
// one allocation, of which the bounds are a part, so that nothing but them can be in the way.

#include "coppice/runtime/access_bounds.h"

#include "tests/runtime/compiled_machine.h"

namespace coppice {
namespace {

constexpr int64_t kWord = 8;

class AccessBoundsTest : public testing::Test {
 protected:
  // Ten words at `words_`, of which the bounds are those from the third to the sixth.
  ArgumentBytes Middle(bool writes = true) const {
    return {.argument = 0, .name = "target", .begin = At(2), .bytes = 4 * kWord, .writes = writes};
  }
  DeviceAddress At(int64_t word) const { return words_ + static_cast<DeviceAddress>(word * kWord); }
  // Writes as many words from `first` on.
  CuResult Write(int64_t first, unsigned count, CuStream stream) const {
    return machine_.Run(stream, "WriteThreads", count, At(first), int64_t{7});
  }
  // That all of it ends well, or in 700 with this in the fault.
  void ExpectEnd(const std::string& fault) const {
    if (fault.empty()) {
      EXPECT_CU(kSuccess, machine_.cu.CtxSynchronize());
      EXPECT_EQ(machine_.emulator->fault(), "");
      return;
    }
    EXPECT_CU(kIllegalAddress, machine_.cu.CtxSynchronize());
    EXPECT_THAT(machine_.emulator->fault(), HasSubstr(fault));
    EXPECT_THAT(machine_.emulator->fault(), HasSubstr("line "));
  }

  const CompiledMachine machine_;
  const DeviceAddress words_ = machine_.Allocate(10 * kWord);
};

TEST_F(AccessBoundsTest, WhatArgumentsStandForIsAccessed) {
  const ArgumentBytes arguments[] = {Middle()};
  const AccessBounds bounds(arguments);
  EXPECT_CU(kSuccess, Write(2, 4, machine_.stream));
  ExpectEnd("");
  EXPECT_EQ(*PointerAt<int64_t>(At(5)), 10);
}

TEST_F(AccessBoundsTest, ByteBehindIsAFaultThatNamesKernelLineAndArgument) {
  const ArgumentBytes arguments[] = {Middle()};
  const AccessBounds bounds(arguments);
  *PointerAt<int64_t>(At(6)) = 5;
  EXPECT_CU(kSuccess, Write(2, 5, machine_.stream));
  ExpectEnd("writes 8 bytes at");
  EXPECT_THAT(machine_.emulator->fault(), HasSubstr("WriteThreads"));
  EXPECT_THAT(machine_.emulator->fault(),
              HasSubstr("0 bytes past the end of argument 0 (target), a range of 32 bytes at"));
  EXPECT_EQ(*PointerAt<int64_t>(At(6)), 5) << "what lies there is as it was";
}

TEST_F(AccessBoundsTest, ByteBeforeIsAFault) {
  const ArgumentBytes arguments[] = {Middle()};
  const AccessBounds bounds(arguments);
  EXPECT_CU(kSuccess, Write(1, 1, machine_.stream));
  ExpectEnd("8 bytes before argument 0 (target)");
}

TEST_F(AccessBoundsTest, AccessAcrossTwoArgumentsIsOfNeither) {
  const ArgumentBytes arguments[] = {
      {.argument = 0, .name = "target", .begin = At(0), .bytes = 12, .writes = true},
      {.argument = 1, .name = "other", .begin = At(0) + 12, .bytes = 20, .writes = true}};
  const AccessBounds bounds(arguments);
  EXPECT_CU(kSuccess, Write(0, 2, machine_.stream));
  ExpectEnd("across the bounds of argument 0 (target), a range of 12 bytes at");
}

TEST_F(AccessBoundsTest, ArgumentsThatOverlapAreTogetherWhatTheyStandFor) {
  const ArgumentBytes arguments[] = {
      {.argument = 0, .name = "target", .begin = At(0), .bytes = 12, .writes = true},
      {.argument = 1, .name = "other", .begin = At(1), .bytes = kWord}};
  const AccessBounds bounds(arguments);
  EXPECT_CU(kSuccess, Write(0, 2, machine_.stream));
  ExpectEnd("");
}

TEST_F(AccessBoundsTest, WhatIsReadIsNotWritten) {
  const ArgumentBytes arguments[] = {
      {.argument = 0, .name = "target", .begin = At(0), .bytes = kWord, .writes = true},
      {.argument = 1, .name = "source", .begin = At(2), .bytes = kWord}};
  const AccessBounds bounds(arguments);
  EXPECT_CU(kSuccess, machine_.Run(machine_.stream, "Add", 1, At(0), At(2)));
  EXPECT_CU(kSuccess, machine_.Run(machine_.stream, "Add", 1, At(2), At(0)));
  ExpectEnd("inside argument 1 (source)");
  EXPECT_THAT(machine_.emulator->fault(), HasSubstr("which the launch may only read"));
}

TEST_F(AccessBoundsTest, VariablesOfTheModuleAreItsOwn) {
  const ArgumentBytes arguments[] = {Middle()};
  const AccessBounds bounds(arguments);
  EXPECT_CU(kSuccess, machine_.Run(machine_.stream, "CountCalls", 1, At(2)));
  ExpectEnd("");
  EXPECT_EQ(*PointerAt<int64_t>(At(2)), 40);
}

TEST_F(AccessBoundsTest, WithoutAnyAllThatIsMappedIsAccessed) {
  {
    const ArgumentBytes arguments[] = {Middle()};
    const AccessBounds bounds(arguments);
    {
      const ArgumentBytes inner[] = {
          {.argument = 0, .begin = At(0), .bytes = 10 * kWord, .writes = true}};
      const AccessBounds wider(inner);
      EXPECT_CU(kSuccess, Write(0, 10, machine_.stream));
    }
    EXPECT_EQ(AccessBounds::Current(), &bounds);
  }
  EXPECT_EQ(AccessBounds::Current(), nullptr);
  EXPECT_CU(kSuccess, Write(0, 10, machine_.stream));
  ExpectEnd("");
}

// What compilers make of an atomic of 16 bits: the 32 bits around them are read and swapped.
constexpr char kSwap[] = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry Swap(.param .u64 word, .param .u64 bits) {
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [word];
  ld.param.u64 %rd2, [bits];
  cvt.u32.u64 %r4, %rd2;
  ld.relaxed.gpu.global.b32 %r1, [%rd1];
  xor.b32 %r3, %r1, %r4;
  atom.relaxed.gpu.global.cas.b32 %r2, [%rd1], %r1, %r3;
  ret;
}
// The first byte of the other half, which is no part of a swap.
.visible .entry Load(.param .u64 word, .param .u64 bits) {
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [word];
  ld.global.u8 %r1, [%rd1 + 2];
  atom.relaxed.gpu.global.cas.b32 %r2, [%rd1], %r1, %r1;
  ret;
})";

TEST(AccessBoundsOfWordSwapTest, SwapsTakeTheWordAndChangeNothingBehindTheEnd) {
  struct {
    const char* kernel;
    DeviceAddress at;
    int64_t bits;       // That the kernel flips.
    const char* fault;  // Empty: there is none.
  } constexpr kCases[] = {
      {"Swap", 0, 7, ""},
      {"Swap", sizeof(uint32_t), 7, "2 bytes past the end of argument 0 (halves)"},
      {"Swap", 0, 0x10000, "updates 1 byte at"},
      {"Load", 0, 0, "reads 1 byte at"},
  };
  for (const auto& [kernel, at, bits, fault] : kCases) {
    SCOPED_TRACE(kernel);
    const CompiledMachine machine(OptionsToLook(), kSwap);
    const DeviceAddress words = machine.Allocate(2 * sizeof(uint32_t));
    const uint32_t before = *PointerAt<uint32_t>(words);
    const ArgumentBytes arguments[] = {
        {.argument = 0, .name = "halves", .begin = words, .bytes = 2, .writes = true}};
    const AccessBounds bounds(arguments);
    EXPECT_CU(kSuccess, machine.Run(machine.stream, kernel, 1, words + at, bits));
    if (*fault == 0) {
      EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
      EXPECT_EQ(*PointerAt<uint32_t>(words), before ^ 7);
    } else {
      EXPECT_CU(kIllegalAddress, machine.cu.CtxSynchronize());
      EXPECT_THAT(machine.emulator->fault(), HasSubstr(fault));
    }
  }
}

// Makes a graph of one launch under bounds, in one of the ways to make one.
class BoundedGraphTest : public AccessBoundsTest, public testing::WithParamInterface<bool> {
 protected:
  CuGraphExec Graph(int64_t first, unsigned count) const {
    const ArgumentBytes arguments[] = {Middle()};
    const AccessBounds bounds(arguments);
    CuGraph graph = nullptr;
    if (GetParam()) {
      EXPECT_CU(kSuccess, machine_.cu.StreamBeginCapture(machine_.stream, CuCaptureMode::kRelaxed));
      EXPECT_CU(kSuccess, Write(first, count, machine_.stream));
      EXPECT_CU(kSuccess, machine_.cu.StreamEndCapture(machine_.stream, &graph));
    } else {
      DeviceAddress target = At(first);
      int64_t value = 7;
      void* pointers[] = {&target, &value};
      const CuKernelNodeParams params{.function = machine_.Compiled("WriteThreads"),
                                      .block_x = count,
                                      .kernel_params = pointers};
      EXPECT_CU(kSuccess, machine_.cu.GraphCreate(&graph, 0));
      CuGraphNode node = nullptr;
      EXPECT_CU(kSuccess, machine_.cu.GraphAddKernelNode(&node, graph, nullptr, 0, &params));
    }
    CuGraphExec exec = nullptr;
    EXPECT_CU(kSuccess, machine_.cu.GraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT_CU(kSuccess, machine_.cu.GraphDestroy(graph));
    return exec;
  }
};

TEST_P(BoundedGraphTest, NodesKeepTheirBoundsForEveryLaunch) {
  const CuGraphExec right = Graph(2, 4);
  const CuGraphExec wrong = Graph(2, 5);
  for (int launch = 0; launch < 2; ++launch)
    EXPECT_CU(kSuccess, machine_.cu.GraphLaunch(right, machine_.stream));
  ExpectEnd("");
  EXPECT_CU(kSuccess, machine_.cu.GraphLaunch(wrong, machine_.stream));
  ExpectEnd("0 bytes past the end of argument 0 (target), a range of 32 bytes at");
}

INSTANTIATE_TEST_SUITE_P(CapturedOrBuilt, BoundedGraphTest, testing::Bool());

}  // namespace
}  // namespace coppice
