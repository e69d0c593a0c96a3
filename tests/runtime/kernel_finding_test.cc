// Goal: a finding of the emulator says in fields what its text says: who, where, in which step, and
// in or near which argument. Method: raw driver calls that access what they may not, under bounds.

#include "coppice/runtime/kernel_finding.h"

#include "coppice/runtime/access_bounds.h"

#include "tests/runtime/compiled_machine.h"

namespace coppice {
namespace {

constexpr int64_t kWordBytes = 8;

class KernelFindingTest : public testing::Test {
 protected:
  DeviceAddress At(int64_t word) const {
    return words_ + static_cast<DeviceAddress>(word * kWordBytes);
  }

  const CompiledMachine machine_;
  const DeviceAddress words_ = machine_.Allocate(10 * kWordBytes);
};

TEST_F(KernelFindingTest, OfAFaultSaysWhoAndWhereAndBesideWhichArgument) {
  EXPECT_TRUE(machine_.emulator->kernel_findings().empty());
  {
    const ArgumentBytes arguments[] = {
        {.argument = 0, .name = "target", .begin = At(2), .bytes = 4 * kWordBytes, .writes = true}};
    const std::string program = "decode";
    const AccessBounds bounds(arguments, {.program = program, .step = 3});
    EXPECT_CU(kSuccess, machine_.Run(machine_.stream, "WriteThreads", 5, At(2), int64_t{7}));
  }
  EXPECT_CU(kIllegalAddress, machine_.cu.CtxSynchronize());
  const std::vector<KernelFinding> findings = machine_.emulator->kernel_findings();
  ASSERT_EQ(findings.size(), 1U);
  const KernelFinding& finding = findings[0];
  EXPECT_EQ(finding.kind, KernelFinding::Kind::kOutOfBounds);
  EXPECT_EQ(finding.kernel, "WriteThreads");
  EXPECT_EQ(finding.thread, (std::array<unsigned, 3>{4, 0, 0}));
  EXPECT_GT(finding.line, 0);
  EXPECT_EQ(finding.address, At(6));
  EXPECT_EQ(finding.program, "decode");
  EXPECT_EQ(finding.step, 3);
  EXPECT_EQ(finding.argument, 0);
  EXPECT_EQ(finding.buffer, "target");
  EXPECT_EQ(finding.offset, 4 * kWordBytes);
  EXPECT_EQ(finding.buffer_bytes, 4 * kWordBytes);
  EXPECT_EQ(finding.text, machine_.emulator->fault());
}

TEST_F(KernelFindingTest, OfALaunchWithoutBoundsNamesNoArgumentAndNoStep) {
  EXPECT_CU(kSuccess, machine_.Run(machine_.stream, "Misaligned", 1, At(0)));
  EXPECT_CU(kMisalignedAddress, machine_.cu.CtxSynchronize());
  const std::vector<KernelFinding> findings = machine_.emulator->kernel_findings();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, KernelFinding::Kind::kMisaligned);
  EXPECT_EQ(findings[0].argument, -1);
  EXPECT_EQ(findings[0].step, -1);
}

TEST_F(KernelFindingTest, CopiesOfOneValueThatAreRoundedDifferentlyAreAKindOfTheirOwn) {
  // Two warps store numbers that differ in their last bit.
  constexpr char kKernel[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry Copies() {
  .reg .pred %p<2>; .reg .b32 %r<4>; .shared .b32 s[1];
  mov.u32 %r1, %tid.x; mov.u32 %r2, s;
  setp.lt.u32 %p1, %r1, 32; selp.b32 %r3, 0f3F800001, 0f3F800000, %p1;
  st.shared.b32 [%r2], %r3;
  ret;
}
)";
  CuLibrary library = nullptr;
  ASSERT_EQ(machine_.Load(kKernel, &library), CuResult::kSuccess);
  CuKernel kernel = nullptr;
  EXPECT_CU(kSuccess, machine_.cu.LibraryGetKernel(&kernel, library, "Copies"));
  EXPECT_CU(kSuccess, machine_.cu.LaunchKernel(reinterpret_cast<CuFunction>(kernel), 1, 1, 1, 64, 1,
                                               1, 0, machine_.stream, nullptr, nullptr));
  EXPECT_CU(kSuccess, machine_.cu.CtxSynchronize());
  const std::vector<KernelFinding> findings = machine_.emulator->kernel_findings();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, KernelFinding::Kind::kReplicas);
}

}  // namespace
}  // namespace coppice
