// Goal: registers, constants, addresses and calls are decoded as decoder.h, code.h and form.h say.
// Method: functions of a few instructions, with the forms that are executed.

#include "runtime/emulator/ptx/decoder.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/form_table.h"
#include "runtime/emulator/ptx/parser.h"
#include "runtime/emulator/ptx/special.h"
#include "tests/support/status_matchers.h"

namespace coppice::ptx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Variables and functions by name.
class Names final : public Scope {
 public:
  std::optional<uint64_t> AddressOf(std::string_view name) const override {
    const auto found = addresses.find(name);
    return found == addresses.end() ? std::nullopt : std::optional(found->second);
  }
  const Code* FindFunction(std::string_view name) const override {
    const auto found = functions.find(name);
    return found == functions.end() ? nullptr : found->second;
  }
  bool Relocated(std::string_view name) const override { return name == "global"; }

  std::map<std::string_view, uint64_t> addresses = {{"global", 256}, {"shared", 64}};
  std::map<std::string_view, const Code*> functions;
};

// A function that is decoded: the last of a module.
struct Decoded {
  explicit Decoded(std::string_view text, const Names& names = {}) {
    auto parsed = Parse(fmt::format(".version 9.0\n.target sm_90\n{}", text));
    EXPECT_OK(parsed);
    if (!parsed.ok()) return;
    module = *std::move(parsed);
    status = FunctionDecoder(module.functions.back(), names, code).Decode(&refused);
  }
  static Decoded Body(std::string_view body, const Names& names = {}) {
    return Decoded(fmt::format(".entry k(.param .u32 n, .param .u64 p)\n{{\n"
                               ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<20>;\n"
                               ".reg .b64 %rd<4>;\n{}\n}}\n",
                               body),
                   names);
  }

  const Instr& instr(size_t i = 0) const { return code.instrs.at(i); }
  std::string_view FormOf(size_t i) const { return AllForms()[instr(i).form].name; }
  // The value that all lanes of a constant have.
  template <typename T>
  T Constant(Slot slot) const {
    EXPECT_EQ(slot.area, static_cast<uint32_t>(Area::kConstants));
    T lanes[kLanes];
    std::memcpy(lanes, code.constants.data() + slot.offset, sizeof(lanes));
    for (const T lane : lanes)
      EXPECT_EQ(lane, lanes[0]);
    return lanes[0];
  }
  std::string Message() const { return std::string(status.message()); }

  Module module;
  Code code;
  std::vector<Refusal> refused;
  absl::Status status;
};

bool IsIn(Slot slot, Area area) {
  return slot.area == static_cast<uint32_t>(area);
}

Slot SpecialAt(size_t offset) {
  return Slot::At(Area::kSpecial, offset);
}

MATCHER_P(IsSlot, slot, "") {
  return arg.area == slot.area && arg.offset == slot.offset;
}

TEST(DecoderTest, RegistersAreSlotsOfTheFrame) {
  const Decoded decoded = Decoded::Body("add.s32 %r1, %r2, %r12;\nadd.s64 %rd1, %rd1, %rd2;");
  ASSERT_OK(decoded.status);
  const Instr& add = decoded.instr();
  EXPECT_EQ(decoded.FormOf(0), "add.s32");
  std::set<uint32_t> offsets;
  for (const Slot slot : {add.d, add.a, add.b, decoded.instr(1).d, decoded.instr(1).b}) {
    EXPECT_TRUE(IsIn(slot, Area::kFrame));
    EXPECT_EQ(slot.offset % 32, 0u);
    EXPECT_LT(slot.offset, decoded.code.frame_bytes);
    EXPECT_TRUE(offsets.insert(slot.offset).second);
  }
  EXPECT_THAT(decoded.instr(1).d, IsSlot(decoded.instr(1).a)) << "the same register";
}

TEST(DecoderTest, ConstantsAreInAllLanesAndOnceEach) {
  const Decoded decoded =
      Decoded::Body("add.s32 %r1, %r2, -5;\nadd.s32 %r1, %r2, -5;\nadd.s64 %rd1, %rd2, -5;");
  ASSERT_OK(decoded.status);
  EXPECT_EQ(decoded.Constant<uint32_t>(decoded.instr(0).b), 0xfffffffbu);
  EXPECT_THAT(decoded.instr(1).b, IsSlot(decoded.instr(0).b));
  EXPECT_EQ(decoded.Constant<uint64_t>(decoded.instr(2).b), ~uint64_t{4});
}

