// Goal: padding is followed through each kind of instruction, to just the elements that depend on
// it. Method: kernels written by hand run on an array of which some elements are padding; a table
// says which elements of the output padding may reach, and at which line it meets what is live.

#include "runtime/emulator/ptx/taint.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/ptx/launcher.h"

namespace coppice::ptx {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr size_t kElements = 32;

// Thread i has x[i] in %r1, and stores %r9 to y[i].
std::string KernelOf(const std::string& body, const std::string& declarations = "") {
  return R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry K(.param .u64 x, .param .u64 y) {
  .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<40>; .reg .f32 %f<20>; .reg .b64 %rd<12>;
  )" + declarations +
         R"(
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd3, %r0, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r1, [%rd4];
)" + body +
         R"(
  st.global.u32 [%rd5], %r9;
  ret;
})";
}

class TaintTest : public testing::Test {
 protected:
  // Which elements of y padding reaches, if those of x in `padding` are padding.
  std::vector<size_t> Reached(const std::string& text, const std::vector<size_t>& padding) {
    taint_ = {};
    words_.clear();
    Launcher launcher(text);
    launcher.taint = &taint_;
    launcher.checks = Checks::All(false);
    std::vector<uint32_t> values(kElements);
    std::iota(values.begin(), values.end(), 1);
    const uint64_t x = launcher.Allocate(values);
    const uint64_t y = launcher.Allocate(std::vector<uint32_t>(kElements));
    for (size_t i = 0; i < kElements; ++i)
      taint_.plane.Fill(x + 4 * i, 4, TaintOfInput(0, std::ranges::count(padding, i) > 0));
    ExpectClean(launcher.Run("K", {.block = {kElements, 1, 1}}, x, y));
    std::vector<size_t> reached;
    for (size_t i = 0; i < kElements; ++i) {
      words_.push_back(taint_.plane.Joined(y + 4 * i, 4));
      if (IsPadding(words_.back())) reached.push_back(i);
    }
    return reached;
  }
  // Where padding met something else that reached y[i].
  std::string LineOf(const std::string& text, size_t i) const {
    const size_t number = words_[i] >> kTaintMeetingShift;
    if (number == 0) return "none";
    std::string rest = text;
    for (int line = 1; line < taint_.meetings[number - 1].line; ++line)
      rest = rest.substr(rest.find('\n') + 1);
    return rest.substr(0, rest.find('\n'));
  }

  Taint taint_;
  std::vector<TaintWord> words_;
};

TEST_F(TaintTest, StaysInItsLane) {
  EXPECT_THAT(Reached(KernelOf("add.u32 %r9, %r1, 7;"), {3, 9}), ElementsAre(3, 9));
  EXPECT_THAT(taint_.gaps, IsEmpty());
}

TEST_F(TaintTest, IsJoinedWhereOperandsMeetAndTheLineIsKnown) {
  // Element i + 1, but of the last.
  const std::string text = KernelOf(R"(
  mov.u32 %r2, 0;
  setp.lt.u32 %p1, %r0, 31;
  @%p1 ld.global.u32 %r2, [%rd4+4];
  add.u32 %r9, %r1, %r2;
  xor.b32 %r9, %r9, 1;)");
  EXPECT_THAT(Reached(text, {20}), ElementsAre(19, 20));
  EXPECT_EQ("  add.u32 %r9, %r1, %r2;", LineOf(text, 19));
  EXPECT_EQ("  add.u32 %r9, %r1, %r2;", LineOf(text, 20));
}

TEST_F(TaintTest, ThatIsStoredWithoutMeetingAnythingHasTheLineOfTheStore) {
  const std::string text = KernelOf("ld.global.u32 %r9, [%rd1+12];");
  EXPECT_EQ(kElements, Reached(text, {3}).size());
  EXPECT_EQ("  st.global.u32 [%rd5], %r9;", LineOf(text, 0));
}

