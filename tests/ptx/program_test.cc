// Goal: a program has kernels, variables and addresses as program.h says, and refuses what kernels
// reach and nobody executes. Method: modules of a few lines; what a compiler made.

#include "runtime/emulator/ptx/program.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/ptx/fixtures.h"
#include "tests/support/status_matchers.h"

namespace coppice::ptx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsNull;
using testing::NotNull;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

absl::StatusOr<std::unique_ptr<Program>> BuildModule(std::string_view text) {
  return Program::Build(".version 9.0\n.target sm_90\n.address_size 64\n" + std::string(text));
}

std::unique_ptr<Program> Built(std::string_view text) {
  auto program = BuildModule(text);
  EXPECT_OK(program);
  return program.ok() ? *std::move(program) : nullptr;
}

template <typename T>
T At(const std::vector<std::byte>& memory, int64_t offset) {
  T value;
  std::memcpy(&value, memory.data() + offset, sizeof(value));
  return value;
}

// The constant that an instruction of a kernel reads first.
template <typename T>
T ConstantOf(const Kernel& kernel, size_t i) {
  T value;
  std::memcpy(&value, kernel.code->constants.data() + kernel.code->instrs.at(i).a.offset,
              sizeof(value));
  return value;
}

TEST(ProgramTest, KernelsHaveParametersThreadsAndNames) {
  const auto program = Built(
      ".entry a(.param .u32 n, .param .u64 p)\n.maxntid 8, 4\n{\nret;\n}\n"
      ".entry b()\n.reqntid 64\n{\nret;\n}\n.entry c()\n{\n}");
  ASSERT_THAT(program, NotNull());
  EXPECT_THAT(program->kernels(), SizeIs(3));
  const Kernel* a = program->FindKernel("a");
  ASSERT_THAT(a, NotNull());
  EXPECT_EQ(a->parameter_bytes, 16);
  EXPECT_EQ(a->max_threads, 32);
  EXPECT_THAT(a->required_threads, ElementsAre(0, 0, 0));
  EXPECT_THAT(program->FindKernel("b")->required_threads, ElementsAre(64, 1, 1));
  EXPECT_EQ(program->FindKernel("b")->max_threads, 64);
  EXPECT_EQ(program->FindKernel("c")->max_threads, 1024);
  EXPECT_THAT(program->FindKernel("d"), IsNull());
}

TEST(ProgramTest, VariablesHavePlacesAndInitialValues) {
  const auto program = Built(
      ".global .u8 pad = 1;\n.global .align 16 .u32 a[3] = {1, 2};\n.const .u64 p[2] = {a, a+4};\n"
      ".extern .global .u32 other;");
  ASSERT_THAT(program, NotNull());
  const Place* a = program->FindVariable("a");
  const Place* p = program->FindVariable("p");
  ASSERT_THAT(a, NotNull());
  ASSERT_THAT(p, NotNull());
  EXPECT_EQ(a->offset % 16, 0);
  EXPECT_EQ(a->bytes, 12);
  EXPECT_GE(program->global_bytes(), p->offset + p->bytes);
  EXPECT_THAT(program->FindVariable("other"), IsNull());
  std::vector<std::byte> memory(static_cast<size_t>(program->global_bytes()), std::byte{0xff});
  // Wherever it is linked, and linked again.
  for (const uint64_t address : {uint64_t{1} << 40, uint64_t{1} << 20}) {
    program->Link(address, memory.data());
    EXPECT_EQ(At<uint32_t>(memory, a->offset + 4), 2u);
    EXPECT_EQ(At<uint32_t>(memory, a->offset + 8), 0u);
    EXPECT_EQ(At<uint64_t>(memory, p->offset + 8), address + static_cast<uint64_t>(a->offset) + 4);
  }
}

TEST(ProgramTest, CodeReadsAddressesOfWhereItIsLinked) {
  const auto program =
      Built(".global .u32 pad[64], v;\n.entry k()\n{\n.reg .b64 %rd<2>;\nmov.u64 %rd1, v;\n}");
  ASSERT_THAT(program, NotNull());
  std::vector<std::byte> memory(static_cast<size_t>(program->global_bytes()));
  for (const uint64_t address : {uint64_t{1} << 40, uint64_t{1} << 20}) {
    program->Link(address, memory.data());
    EXPECT_EQ(ConstantOf<uint64_t>(program->kernels()[0], 0), address + 256);
  }
}

TEST(ProgramTest, ATableOfFunctionsIsReachedWithThem) {
  EXPECT_THAT(BuildModule(".func f()\n{\ntcgen05.wait::ld.sync.aligned;\n}\n.global .u64 t = f;\n"
                          ".entry k()\n{\n.reg .b64 %rd<2>;\nmov.u64 %rd1, t;\n}"),
              StatusIs(absl::StatusCode::kUnimplemented));
}