TEST(DecoderTest, FloatsBecomeTheWidthThatIsRead) {
  const Decoded decoded =
      Decoded::Body("mov.f32 %r1, 0f3F800000;\nmov.f32 %r1, 1.5;\nmov.f64 %rd1, 0f3F800000;");
  ASSERT_OK(decoded.status);
  EXPECT_EQ(decoded.Constant<uint32_t>(decoded.instr(0).a), 0x3f800000u);
  EXPECT_EQ(decoded.Constant<uint32_t>(decoded.instr(1).a), 0x3fc00000u);
  EXPECT_EQ(decoded.Constant<uint64_t>(decoded.instr(2).a), std::bit_cast<uint64_t>(1.0));
}

TEST(DecoderTest, SpecialRegistersAreSlotsOfTheWarp) {
  const Decoded decoded = Decoded::Body(
      "mov.u32 %r1, %tid.y;\nmov.u32 %r1, %envreg3;\nmov.u32 %r1, %cluster_nctaid.x;\n"
      "mov.u64 %rd1, %gridid;");
  ASSERT_OK(decoded.status);
  constexpr size_t kLaneBytes = sizeof(SpecialRegisters::Lanes);
  EXPECT_THAT(decoded.instr(0).a, IsSlot(SpecialAt(offsetof(SpecialRegisters, tid) + kLaneBytes)));
  EXPECT_THAT(decoded.instr(1).a,
              IsSlot(SpecialAt(offsetof(SpecialRegisters, envreg) + 3 * kLaneBytes)));
  EXPECT_THAT(decoded.instr(2).a, IsSlot(SpecialAt(offsetof(SpecialRegisters, cluster_nctaid))));
  EXPECT_THAT(decoded.instr(3).a, IsSlot(SpecialAt(offsetof(SpecialRegisters, gridid))));
  EXPECT_THAT(Decoded::Body("mov.u32 %r1, %tid;").Message(), HasSubstr("%tid"));
  EXPECT_THAT(Decoded::Body("mov.u32 %r1, %envreg32;").Message(), HasSubstr("%envreg32"));
}

TEST(DecoderTest, AClockIsAnInstruction) {
  const Decoded decoded = Decoded::Body("mov.u32 %r1, %clock;\nmov.u64 %rd1, %globaltimer;");
  ASSERT_OK(decoded.status);
  EXPECT_EQ(decoded.FormOf(0), "mov.clock");
  EXPECT_EQ(decoded.FormOf(1), "mov.globaltimer");
}

TEST(DecoderTest, AGuardIsAPredicateOfTheFrame) {
  const Decoded decoded =
      Decoded::Body("setp.eq.s32 %p1, %r1, %r2;\n@!%p1 add.s32 %r1, %r1, 1;\nadd.s32 %r1, %r1, 1;");
  ASSERT_OK(decoded.status);
  EXPECT_EQ(decoded.instr(1).guard, decoded.instr(0).d.offset);
  EXPECT_TRUE(decoded.instr(1).guard_negated);
  EXPECT_EQ(decoded.instr(2).guard, Instr::kUnguarded);
  EXPECT_THAT(Decoded::Body("@%r1 ret;").Message(), HasSubstr("not a predicate"));
}

TEST(DecoderTest, AMissingPredicateIsASlotThatNobodyReads) {
  const Decoded decoded = Decoded::Body(
      "setp.eq.s32 %p1|%p2, %r1, %r2;\nsetp.eq.s32 %p1, %r1, %r2;\nsetp.eq.s32 _|%p2, %r1, %r2;");
  ASSERT_OK(decoded.status);
  EXPECT_THAT(decoded.instr(0).d, IsSlot(decoded.instr(1).d));
  EXPECT_THAT(decoded.instr(0).a, IsSlot(decoded.instr(2).a));
  EXPECT_THAT(decoded.instr(1).a, IsSlot(decoded.instr(2).d));
  EXPECT_NE(decoded.instr(1).a.offset, decoded.instr(0).a.offset);
}