TEST_F(TaintTest, SelectsAndMasksPassWhatTheyChoose) {
  const std::string is_small = "setp.lt.u32 %p1, %r0, 8;\n";
  EXPECT_THAT(Reached(KernelOf(is_small + "selp.b32 %r9, %r1, 5, %p1;"), {4, 12}), ElementsAre(4));
  EXPECT_THAT(Reached(KernelOf(is_small + R"(
  selp.b32 %r2, -1, 0, %p1;
  and.b32 %r9, %r1, %r2;)"),
                      {4, 12}),
              ElementsAre(4));
  EXPECT_THAT(Reached(KernelOf(is_small + R"(
  selp.b32 %r2, 1, 0, %p1;
  mul.lo.u32 %r9, %r1, %r2;)"),
                      {4, 12}),
              ElementsAre(4));
  EXPECT_THAT(Reached(KernelOf(is_small + R"(
  mov.u32 %r9, 0;
  @%p1 mov.u32 %r9, %r1;)"),
                      {4, 12}),
              ElementsAre(4));
}

TEST_F(TaintTest, GuardsThatDependOnItPassIt) {
  EXPECT_THAT(Reached(KernelOf(R"(
  setp.gt.u32 %p1, %r1, 1000;
  mov.u32 %r9, 0;
  @%p1 mov.u32 %r9, 1;)"),
                      {6}),
              ElementsAre(6));
  EXPECT_THAT(Reached(KernelOf(R"(
  setp.gt.u32 %p1, %r1, 1000;
  mov.u32 %r9, 0;
  @%p1 bra Behind;
  mov.u32 %r9, 1;
Behind:)"),
                      {6}),
              ElementsAre(6));
}

TEST_F(TaintTest, BranchesPassItUntilTheirWaysMeet) {
  // What is made behind the branch depends on nothing.
  EXPECT_THAT(Reached(KernelOf(R"(
  setp.gt.u32 %p1, %r1, 1000;
  mov.u32 %r2, 0;
  @%p1 bra Behind;
  mov.u32 %r2, 1;
Behind:
  mov.u32 %r9, %r0;)"),
                      {6}),
              IsEmpty());
  // A loop that ends sooner or later.
  EXPECT_THAT(Reached(KernelOf(R"(
  mov.u32 %r2, 0;
Again:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra Again;
  mov.u32 %r9, %r2;)"),
                      {6}),
              ElementsAre(6));
  EXPECT_THAT(Reached(KernelOf(R"(
  mov.u32 %r2, 0;
Again:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra Again;
  mov.u32 %r9, %r0;)"),
                      {6}),
              IsEmpty());
}

TEST_F(TaintTest, StoresThatItKeepsOutAreReached) {
  EXPECT_THAT(Reached(KernelOf(R"(
  setp.gt.u32 %p1, %r1, 1000;
  mov.u32 %r9, 0;
  st.global.u32 [%rd5], %r9;
  @%p1 st.global.u32 [%rd5], %r0;
  ld.global.u32 %r9, [%rd5];)"),
                      {6}),
              ElementsAre(6));
}

TEST_F(TaintTest, AddressesThatDependOnItPassIt) {
  EXPECT_THAT(Reached(KernelOf(R"(
  and.b32 %r2, %r1, 15;
  mul.wide.u32 %rd6, %r2, 4;
  add.s64 %rd7, %rd1, %rd6;
  ld.global.u32 %r9, [%rd7];)"),
                      {21}),
              ElementsAre(21));
}

TEST_F(TaintTest, ShufflesGiveThatOfTheLaneThatIsRead) {
  EXPECT_THAT(Reached(KernelOf("shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;"), {6}), ElementsAre(7));
  EXPECT_THAT(Reached(KernelOf("shfl.sync.down.b32 %r9, %r1, 4, 31, -1;"), {6}), ElementsAre(2));
  EXPECT_THAT(Reached(KernelOf("shfl.sync.bfly.b32 %r1, %r1, 1, 31, -1;\nmov.u32 %r9, %r1;"), {6}),
              ElementsAre(7));
  EXPECT_EQ(kElements, Reached(KernelOf("redux.sync.add.u32 %r9, %r1, -1;"), {6}).size());
}

