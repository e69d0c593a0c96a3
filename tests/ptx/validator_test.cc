// Modules that can be parsed and that ptxas refuses, each beside one that differs in that alone.
//
// tests/ptx/ptxas_test.py holds the verdicts against ptxas, where there is one.

#include "runtime/emulator/ptx/validator.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/program.h"

namespace coppice::ptx {
namespace {

using ::testing::HasSubstr;

absl::Status StatusOf(const std::string& variables,
                      const std::string& body,
                      const std::string& parameters = ".param .u64 p",
                      const std::string& target = "sm_80") {
  return Program::Build(".version 8.1\n.target " + target + "\n.address_size 64\n" + variables +
                        "\n.entry k(" + parameters + ") {\n" + body + "\nret;\n}\n")
      .status();
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

TEST(ValidatorTest, RegistersAndNumbersHaveTheTypeOfTheInstruction) {
  const std::string registers =
      ".reg .f32 f; .reg .f64 d; .reg .u32 u; .reg .s32 s; .reg .b32 b; .reg .b64 at; "
      ".reg .pred q; .reg .b16 h; ";
  for (const auto& [wrong, right] :
       Pairs{{"add.u32 u, f, 1;", "add.u32 u, s, 1;"},
             {"add.f32 f, s, f;", "add.f32 f, b, f;"},
             {"mov.u32 f, 1;", "mov.b32 f, 1;"},
             {"ld.global.u32 f, [at];", "ld.global.b32 f, [at];"},
             {"st.global.v2.u32 [at], {u, f};", "st.global.v2.b32 [at], {u, f};"},
             {"selp.u32 u, u, f, q;", "selp.b32 u, u, f, q;"},
             {"setp.eq.u32 q, u, f;", "setp.eq.f32 q, b, f;"},
             {"cvt.rn.f32.s32 f, f;", "cvt.rn.f32.s32 f, u;"},
             {"shl.b32 f, f, f;", "shl.b32 f, f, u;"},
             {"add.f32 f, f, 1;", "add.f32 f, f, 1.0;"},
             {"add.u32 u, u, 1.0;", "add.u32 u, u, 1;"},
             {"and.b32 b, b, 1.0;", "and.b32 b, b, 0f3F800000;"},
             {"add.f16 h, h, 1;", "add.f16 h, h, h;"}}) {
    EXPECT_THAT(StatusOf("", registers + wrong).message(), HasSubstr("line 6: ")) << wrong;
    EXPECT_TRUE(StatusOf("", registers + right).ok()) << StatusOf("", registers + right);
  }
}

TEST(ValidatorTest, AddressesAreInTheSpaceOfTheInstruction) {
  const std::string module = ".global .b32 g; .const .b32 c;";
  const std::string names =
      ".shared .b32 s; .local .b32 l; .param .b32 q; .reg .b32 r; .reg .b64 at; .reg .f64 d; ";
  for (const auto& [wrong, right] :
       Pairs{{"ld.global.u32 r, [c];", "ld.const.u32 r, [c];"},
             {"ld.u32 r, [c];", "ld.u32 r, [g];"},
             {"ld.shared.u32 r, [g];", "ld.shared.u32 r, [s];"},
             {"ld.u32 r, [q];", "ld.u32 r, [l];"},
             {"ld.global.u32 r, [p];", "ld.param.u32 r, [p];"},
             {"atom.shared.add.u32 r, [g], r;", "atom.global.add.u32 r, [g], r;"},
             {"cp.async.ca.shared.global [g], [at], 4;", "cp.async.ca.shared.global [s], [g], 4;"},
             {"ld.global.u32 r, [r];", "ld.shared.u32 r, [r];"},
             {"ld.global.u32 r, [d];", "ld.global.u32 r, [at];"}}) {
    EXPECT_THAT(StatusOf(module, names + wrong).message(), HasSubstr("not an address")) << wrong;
    EXPECT_TRUE(StatusOf(module, names + right).ok()) << StatusOf(module, names + right);
  }
  EXPECT_THAT(StatusOf(module, names + "st.param.u64 [p], at;").message(),
              HasSubstr("cannot write a parameter of its function"));
  EXPECT_THAT(StatusOf(module, names + "st.const.u32 [c], r;").message(),
              HasSubstr("cannot write constants"));
  EXPECT_THAT(StatusOf(".func (.param .b32 r) f() { .reg .b32 x; ld.param.b32 x, [r]; ret; }", "")
                  .message(),
              HasSubstr("cannot read a return value of its function"));
}

TEST(ValidatorTest, NamesAreThereOnce) {
  for (const auto& [wrong, right] :
       Pairs{{".reg .b32 a; .reg .f32 a;", ".reg .b32 a; { .reg .f32 a; }"},
             {".reg .b32 a<2>; .reg .b32 a<3>;", ".reg .b32 a<2>; .reg .b32 b<3>;"},
             {".reg .b32 a<2>; .reg .b32 a1;", ".reg .b32 a<2>; .reg .b32 a2;"},
             {".reg .b32 a1; .reg .b32 a<2>;", ".reg .b32 a; .reg .b32 a<2>;"},
             {".reg .b32 p;", "{ .reg .b32 p; }"},
             {".reg .b32 L; L:", ".reg .b32 M; L:"},
             {".reg .b32 a; .shared .b32 a;", ".reg .b32 a; .shared .b32 b;"}}) {
    EXPECT_FALSE(StatusOf("", wrong).ok()) << wrong;
    EXPECT_TRUE(StatusOf("", right).ok()) << StatusOf("", right);
  }
  EXPECT_FALSE(StatusOf("", "", ".param .u64 p, .param .u32 p").ok());
  EXPECT_FALSE(StatusOf(".global .b32 k;", "").ok());
}

TEST(ValidatorTest, RegistersOfARangeAreNamedByAllDigits) {
  // ptxas takes a10 for the tenth of a, whatever else is there.
  const std::string both = ".reg .b32 a<12>; .reg .f64 a1<2>; ";
  EXPECT_TRUE(StatusOf("", both + "mov.u32 a10, 1;").ok());
  EXPECT_FALSE(StatusOf("", both + "mov.f64 a10, 1.0;").ok());
  EXPECT_TRUE(StatusOf("", ".reg .b32 a; .reg .b32 a<2>; add.u32 a1, a, a0;").ok());
  EXPECT_TRUE(StatusOf("", "{ .reg .b32 a; .reg .b32 a<2>; add.u32 a1, a, a0; }").ok());
}

TEST(ValidatorTest, VariablesFitWhereTheyAre) {
  for (const std::string variable :
       {".reg .b32 g;", ".local .b32 g;", ".param .b32 g;", ".global .pred g;", ".global .b32 g[];",
        ".global .v4 .b64 g;", ".global .f32 g = 1;", ".global .u32 g = 1.0;",
        ".global .f16 g = 1.0;", ".global .u8 g[2][2] = {1, 2};"})
    EXPECT_FALSE(StatusOf(variable, "").ok()) << variable;
  for (const std::string variable : {".reg .b32 a[2];", ".shared .b32 a[];", ".local .pred a;"})
    EXPECT_FALSE(StatusOf("", variable).ok()) << variable;
  for (const std::string parameter : {".reg .b32 p", ".param .v2 .b32 p", ".param .pred p"})
    EXPECT_FALSE(StatusOf("", "", parameter).ok()) << parameter;
  for (const std::string variable :
       {".extern .shared .b32 g[];", ".global .v4 .b32 g;", ".global .f32 g = 1.0;",
        ".global .b32 g = 1.0;", ".global .u8 g[2][2] = {{1}, {2}};"})
    EXPECT_TRUE(StatusOf(variable, "").ok()) << StatusOf(variable, "");
}

TEST(ValidatorTest, DeclarationsAgree) {
  for (const std::string functions :
       {".func f(.param .b32 a); .func f(.param .b64 a) { ret; }",
        ".func f(.param .b32 a); .func f(.param .u32 a) { ret; }",
        ".func f(.param .b32 a); .func f() { ret; }",
        ".func f(.param .align 4 .b8 a[8]); .func f(.param .align 8 .b8 a[8]) { ret; }",
        ".func f() { ret; } .func f();", ".func f();", ".extern .func f() { ret; }",
        ".extern .func f(); .func f() { ret; }", ".func f(); .visible .func f() { ret; }",
        ".extern .global .b32 g; .global .b32 g;",
        ".extern .global .b32 g; .visible .global .b64 g;"})
    EXPECT_FALSE(StatusOf(functions, "").ok()) << functions;
  for (const std::string functions :
       {".func f(.param .b32 a); .func f(.param .b32 b) { ret; }", ".extern .func f();",
        ".visible .func f(); .func f() { ret; }",
        ".extern .global .b32 g; .visible .global .b32 g;"})
    EXPECT_TRUE(StatusOf(functions, "").ok()) << StatusOf(functions, "");
}

TEST(ValidatorTest, FencesAndBarriersHaveTheOperandsThatTheyNeed) {
  const std::string registers = ".reg .b32 w<4>; .reg .b64 d<4>; .reg .pred q; ";
  for (const auto& [instruction, what] : Pairs{
           {"fence.sc.gpu w1;", "takes no operands"},
           {"membar.gl w1;", "takes no operands"},
           {"griddepcontrol.wait 1;", "takes no operands"},
           {"fence.proxy.tensormap::generic.release.gpu [d1], 128;", "takes no operands"},
           {"fence.proxy.tensormap::generic.acquire.gpu;", "an address and the size 128"},
           {"fence.proxy.tensormap::generic.acquire.gpu [d1], 64;", "an address and the size 128"},
           {"fence.proxy.tensormap::generic.acquire.gpu d1, 128;", "an address and the size 128"},
           {"mbarrier.arrive.expect_tx.shared.b64 _, [w1];", "a count after the address"},
           {"mbarrier.arrive.noComplete.shared.b64 d1, [w1];", "a count after the address"},
           {"mbarrier.arrive.noComplete.shared.b64 d1, [w1], 0;", "at least one arrival"},
           {"mbarrier.arrive.shared.b64 _, [w1], -1;", "at least one arrival"},
           {"mbarrier.test_wait.shared.b64 q, [w1], d1, w1;", "takes no time limit"},
           {"wgmma.wait_group.sync.aligned -1;", "at least 0"},
       }) {
    const absl::Status status = StatusOf("", registers + instruction, ".param .u64 p", "sm_90a");
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)))
        << instruction;
  }
  for (const std::string instruction :
       {"fence.sc.gpu;", "membar.gl;", "griddepcontrol.wait;",
        "fence.proxy.tensormap::generic.acquire.gpu [d1], 128;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [w1], 0;", "mbarrier.arrive.shared.b64 _, [w1];",
        "mbarrier.try_wait.shared.b64 q, [w1], d1, w1;", "wgmma.wait_group.sync.aligned 0;"})
    EXPECT_TRUE(StatusOf("", registers + instruction, ".param .u64 p", "sm_90a").ok())
        << instruction;
}