TEST(DecoderTest, LabelsAreIndicesAndTheEndReturns) {
  const Decoded decoded = Decoded::Body("A: bra B;\n@%p1 bra A;\nB:");
  ASSERT_OK(decoded.status);
  ASSERT_THAT(decoded.code.instrs, SizeIs(3));
  EXPECT_EQ(decoded.instr(0).target, 2u);
  EXPECT_EQ(decoded.instr(1).target, 0u);
  EXPECT_EQ(decoded.FormOf(2), "ret");
  EXPECT_THAT(Decoded::Body("bra C;").Message(), HasSubstr("'C'"));
}

TEST(DecoderTest, AnIndexedBranchHasItsTargets) {
  const Decoded decoded =
      Decoded::Body("L: .branchtargets A, B, A;\nbrx.idx %r1, L;\nA: ret;\nB: ret;");
  ASSERT_OK(decoded.status);
  ASSERT_THAT(decoded.code.target_lists, SizeIs(1));
  EXPECT_THAT(decoded.code.target_lists[decoded.instr(0).target], ElementsAre(1, 2, 1));
}

TEST(DecoderTest, AKernelsParametersLieInTheBank) {
  const Decoded decoded = Decoded::Body("mov.b64 %rd1, p;\nld.param.u64 %rd2, [p+4];");
  ASSERT_OK(decoded.status);
  ASSERT_THAT(decoded.code.parameters, SizeIs(2));
  EXPECT_EQ(decoded.code.parameters[1].name, "p");
  EXPECT_EQ(decoded.code.parameters[1].offset, 8);
  EXPECT_EQ(decoded.code.thread_bytes, 0);
  EXPECT_EQ(decoded.Constant<uint64_t>(decoded.instr(0).a), 8u);
}

TEST(DecoderTest, ParametersOfAFunctionLieInTheThreadsMemory) {
  const Decoded decoded(
      ".func (.param .b32 r) f(.param .align 8 .b8 x[12], .param .u64 y)\n{\n.local .align 16 .b8 "
      "l[20];\n.reg .b64 %rd<2>;\nmov.u64 %rd1, l;\nret;\n}");
  ASSERT_OK(decoded.status);
  ASSERT_THAT(decoded.code.results, SizeIs(1));
  ASSERT_THAT(decoded.code.parameters, SizeIs(2));
  EXPECT_EQ(decoded.code.results[0].offset, 0);
  EXPECT_EQ(decoded.code.parameters[0].offset, 8);
  EXPECT_EQ(decoded.code.parameters[1].offset, 24);
  EXPECT_EQ(decoded.code.thread_bytes, 32 + 20);
  // Where the memory is depends on the call.
  EXPECT_EQ(decoded.FormOf(0), "add.s64");
  EXPECT_THAT(decoded.instr(0).a, IsSlot(SpecialAt(offsetof(SpecialRegisters, thread_memory))));
  EXPECT_EQ(decoded.Constant<uint64_t>(decoded.instr(0).b), 32u);
}

TEST(DecoderTest, AVariablesAddressIsAConstantAndThatOfGlobalMemoryIsRelocated) {
  const Decoded decoded =
      Decoded::Body("mov.u32 %r1, shared;\nmov.u64 %rd1, global;\nmov.u64 %rd1, global+4;");
  ASSERT_OK(decoded.status);
  EXPECT_EQ(decoded.Constant<uint32_t>(decoded.instr(0).a), 64u);
  EXPECT_EQ(decoded.Constant<uint64_t>(decoded.instr(1).a), 256u);
  EXPECT_EQ(decoded.Constant<uint64_t>(decoded.instr(2).a), 260u);
  EXPECT_THAT(decoded.code.relocations,
              ElementsAre(decoded.instr(1).a.offset, decoded.instr(2).a.offset));
  EXPECT_THAT(Decoded::Body("mov.u32 %r1, global;").Message(), HasSubstr("64 bits"));
}