TEST_F(TaintTest, GoesThroughSharedMemoryAndIsGoneWhereOthersStore) {
  const std::string shared = ".shared .align 4 .b32 words[32];";
  EXPECT_THAT(Reached(KernelOf(R"(
  mov.u32 %r2, words;
  shl.b32 %r3, %r0, 2;
  add.u32 %r4, %r2, %r3;
  st.shared.u32 [%r4], %r1;
  bar.sync 0;
  xor.b32 %r5, %r3, 124;
  add.u32 %r6, %r2, %r5;
  ld.shared.u32 %r9, [%r6];)",
                               shared),
                      {1}),
              ElementsAre(30));
  EXPECT_THAT(Reached(KernelOf(R"(
  mov.u32 %r2, words;
  shl.b32 %r3, %r0, 2;
  add.u32 %r4, %r2, %r3;
  st.shared.u32 [%r4], %r1;
  st.shared.u32 [%r4], %r0;
  ld.shared.u32 %r9, [%r4];)",
                               shared),
                      {1}),
              IsEmpty());
}

TEST_F(TaintTest, AtomicsKeepWhatTheyAdd) {
  EXPECT_EQ(kElements, Reached(KernelOf(R"(
  mov.u32 %r2, sum;
  setp.eq.u32 %p1, %r0, 0;
  mov.u32 %r3, 0;
  @%p1 st.shared.u32 [%r2], %r3;
  bar.sync 0;
  red.shared.add.u32 [%r2], %r1;
  bar.sync 0;
  ld.shared.u32 %r9, [%r2];)",
                                        ".shared .align 4 .b32 sum;"),
                               {5})
                           .size());
}

TEST_F(TaintTest, HalvesOfARegisterAreApart) {
  // The upper half of x[i], and the lower one of x[31 - i].
  const std::string text = KernelOf(R"(
  shfl.sync.bfly.b32 %r2, %r1, 31, 31, -1;
  mov.b32 {%h1, %h2}, %r1;
  mov.b32 {%h3, %h4}, %r2;
  mov.b32 %r3, {%h3, %h2};
  mov.b32 {%h5, %h6}, %r3;
  cvt.u32.u16 %r9, %h6;)");
  EXPECT_THAT(Reached(text, {2}), ElementsAre(2));
  EXPECT_THAT(Reached(KernelOf(R"(
  shfl.sync.bfly.b32 %r2, %r1, 31, 31, -1;
  prmt.b32 %r3, %r1, %r2, 0x5410;
  and.b32 %r9, %r3, 65535;)"),
                      {2}),
              ElementsAre(2));
  EXPECT_THAT(Reached(KernelOf(R"(
  shfl.sync.bfly.b32 %r2, %r1, 31, 31, -1;
  cvt.rn.f32.u32 %f1, %r1;
  cvt.rn.f32.u32 %f2, %r2;
  cvt.rn.f16x2.f32 %r3, %f1, %f2;
  add.rn.f16x2 %r3, %r3, %r3;
  shr.u32 %r4, %r3, 16;
  mov.b32 {%h1, %h2}, %r3;
  cvt.u32.u16 %r9, %h2;)"),
                      {2}),
              ElementsAre(2));
}

// Lane 4 g + i gives A[g][i] and B[i][g], and gets C[g][2 i] and C[g][2 i + 1]; rows g + 8 are 0.
std::string ProductOf(const std::string& a, const std::string& b) {
  return KernelOf(R"(
  cvt.rn.f32.u32 %f1, %r1;
  mov.b32 %r2, %f1;
  mov.f32 %f2, 0f00000000;
  mov.b32 %r3, %f2;
  mov.b32 %r4, 0x3f800000;
  mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f3, %f4, %f5, %f6}, {)" +
                  a + ", %r3}, {" + b + R"(}, {%f2, %f2, %f2, %f2};
  mov.b32 %r9, %f3;)");
}

TEST_F(TaintTest, ProductsPassRowsAndColumns) {
  EXPECT_THAT(Reached(ProductOf("%r2", "%r4"), {9}), ElementsAre(8, 9, 10, 11));
  // Column 2 of C is in lanes 1, 5, ...
  EXPECT_THAT(Reached(ProductOf("%r4", "%r2"), {9}), ElementsAre(1, 5, 9, 13, 17, 21, 25, 29));
  EXPECT_THAT(taint_.gaps, IsEmpty());
}

