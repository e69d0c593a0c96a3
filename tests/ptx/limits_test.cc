// Goal: whatever a kernel asks for, a launch takes a bounded part of the host, or says why it ends.
// Method: kernels that no compiler makes, each of which asks for too much of one thing.

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/launch.h"
#include "tests/ptx/launcher.h"

namespace coppice::ptx {
namespace {

using testing::HasSubstr;

TEST(LimitsTest, CallsThatTakeAllRegistersOfTheHostEndTheLaunch) {
  Launcher launcher(R"(
.version 8.0
.target sm_90
.address_size 64
.func f() { .reg .b64 %r<20000>; call.uni f; ret; }
.entry k() { call.uni f; ret; }
)");
  const Outcome outcome = launcher.Run("k", {.block = {64, 1, 1}});
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kIllegalAddress);
  EXPECT_THAT(outcome.fault->message, HasSubstr("the stack has no room left"));
}

TEST(LimitsTest, CallsOfManyFunctionsRun) {
  constexpr int kFunctions = 20000;
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n.func f0() { ret; }\n";
  for (int i = 1; i < kFunctions; ++i)
    text +=
        ".func f" + std::to_string(i) + "() { call.uni f" + std::to_string(i - 1) + "; ret; }\n";
  text += ".entry deep() { call.uni f" + std::to_string(kFunctions - 1) + "; ret; }\n";
  text += ".entry flat() { call.uni f7; ret; }\n";
  Launcher launcher(text);
  EXPECT_FALSE(launcher.Run("flat", {}).fault.has_value());
  EXPECT_TRUE(launcher.Run("deep", {}).fault.has_value()) << "deeper than a stack";
}

TEST(LimitsTest, BarriersOfMoreThreadsThanABlockMayHaveAreIllegal) {
  Launcher launcher(R"(
.version 8.0
.target sm_90
.address_size 64
.entry k(.param .u32 count) {
  .reg .b32 %r<2>;
  ld.param.u32 %r1, [count];
  bar.sync 0, %r1;
  ret;
}
)");
  EXPECT_FALSE(launcher.Run("k", {.block = {32, 1, 1}}, uint32_t{32}).fault.has_value());
  for (const uint32_t count : {0U, 7U, 2048U, 0xFFFFFFE0U}) {
    const Outcome outcome = launcher.Run("k", {.block = {32, 1, 1}}, count);
    ASSERT_TRUE(outcome.fault.has_value()) << count;
    EXPECT_EQ(outcome.fault->kind, Finding::Kind::kIllegalInstruction);
  }
}

TEST(LimitsTest, WhatIsPrintedIsNoWiderThanAPageOfText) {
  Launcher launcher(R"(
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b32 status) vprintf(.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 format[14] = {37, 50, 48, 48, 48, 48, 48, 48, 48, 48, 48, 100, 33, 0};
.entry k() {
  .local .align 8 .b8 values[8];
  .reg .b32 %r<2>;
  .reg .b64 %rd<4>;
  st.local.u32 [values], 5;
  mov.u64 %rd1, format;
  cvta.global.u64 %rd2, %rd1;
  mov.u64 %rd3, values;
  cvta.local.u64 %rd3, %rd3;
  {
    .param .b64 param0;
    .param .b64 param1;
    .param .b32 retval0;
    st.param.b64 [param0], %rd2;
    st.param.b64 [param1], %rd3;
    call.uni (retval0), vprintf, (param0, param1);
    ld.param.b32 %r1, [retval0];
  }
  ret;
}
)");
  EXPECT_FALSE(launcher.Run("k", {}).fault.has_value());
  EXPECT_EQ(launcher.Printed().size(), 65536U + 1);
}

}  // namespace
}  // namespace coppice::ptx