TEST(DecoderTest, ACallHasItsCalleeAndThePlacesOfWhatItPasses) {
  Code callee;
  callee.parameters.resize(2);
  callee.results.resize(1);
  Names names;
  names.functions["f"] = &callee;
  const Decoded decoded = Decoded::Body(
      "{\n.param .b32 a;\n.param .b64 b;\n.param .b32 r;\ncall.uni (r), f, (a, b);\n}", names);
  ASSERT_OK(decoded.status);
  ASSERT_THAT(decoded.code.calls, SizeIs(1));
  const CallSite& site = decoded.code.calls[decoded.instr(0).target];
  EXPECT_EQ(site.callee, &callee);
  ASSERT_THAT(site.arguments, SizeIs(2));
  EXPECT_EQ(site.arguments[0].offset, 0);
  EXPECT_EQ(site.arguments[1].offset, 8);
  ASSERT_THAT(site.results, SizeIs(1));
  EXPECT_EQ(site.results[0].offset, 16);
  EXPECT_THAT(Decoded::Body("call f;", names).Message(), HasSubstr("'f'"));
  EXPECT_THAT(Decoded::Body("{\n.reg .b32 a;\ncall f, (a, a);\n}", names).Message(),
              HasSubstr(".param"));
}

TEST(DecoderTest, AnIndirectCallReadsTheAddress) {
  const Decoded decoded = Decoded::Body(
      "{\n.param .b32 a;\nq: .callprototype _ (.param .b32 _);\ncall %rd1, (a), q;\n}\n"
      "mov.u64 %rd1, %rd1;");
  ASSERT_OK(decoded.status);
  EXPECT_EQ(decoded.FormOf(0), "call");
  EXPECT_EQ(decoded.code.calls.at(0).callee, nullptr);
  EXPECT_THAT(decoded.instr(0).a, IsSlot(decoded.instr(1).a));
}

TEST(DecoderTest, AFunctionThatIsNotDefinedIsABuiltInOrRefused) {
  const Decoded decoded = Decoded::Body(
      "{\n.param .b64 a, b;\n.param .b32 r;\ncall (r), vprintf, (a, b);\ncall (r), malloc, "
      "(a);\n}");
  ASSERT_OK(decoded.status);
  EXPECT_EQ(decoded.FormOf(0), "call.vprintf");
  ASSERT_THAT(decoded.refused, SizeIs(1));
  EXPECT_THAT(decoded.refused[0].opcode, HasSubstr("malloc"));
}

TEST(DecoderTest, AnOpcodeWithoutAFormIsARefusalWithItsLine) {
  const Decoded decoded = Decoded::Body("tcgen05.wait::ld.sync.aligned;");
  ASSERT_OK(decoded.status);
  ASSERT_THAT(decoded.refused, SizeIs(1));
  EXPECT_EQ(decoded.refused[0].opcode, "tcgen05.wait::ld.sync.aligned");
  EXPECT_EQ(decoded.refused[0].line, 9);
}

TEST(DecoderTest, ErrorsSayTheLine) {
  EXPECT_EQ(Decoded::Body("add.s32 %r1, %r2;").status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* body :
       {"add.s32 %r1, %r2;", "add.s32 %r1, %r2, %r3, %r4;", "add.s32 %r1, %rd1, %r2;",
        "add.s32 5, %r1, %r2;", "add.s32 %r99, %r1, %r2;", "add.s32 %r1, nobody, %r2;",
        "add.s32 %r1, %p1, %r2;", "add.s32 %r1, [%rd1], %r2;", "ld.global.u32 %r1, %rd1;",
        "ld.global.u32 %r1, [%h1];", "bra;", "call;", "call (a);", "brx.idx %r1, nowhere;"})
    EXPECT_THAT(Decoded::Body(body).Message(), testing::StartsWith("line 9: ")) << body;
}

TEST(DecoderTest, EachInstructionHasLineAndSource) {
  const Decoded decoded = Decoded::Body(".loc 1 7 0\nadd.s32 %r1, %r1, 1;\nret;");
  ASSERT_OK(decoded.status);
  ASSERT_THAT(decoded.code.sources, SizeIs(decoded.code.instrs.size()));
  EXPECT_EQ(decoded.instr(0).line, 10);
  EXPECT_EQ(decoded.code.sources[0].line, 7);
}

}  // namespace
}  // namespace coppice::ptx