TEST_F(TaintTest, MatricesAreLoadedByRowsAndColumns) {
  const std::string body = R"(
  mov.u32 %r2, rows;
  shl.b32 %r3, %r0, 2;
  add.u32 %r4, %r2, %r3;
  st.shared.u32 [%r4], %r1;
  bar.sync 0;
  and.b32 %r5, %r0, 7;
  shl.b32 %r5, %r5, 4;
  add.u32 %r6, %r2, %r5;
  )";
  const std::string shared = ".shared .align 16 .b32 rows[32];";
  const std::string load = "ldmatrix.sync.aligned.m8n8.x1";
  // Word 9 is elements 2 and 3 of row 2.
  EXPECT_THAT(Reached(KernelOf(body + load + ".shared.b16 {%r9}, [%r6];", shared), {9}),
              ElementsAre(9));
  EXPECT_THAT(Reached(KernelOf(body + load + ".trans.shared.b16 {%r9}, [%r6];", shared), {9}),
              ElementsAre(9, 13));
}

TEST_F(TaintTest, CopiesToSharedMemoryPassIt) {
  EXPECT_THAT(Reached(KernelOf(R"(
  mov.u32 %r2, words;
  shl.b32 %r3, %r0, 2;
  add.u32 %r4, %r2, %r3;
  cp.async.ca.shared.global [%r4], [%rd4], 4;
  cp.async.wait_all;
  ld.shared.u32 %r9, [%r4];)",
                               ".shared .align 16 .b32 words[32];"),
                      {30}),
              ElementsAre(30));
}

TEST_F(TaintTest, VectorsAndBytesAreApart) {
  EXPECT_THAT(Reached(KernelOf(R"(
  and.b32 %r2, %r0, 28;
  mul.wide.u32 %rd6, %r2, 4;
  add.s64 %rd7, %rd1, %rd6;
  ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd7];
  mov.u32 %r9, %r5;)"),
                      {6}),
              ElementsAre(4, 5, 6, 7));
  const std::string bytes = R"(
  mov.u32 %r9, 0;
  st.global.u32 [%rd5], %r9;
  ld.global.u8 %r2, [%rd4+1];
  st.global.u8 [%rd5+2], %r2;
  ld.global.u16 %h1, [%rd5];
  ld.global.u16 %h2, [%rd5+2];
)";
  EXPECT_THAT(Reached(KernelOf(bytes + "cvt.u32.u16 %r9, %h1;"), {6}), IsEmpty());
  EXPECT_THAT(Reached(KernelOf(bytes + "cvt.u32.u16 %r9, %h2;"), {6}), ElementsAre(6));
}

TEST_F(TaintTest, FunctionsTakeAndGiveIt) {
  const std::string text =
      R"(.version 8.0
.target sm_90
.address_size 64
.func (.param .b32 result) Twice(.param .b32 value) {
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [value];
  add.u32 %r2, %r1, %r1;
  st.param.b32 [result+0], %r2;
  ret;
}
)" + KernelOf(R"(
  { .param .b32 param0; .param .b32 retval0;
    st.param.b32 [param0+0], %r1;
    call.uni (retval0), Twice, (param0);
    ld.param.b32 %r9, [retval0+0]; })")
          .substr(std::string(".version 8.0\n.target sm_90\n.address_size 64\n").size());
  EXPECT_THAT(Reached(text, {11}), ElementsAre(11));
}

// --- found by an attacker

TEST_F(TaintTest, AWayThatIsNotTakenIsReached) {
  const std::string is_large = "setp.gt.u32 %p1, %r1, 3;\n";
  EXPECT_THAT(Reached(KernelOf(is_large + R"(
  mov.u32 %r9, 5;
  @%p1 bra Behind;
  mov.u32 %r9, 6;
Behind:)"),
                      {20}),
              ElementsAre(20));
  // A loop that ends after the first time.
  EXPECT_THAT(Reached(KernelOf(R"(
  mov.u32 %r9, 100;
Again:
  add.u32 %r9, %r9, 1;
  setp.lt.u32 %p1, %r9, %r1;
  @%p1 bra Again;
)"),
                      {20}),
              ElementsAre(20));
  EXPECT_THAT(taint_.gaps, IsEmpty());
  // It would store; nobody knows where.
  Reached(KernelOf(is_large + R"(
  mov.u32 %r9, 0;
  @%p1 bra Behind;
  st.global.u32 [%rd5], %r0;
Behind:)"),
          {20});
  EXPECT_THAT(taint_.gaps, ElementsAre("stores behind a branch that depends on padding"));
}