TEST(ValidatorTest, InstructionsAreThoseOfTheArchitecture) {
  const std::string registers = ".reg .b16 h<4>; .reg .b32 w<4>; .reg .b64 d<4>; .reg .pred q; ";
  for (const auto& [instruction, least] : Pairs{
           {"cvt.rn.bf16.s32 h1, w1;", "sm_90"},
           {"cvt.rn.bf16.f32 h1, w1;", "sm_80"},
           {"cvt.rn.f16x2.e4m3x2 w1, h1;", "sm_89"},
           {"cvt.rn.tf32.f32 w1, w2;", "sm_90"},
           {"cvt.rna.tf32.f32 w1, w2;", "sm_80"},
           {"min.xorsign.abs.f32 w1, w2, w3;", "sm_86"},
           {"add.bf16 h1, h2, h3;", "sm_90"},
           {"fma.rn.bf16 h1, h2, h3, h1;", "sm_80"},
           {"fence.acq_rel.cluster;", "sm_90"},
           {"fence.proxy.async;", "sm_90"},
           {"fence.proxy.async.shared::cta;", "sm_90"},
           {"fence.proxy.tensormap::generic.release.gpu;", "sm_90"},
           {"fence.proxy.tensormap::generic.acquire.gpu [d1], 128;", "sm_90"},
           {"mbarrier.try_wait.shared.b64 q, [w1], d1;", "sm_90"},
           {"mbarrier.test_wait.shared.b64 q, [w1], d1;", "sm_80"},
           {"ld.global.v8.b32 {w1, w1, w1, w1, w1, w1, w1, w1}, [d1];", "sm_100"},
       }) {
    for (const std::string target : {"sm_80", "sm_86", "sm_89", "sm_90a"}) {
      const absl::Status status = StatusOf("", registers + instruction, ".param .u64 p", target);
      const bool has = least.size() == target.substr(0, 5).size() && target.substr(0, 5) >= least;
      EXPECT_EQ(status.ok(), has) << target << ": " << instruction;
      if (status.ok()) continue;
      EXPECT_THAT(status.message(), HasSubstr("needs .target " + least));
    }
  }
}