TEST(ProgramTest, AFunctionsAddressIsItsPlaceInTheTable) {
  const auto program = Built(
      ".func f()\n{\nret;\n}\n.func g()\n{\nret;\n}\n.global .u64 t = g;\n"
      ".entry k()\n{\n.reg .b64 %rd<2>;\nmov.u64 %rd1, f;\nmov.u64 %rd1, t;\n}");
  ASSERT_THAT(program, NotNull());
  const Kernel& kernel = program->kernels()[0];
  ASSERT_THAT(kernel.functions, NotNull());
  const auto name_at = [&](uint64_t address) {
    for (size_t i = 0; i < kernel.functions->size(); ++i)
      if (FunctionAddress(i) == address) return (*kernel.functions)[i]->name;
    return std::string();
  };
  EXPECT_EQ(name_at(ConstantOf<uint64_t>(kernel, 0)), "f");
  std::vector<std::byte> memory(static_cast<size_t>(program->global_bytes()));
  program->Link(1 << 20, memory.data());
  EXPECT_EQ(name_at(At<uint64_t>(memory, program->FindVariable("t")->offset)), "g");
}

TEST(ProgramTest, SharedVariablesOfAKernelDoNotOverlapAndDynamicMemoryIsBehindThem) {
  const auto program = Built(
      ".shared .align 4 .b8 both[20];\n.extern .shared .align 32 .b8 dynamic[];\n"
      ".func f()\n{\n.shared .b8 inner[8];\n.reg .b32 %r<2>;\nmov.u32 %r1, both;\n"
      "mov.u32 %r1, inner;\n}\n"
      ".entry small()\n{\n.reg .b32 %r<2>;\ncall f;\nmov.u32 %r1, dynamic;\n}\n"
      ".entry large()\n{\n.shared .align 8 .b8 own[1000];\n.reg .b32 %r<2>;\nmov.u32 %r1, own;\n"
      "mov.u32 %r1, dynamic;\ncall f;\n}\n"
      ".entry other()\n{\n.shared .b8 own[16];\n.reg .b32 %r<2>;\nmov.u32 %r1, own;\n"
      "mov.u32 %r1, dynamic;\n}\n");
  ASSERT_THAT(program, NotNull());
  const Kernel& small = *program->FindKernel("small");
  const Kernel& large = *program->FindKernel("large");
  const Kernel& other = *program->FindKernel("other");
  EXPECT_EQ(small.shared_bytes, 28);
  EXPECT_EQ(large.shared_bytes, 32 + 1000);
  EXPECT_EQ(ConstantOf<uint32_t>(large, 0), 32u);
  EXPECT_EQ(ConstantOf<uint32_t>(other, 0), 0u) << "on variables of other kernels";
  EXPECT_EQ(other.shared_bytes, 16);
  EXPECT_EQ(ConstantOf<uint32_t>(other, 1), 32u);
  for (const Kernel* kernel : {&small, &large, &other}) {
    EXPECT_EQ(kernel->dynamic_offset % 32, 0);
    EXPECT_GE(kernel->dynamic_offset, kernel->shared_bytes);
    EXPECT_EQ(ConstantOf<uint32_t>(*kernel, 1), static_cast<uint32_t>(kernel->dynamic_offset));
  }
}

TEST(ProgramTest, RefusesWhatAKernelReachesAndNobodyExecutes) {
  constexpr std::string_view kText =
      ".func f()\n{\ntcgen05.wait::ld.sync.aligned;\n}\n.func g()\n{\ncall f;\n}\n";
  EXPECT_OK(BuildModule(kText)) << "no kernel reaches it";
  const auto program = BuildModule(std::string(kText) + ".entry k()\n{\ncall g;\n}");
  ASSERT_THAT(program, StatusIs(absl::StatusCode::kUnimplemented));
  const std::string message(program.status().message());
  for (const char* part :
       {"kernel k", "line 6", "tcgen05.wait::ld.sync.aligned", "sm_80, sm_89 or sm_90"})
    EXPECT_THAT(message, HasSubstr(part));
  EXPECT_THAT(BuildModule(".extern .func malloc();\n.entry k()\n{\ncall malloc;\n}"),
              StatusIs(absl::StatusCode::kUnimplemented));
}