TEST_F(TaintTest, IndicesOfBranchesPassIt) {
  EXPECT_THAT(Reached(KernelOf(R"(
  and.b32 %r2, %r1, 1;
Targets: .branchtargets Even, Odd;
  brx.idx %r2, Targets;
Even:
  mov.u32 %r9, 1;
  bra Behind;
Odd:
  mov.u32 %r9, 2;
Behind:)"),
                      {20}),
              ElementsAre(20));
}

TEST_F(TaintTest, CarriesPassIt) {
  EXPECT_THAT(Reached(KernelOf(R"(
  mov.u32 %r2, -1;
  mov.u32 %r4, 0;
  add.cc.u32 %r3, %r2, %r1;
  addc.u32 %r9, %r4, %r4;)"),
                      {20}),
              ElementsAre(20));
}

TEST_F(TaintTest, PlacesThatItDecidesAreGaps) {
  Reached(KernelOf(R"(
  and.b32 %r2, %r1, 15;
  mul.wide.u32 %rd6, %r2, 4;
  add.s64 %rd7, %rd2, %rd6;
  red.global.add.u32 [%rd7], 1;
  mov.u32 %r9, 0;)"),
          {20});
  EXPECT_THAT(taint_.gaps, ElementsAre("stores at addresses that depend on padding"));
  // A guard keeps it out.
  Reached(KernelOf(R"(
  setp.lt.u32 %p1, %r1, 5;
  mul.wide.u32 %rd6, %r1, 4;
  add.s64 %rd7, %rd2, %rd6;
  @%p1 st.global.u32 [%rd7], %r0;
  mov.u32 %r9, 0;)"),
          {20});
  EXPECT_THAT(taint_.gaps, ElementsAre("stores at addresses that depend on padding"));
}

TEST_F(TaintTest, ClocksBehindItsBranchesAreGaps) {
  const std::string loop = R"(
  mov.u32 %r2, 0;
Again:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra Again;
)";
  Reached(KernelOf(loop + "mov.u32 %r9, %clock;"), {20});
  EXPECT_THAT(taint_.gaps, ElementsAre("clocks behind a branch that depends on padding"));
  Reached(KernelOf("mov.u32 %r9, %clock;"), {20});
  EXPECT_THAT(taint_.gaps, IsEmpty());
}

TEST_F(TaintTest, WhatAGuardKeepsOutOfAllLanesIsReached) {
  // Element 0 is every lane's guard.
  const std::string no_lane = R"(
  ld.global.u32 %r2, [%rd1];
  setp.gt.u32 %p1, %r2, 1000;
  mov.u32 %r9, 9;
)";
  EXPECT_EQ(kElements,
            Reached(KernelOf(no_lane + "@%p1 atom.global.add.u32 %r9, [%rd2], 0;"), {0}).size());
  EXPECT_EQ(kElements, Reached(KernelOf(no_lane + "@%p1 mov.b32 {%h1, %h2}, %r9;\n"
                                                  "mov.b32 %r9, {%h1, %h2};"),
                               {0})
                           .size());
}

TEST_F(TaintTest, WhatChoosesACopyPassesIt) {
  const std::string shared = ".shared .align 16 .b32 words[32];";
  const std::string target = R"(
  mov.u32 %r2, words;
  shl.b32 %r3, %r0, 2;
  add.u32 %r4, %r2, %r3;
)";
  const std::string end = R"(
  cp.async.wait_all;
  ld.shared.u32 %r9, [%r4];)";
  // How many bytes are copied.
  EXPECT_THAT(Reached(KernelOf(target + R"(
  and.b32 %r5, %r1, 4;
  cp.async.ca.shared.global [%r4], [%rd2], 4, %r5;)" +
                                   end,
                               shared),
                      {20}),
              ElementsAre(20));
}