TEST(ValidatorTest, ModifiersGoTogether) {
  const std::string registers = ".reg .b16 h<4>; .reg .b32 w<4>; .reg .b64 d<4>; ";
  for (const auto& [wrong, right] :
       Pairs{{"cvt.sat.u32.u16 w1, h1;", "cvt.sat.u32.s16 w1, h1;"},
             {"cvt.sat.s32.u16 w1, h1;", "cvt.sat.s16.u16 h2, h1;"},
             {"ldu.shared.u32 w1, [w2];", "ldu.global.u32 w1, [d2];"}}) {
    EXPECT_THAT(StatusOf("", registers + wrong).message(), HasSubstr("cannot be combined"));
    EXPECT_TRUE(StatusOf("", registers + right).ok()) << StatusOf("", registers + right);
  }
}

TEST(ValidatorTest, WhatACallPassesFits) {
  const auto call = [](const std::string& formal, const std::string& actual) {
    return StatusOf(".func f(.param " + formal + ") { ret; }",
                    ".param " + actual + ";\ncall f, (x);");
  };
  EXPECT_TRUE(call(".b32 a", ".f32 x").ok());
  EXPECT_TRUE(call(".u32 a", ".s32 x").ok());
  EXPECT_TRUE(call(".align 8 .b8 a[8]", ".align 8 .b8 x[8]").ok());
  EXPECT_FALSE(call(".u32 a", ".f32 x").ok());
  EXPECT_FALSE(call(".b32 a", ".b64 x").ok());
  EXPECT_FALSE(call(".align 4 .b8 a[4]", ".b32 x").ok());
  EXPECT_FALSE(call(".align 8 .b8 a[8]", ".align 4 .b8 x[8]").ok());
  EXPECT_FALSE(call(".u16 a", ".u16 x").ok());
  EXPECT_TRUE(call(".b16 a", ".b16 x").ok());
}

}  // namespace
}  // namespace coppice::ptx