TEST(ProgramTest, ASurveyTellsOfKernelsWhetherTheyCanBeExecutedOrNot) {
  const auto surveys = Program::Survey(
      ".version 9.0\n.target sm_90\n.address_size 64\n"
      ".func f()\n{\ntcgen05.alloc.b32 24;\nret;\n}\n"
      ".func unreached()\n{\ntcgen05.wait::ld.sync.aligned;\n}\n"
      ".entry a(.param .u32 n, .param .u64 p)\n.maxntid 8, 4\n{\n.shared .b8 s[12];\n"
      ".reg .b32 %r<3>;\nadd.s32 %r1, %r2, 1;\nadd.s32 %r1, %r1, 1;\ncall f;\n"
      "tcgen05.wait::ld.sync.aligned;\nret;\n}\n"
      ".entry b()\n.reqntid 64\n{\nret;\n}\n");
  ASSERT_OK(surveys);
  ASSERT_THAT(*surveys, SizeIs(2));
  const KernelSurvey& a = surveys->front();
  EXPECT_EQ(a.name, "a");
  ASSERT_THAT(a.parameters, SizeIs(2));
  EXPECT_EQ(a.parameters[1].offset, 8);
  EXPECT_EQ(a.parameter_bytes, 16);
  EXPECT_EQ(a.shared_bytes, 12);
  EXPECT_EQ(a.max_threads, 32);
  EXPECT_THAT(a.opcodes, UnorderedElementsAre(Pair("add.s32", 2), Pair("call", 1), Pair("ret", 2),
                                              Pair("tcgen05.alloc.b32", 1),
                                              Pair("tcgen05.wait::ld.sync.aligned", 1)));
  ASSERT_THAT(a.refused, SizeIs(2));
  EXPECT_EQ(a.refused[0].function, "a");
  EXPECT_EQ(a.refused[0].opcode, "tcgen05.wait::ld.sync.aligned");
  EXPECT_EQ(a.refused[0].line, 21);
  EXPECT_EQ(a.refused[1].function, "f");
  const KernelSurvey& b = surveys->back();
  EXPECT_THAT(b.required_threads, ElementsAre(64, 1, 1));
  EXPECT_THAT(b.refused, IsEmpty());
  EXPECT_THAT(Program::Survey("not PTX"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ProgramTest, TextThatIsNotPtxIsRefused) {
  EXPECT_THAT(Program::Build("not PTX"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(BuildModule(".entry k()\n{\nbra nowhere;\n}"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(BuildModule(".global .u64 a = nobody;"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(BuildModule(".entry k()\n{\n.local .b8 a[1000000];\n}"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ProgramTest, ATargetIsAnArchitecture) {
  for (const auto& [target, capability] :
       {std::pair("sm_80", 80), std::pair("sm_90a", 90), std::pair("sm_100f", 100)}) {
    const auto program = Program::Build(std::string(".version 9.0\n.target ") + target + "\n");
    ASSERT_OK(program);
    EXPECT_EQ((*program)->capability(), capability);
  }
  for (const char* const target : {"\n", "\n.target foo\n", "\n.target sm_8x\n", "\n.target sm_\n"})
    EXPECT_THAT(Program::Build(std::string(".version 9.0") + target),
                StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ProgramTest, StaticSharedMemoryHasTheLimitOfPtxas) {
  const auto build = [](int64_t bytes) {
    return BuildModule(".entry k()\n{\n.shared .b8 a[" + std::to_string(bytes) +
                       "];\nst.shared.b8 [a], 1;\nret;\n}\n");
  };
  EXPECT_OK(build(48 << 10));
  const absl::Status refused = build((48 << 10) + 1).status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("line 4: kernel k has 49153 bytes"));
}

TEST(ProgramTest, OnlyTheFirstDimensionOfAnArrayMayBeLeftOpen) {
  EXPECT_OK(BuildModule(".global .u32 a[][2] = {{1, 2}};\n"));
  EXPECT_THAT(BuildModule(".global .u32 a[][0] = {1};\n"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ProgramTest, AnAliasIsCalledAsItsFunction) {
  const auto program =
      Built(".func f()\n{\nret;\n}\n.func g();\n.alias g, f;\n.entry k()\n{\ncall g;\n}");
  ASSERT_THAT(program, NotNull());
  const Code* callee = program->kernels()[0].code->calls.at(0).callee;
  ASSERT_THAT(callee, NotNull());
  EXPECT_EQ(callee->name, "f");
}

TEST(ProgramTest, BuildsWhatACompilerMade) {
  for (const std::string& name : PtxFixtureNames()) {
    const auto program = Program::Build(ReadFixture(name));
    ASSERT_THAT(program, IsOk()) << name;
    for (const Kernel& kernel : (*program)->kernels())
      for (const Instr& instr : kernel.code->instrs)
        EXPECT_NE(instr.handler, nullptr) << name << " line " << instr.line;
  }
}

}  // namespace
}  // namespace coppice::ptx