TEST_F(TaintTest, AShuffleMayReadItsOwnLaneOperand) {
  EXPECT_THAT(Reached(KernelOf(R"(
  setp.lt.u32 %p1, %r0, 16;
  sub.u32 %r2, 31, %r0;
  selp.b32 %r2, %r2, %r1, %p1;
  shfl.sync.idx.b32 %r9, %r2, %r2, 31, -1;)"),
                      {31}),
              ::testing::Contains(0));
}

TEST_F(TaintTest, AccessesThatWaitGiveIt) {
  EXPECT_THAT(Reached(KernelOf("ld.volatile.global.u32 %r9, [%rd4];"), {20}), ElementsAre(20));
  EXPECT_THAT(Reached(KernelOf("atom.global.or.b32 %r9, [%rd4], 0;"), {20}), ElementsAre(20));
}

TEST_F(TaintTest, UpperPartsOfAValueHaveItsSign) {
  EXPECT_THAT(Reached(KernelOf(R"(
  ld.global.s32 %rd6, [%rd4];
  mov.b64 {%r2, %r9}, %rd6;)"),
                      {20}),
              ElementsAre(20));
  // The lower half alone is what is left.
  EXPECT_THAT(Reached(KernelOf(R"(
  shfl.sync.bfly.b32 %r2, %r1, 31, 31, -1;
  mov.b32 {%h1, %h2}, %r1;
  mov.b32 {%h3, %h4}, %r2;
  mov.b32 %r3, {%h1, %h4};
  cvt.u16.u32 %h5, %r3;
  cvt.u32.u16 %r9, %h5;)"),
                      {2}),
              ElementsAre(2));
}

TEST_F(TaintTest, WhoTakesPartPassesIt) {
  EXPECT_EQ(kElements, Reached(KernelOf(R"(
  setp.gt.u32 %p1, %r1, 1000;
  @%p1 bra Behind;
  activemask.b32 %r9;
Behind:)"),
                               {20})
                           .size());
}

TEST_F(TaintTest, CallsThatItChoosesAreGaps) {
  const std::string header = ".version 8.0\n.target sm_90\n.address_size 64\n";
  const auto text = [&](const std::string& bound) {
    return header + R"(
.func (.param .b32 result) One(.param .b32 value) {
  .reg .b32 %r<2>;
  mov.u32 %r1, 1;
  st.param.b32 [result+0], %r1;
  ret;
}
.func (.param .b32 result) Two(.param .b32 value) {
  .reg .b32 %r<2>;
  mov.u32 %r1, 2;
  st.param.b32 [result+0], %r1;
  ret;
}
)" +
           KernelOf("  setp.lt.u32 %p1, " + bound + R"(, 12;
  mov.u64 %rd6, One;
  mov.u64 %rd7, Two;
  selp.b64 %rd8, %rd6, %rd7, %p1;
  { .param .b32 param0; .param .b32 retval0;
    shape: .callprototype (.param .b32 _) _ (.param .b32 _);
    st.param.b32 [param0+0], %r0;
    call (retval0), %rd8, (param0), shape;
    ld.param.b32 %r9, [retval0+0]; })")
               .substr(header.size());
  };
  Reached(text("%r1"), {11});
  EXPECT_THAT(taint_.gaps, ElementsAre("stores behind a branch that depends on padding"));
  EXPECT_THAT(Reached(text("%r0"), {11}), IsEmpty());
  EXPECT_THAT(taint_.gaps, IsEmpty());
}

TEST_F(TaintTest, WhatCannotBeFollowedIsSaid) {
  Reached(KernelOf(R"(
  setp.gt.u32 %p1, %r1, 1000;
  bar.red.popc.u32 %r9, 0, %p1;)"),
          {11});
  EXPECT_THAT(taint_.gaps, ElementsAre("bar.red.popc.u32"));
}

}  // namespace
}  // namespace coppice::ptx
