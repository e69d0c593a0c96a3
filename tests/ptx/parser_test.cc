// Goal: PTX text is read as parser.h and syntax.h say, and what is not PTX is refused with its
// line. Method: modules of a few lines; and what a compiler made of whole kernels.

#include "runtime/emulator/ptx/parser.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/ptx/fixtures.h"
#include "tests/support/status_matchers.h"

namespace coppice::ptx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr std::string_view kHeader = ".version 9.0\n.target sm_90\n.address_size 64\n";

Module ParseModule(std::string_view text) {
  auto module = Parse(std::string(kHeader) + std::string(text));
  EXPECT_OK(module);
  return module.ok() ? *std::move(module) : Module();
}

// The one function of a module whose body is `body`.
struct Parsed {
  Module module;
  const Function& function() const { return module.functions.front(); }
  const Instruction& instruction(size_t i = 0) const { return function().body.at(i); }
  const Operand& operand(size_t i) const { return instruction().operands.at(i); }
};

Parsed ParseBody(std::string_view body) {
  Parsed parsed{ParseModule(fmt::format(".visible .entry f()\n{{\n{}\n}}\n", body))};
  EXPECT_THAT(parsed.module.functions, SizeIs(1));
  if (parsed.module.functions.empty()) parsed.module.functions.emplace_back();
  return parsed;
}

// The message that `text` behind the header is refused with: its lines begin with 4.
std::string RefusalOf(std::string_view text) {
  const auto module = Parse(std::string(kHeader) + std::string(text));
  EXPECT_THAT(module, StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  return std::string(module.status().message());
}

std::vector<std::string_view> NamesOf(const std::vector<Operand>& operands) {
  std::vector<std::string_view> names;
  for (const Operand& operand : operands)
    names.push_back(operand.name);
  return names;
}

TEST(ParserTest, TheHeaderSaysVersionTargetAndAddressSize) {
  const auto module = Parse(".version 8.10\n.target sm_90a, debug\n.address_size 64\n");
  ASSERT_OK(module);
  EXPECT_EQ(module->version_major, 8);
  EXPECT_EQ(module->version_minor, 10);
  EXPECT_EQ(module->target, "sm_90a");
  EXPECT_EQ(module->address_bits, 64);
}

TEST(ParserTest, TextsPointIntoTheModule) {
  const Module module = ParseModule(".global .u32 a;");
  const std::string& text = *module.text;
  const char* const name = module.variables.at(0).name.data();
  EXPECT_GE(name, text.data());
  EXPECT_LT(name, text.data() + text.size());
}

TEST(ParserTest, AVariableHasSpaceTypeAlignmentAndDimensions) {
  const Module module = ParseModule(
      ".global .align 16 .b8 a[3][4];\n.const .v4 .f32 b;\n.extern .shared .align 16 .b8 s[];");
  ASSERT_THAT(module.variables, SizeIs(3));
  const Variable& a = module.variables[0];
  EXPECT_EQ(a.space, Space::kGlobal);
  EXPECT_EQ(a.type, Type::kB8);
  EXPECT_EQ(a.alignment, 16);
  EXPECT_THAT(a.dims, ElementsAre(3, 4));
  EXPECT_EQ(a.bytes(), 12);
  EXPECT_EQ(a.line, 4);
  EXPECT_EQ(module.variables[1].vector, 4);
  EXPECT_EQ(module.variables[1].bytes(), 16);
  EXPECT_TRUE(module.variables[2].external());
  EXPECT_THAT(module.variables[2].dims, ElementsAre(0));
}

TEST(ParserTest, OneDeclarationHasManyNames) {
  const Parsed parsed = ParseBody(".reg .b32 a, b<3>, c;");
  ASSERT_THAT(parsed.function().variables, SizeIs(3));
  EXPECT_EQ(parsed.function().variables[0].registers, 0);
  EXPECT_EQ(parsed.function().variables[1].registers, 3);
  EXPECT_EQ(parsed.function().variables[2].name, "c");
}

std::vector<uint64_t> ValuesOf(std::string_view declaration) {
  const Module module = ParseModule(declaration);
  std::vector<uint64_t> values;
  for (const Initializer& value : module.variables.at(0).values)
    values.push_back(value.bits);
  return values;
}

TEST(ParserTest, InitialValuesAreBitsOfTheElement) {
  EXPECT_THAT(ValuesOf(".global .u32 a[3] = {1, 0x10, -1};"), ElementsAre(1, 16, 0xffffffff));
  EXPECT_THAT(ValuesOf(".global .s8 a = -2;"), ElementsAre(0xfe));
  EXPECT_THAT(ValuesOf(".const .f32 a[2] = {0f3F800000, 0.5};"),
              ElementsAre(0x3f800000, 0x3f000000));
  EXPECT_THAT(ValuesOf(".const .f64 a[2] = {0d3FF0000000000000, 0f3F800000};"),
              ElementsAre(0x3ff0000000000000, 0x3ff0000000000000));
  EXPECT_THAT(ValuesOf(".global .u64 a = 4+8;"), ElementsAre(12));
}

TEST(ParserTest, RowsOfInitialValuesAreInTheOrderOfMemory) {
  EXPECT_THAT(ValuesOf(".global .u32 a[2][2] = {{1, 2}, {3, 4}};"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(ValuesOf(".global .u32 a[2][2] = {{1, 2}, {3}};"), ElementsAre(1, 2, 3));
  const Module module = ParseModule(".global .u32 a[2][2] = {{1}, {3, 4}};");
  std::vector<int64_t> elements;
  for (const Initializer& value : module.variables.at(0).values)
    elements.push_back(value.element);
  EXPECT_THAT(elements, ElementsAre(0, 2, 3));
  EXPECT_THAT(RefusalOf(".global .u32 a[2] = {1, 2, 3};"),
              HasSubstr("the limit is 2 in this dimension"));
  EXPECT_THAT(RefusalOf(".global .u32 a[2][2] = {1, 2};"), HasSubstr("expected '{'"));
  EXPECT_THAT(RefusalOf(".global .u8 a[][2147483648] = {{1}, {2}, {3}};"), HasSubstr("2^32"));
}

TEST(ParserTest, AnOpenArrayIsAsLongAsItsInitialValues) {
  const Module module =
      ParseModule(".global .u8 a[] = {1, 2, 3};\n.global .u8 b[][2] = {{1, 2}, {3}};");
  EXPECT_THAT(module.variables.at(0).dims, ElementsAre(3));
  EXPECT_THAT(module.variables.at(1).dims, ElementsAre(2, 2));
}

TEST(ParserTest, AnInitialValueMayBeAnAddress) {
  const Module module = ParseModule(".global .u64 a[3] = {b, generic(b)+8, b-4};");
  const std::vector<Initializer>& values = module.variables.at(0).values;
  ASSERT_THAT(values, SizeIs(3));
  EXPECT_EQ(values[0].symbol, "b");
  EXPECT_FALSE(values[0].generic);
  EXPECT_TRUE(values[1].generic);
  EXPECT_EQ(values[1].bits, 8u);
  EXPECT_EQ(values[2].bits, ~uint64_t{3});
  EXPECT_THAT(RefusalOf(".global .u32 a = b;"), HasSubstr(".u64"));
}

TEST(ParserTest, AFunctionHasParametersAndResults) {
  const Module module = ParseModule(
      ".visible .func (.param .b32 r) f(.param .align 8 .b8 x[16], .param .u64 .ptr .global .align "
      "4 "
      "y)\n{\nret;\n}");
  ASSERT_THAT(module.functions, SizeIs(1));
  const Function& f = module.functions[0];
  EXPECT_FALSE(f.entry);
  EXPECT_FALSE(f.external);
  EXPECT_EQ(f.line, 4);
  ASSERT_THAT(f.type.returns, SizeIs(1));
  ASSERT_THAT(f.type.parameters, SizeIs(2));
  EXPECT_EQ(f.type.parameters[0].bytes(), 16);
  EXPECT_EQ(f.type.parameters[0].alignment, 8);
  EXPECT_EQ(f.type.parameters[1].alignment, 0) << "that of what it points at";
}

TEST(ParserTest, ADefinitionTakesThePlaceOfItsDeclarations) {
  const Module module = ParseModule(
      ".func f();\n.extern .func g();\n.func f()\n{\nret;\n}\n.extern .global .u32 v;\n"
      ".visible .global .u32 v = 3;");
  ASSERT_THAT(module.functions, SizeIs(2));
  EXPECT_EQ(module.functions[0].name, "f");
  EXPECT_FALSE(module.functions[0].external);
  EXPECT_TRUE(module.functions[1].external);
  ASSERT_THAT(module.variables, SizeIs(1));
  EXPECT_FALSE(module.variables[0].external());
  EXPECT_THAT(RefusalOf(".func f()\n{\n}\n.func f()\n{\n}"), StartsWith("line 7: "));
  EXPECT_THAT(RefusalOf(".global .u32 a;\n.global .u32 a;"), StartsWith("line 5: "));
}

TEST(ParserTest, LinkageAndWhatIsNotExecutedIsSkipped) {
  const Module module = ParseModule(
      ".pragma \"nounroll\";\n.weak .global .attribute(.managed) .u32 a;\n.common .global .u32 b;\n"
      ".weak .func .attribute(.unified(1, 2)) f() .noreturn .abi_preserve 4;\n"
      ".visible .entry k()\n.maxntid 8, 4\n.reqntid 32\n.minnctapersm 2\n.maxnreg 64\n"
      ".reqnctapercluster 1, 1, 1\n.explicitcluster\n.pragma \"x\";\n{\n.pragma "
      "\"nounroll\";\nret;\n}");
  EXPECT_THAT(module.variables, SizeIs(2));
  ASSERT_THAT(module.functions, SizeIs(2));
  EXPECT_TRUE(module.functions[1].entry);
  EXPECT_THAT(module.functions[1].max_threads, ElementsAre(8, 4));
  EXPECT_THAT(module.functions[1].required_threads, ElementsAre(32));
  EXPECT_THAT(module.functions[1].body, SizeIs(1));
}

TEST(ParserTest, AnAliasMayBeDeclaredAsItsFunction) {
  const Module module = ParseModule(
      ".func f(.param .b32 a)\n{\nret;\n}\n.visible .func g(.param .b32 a);\n.alias g, f;");
  ASSERT_THAT(module.functions, SizeIs(2));
  EXPECT_EQ(module.functions[1].alias_of, "f");
}

TEST(ParserTest, AnAliasIsAnotherNameOfAFunction) {
  const Module module = ParseModule(".func f()\n{\nret;\n}\n.func g();\n.alias g, f;");
  ASSERT_THAT(module.functions, SizeIs(2));
  EXPECT_EQ(module.functions[1].name, "g");
  EXPECT_EQ(module.functions[1].alias_of, "f");
}

TEST(ParserTest, FilesAreKeptAndSectionsSkipped) {
  const Module module = ParseModule(
      ".file 1 \"a.cu\"\n.file 2 \"b.cu\", 170, 4096\n.section .debug_str\n{\n$L: .b8 1,2\n{ "
      "}\n}\n");
  EXPECT_EQ(module.files.at(1), "a.cu");
  EXPECT_EQ(module.files.at(2), "b.cu");
}

TEST(ParserTest, AnInstructionHasOpcodeGuardLineAndSource) {
  const Parsed parsed = ParseBody(
      ".loc 1 10 3\n.reg .pred p;\n@!p ld.global.v2.f32 {a, b}, [c];\n"
      ".loc 2 20 5, function_name $L__info_string0+4, inlined_at 1 10 3\n@p ret;");
  const Instruction& load = parsed.instruction(0);
  EXPECT_EQ(load.opcode, "ld.global.v2.f32");
  EXPECT_EQ(load.guard, "p");
  EXPECT_TRUE(load.guard_negated);
  EXPECT_EQ(load.line, 8);
  EXPECT_EQ(load.source.file, 1);
  EXPECT_EQ(load.source.line, 10);
  EXPECT_FALSE(parsed.instruction(1).guard_negated);
  EXPECT_EQ(parsed.instruction(1).source.file, 2);
  EXPECT_EQ(parsed.instruction(1).source.line, 20);
}

TEST(ParserTest, OperandsAreNamesAndNumbers) {
  const Parsed parsed = ParseBody("x %r1, -5, 0f3F800000, 1.5, -0f3F800000, _, !p, %tid.y, a+8;");
  using Kind = Operand::Kind;
  ASSERT_THAT(parsed.instruction().operands, SizeIs(9));
  EXPECT_EQ(parsed.operand(0).name, "%r1");
  EXPECT_EQ(parsed.operand(1).kind, Kind::kInteger);
  EXPECT_EQ(parsed.operand(1).bits, ~uint64_t{4});
  EXPECT_EQ(parsed.operand(2).kind, Kind::kFloat32);
  EXPECT_EQ(parsed.operand(3).kind, Kind::kFloat64);
  EXPECT_EQ(parsed.operand(4).bits, 0xbf800000u);
  EXPECT_EQ(parsed.operand(5).kind, Kind::kSink);
  EXPECT_TRUE(parsed.operand(6).negated);
  EXPECT_EQ(parsed.operand(7).component, 'y');
  EXPECT_EQ(parsed.operand(8).kind, Kind::kName);
  EXPECT_EQ(parsed.operand(8).bits, 8u);
}

TEST(ParserTest, OperandsAreAddressesVectorsPairsAndLists) {
  const Parsed parsed =
      ParseBody("x [%rd1+-16], [64], {a, _, c}, p|q, (r, s), [t, {u, v}], p|_, [w], ();");
  using Kind = Operand::Kind;
  EXPECT_EQ(parsed.operand(0).kind, Kind::kAddress);
  EXPECT_EQ(parsed.operand(0).name, "%rd1");
  EXPECT_EQ(parsed.operand(0).bits, ~uint64_t{15});
  EXPECT_THAT(parsed.operand(1).name, IsEmpty());
  EXPECT_EQ(parsed.operand(1).bits, 64u);
  EXPECT_EQ(parsed.operand(2).kind, Kind::kVector);
  EXPECT_THAT(NamesOf(parsed.operand(2).elements), ElementsAre("a", "", "c"));
  EXPECT_EQ(parsed.operand(3).kind, Kind::kPair);
  EXPECT_THAT(NamesOf(parsed.operand(3).elements), ElementsAre("p", "q"));
  EXPECT_EQ(parsed.operand(4).kind, Kind::kList);
  EXPECT_THAT(NamesOf(parsed.operand(4).elements), ElementsAre("r", "s"));
  ASSERT_THAT(parsed.operand(5).elements, SizeIs(1));
  EXPECT_THAT(NamesOf(parsed.operand(5).elements[0].elements), ElementsAre("u", "v"));
  EXPECT_EQ(parsed.operand(6).elements.at(1).kind, Kind::kSink);
  EXPECT_EQ(parsed.operand(7).name, "w");
  EXPECT_THAT(parsed.operand(8).elements, IsEmpty());
}

TEST(ParserTest, ALabelIsTheIndexOfWhatFollows) {
  const Parsed parsed = ParseBody("bra B;\nA: B:\nret;\nC:");
  EXPECT_EQ(parsed.function().labels.at("A"), 1);
  EXPECT_EQ(parsed.function().labels.at("B"), 1);
  EXPECT_EQ(parsed.function().labels.at("C"), 2);
  EXPECT_THAT(RefusalOf(".func f()\n{\nA:\nA:\n}"), HasSubstr("twice"));
}

TEST(ParserTest, PrototypesAndTargetListsAreKeptByTheirLabels) {
  const Parsed parsed = ParseBody(
      "p : .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _) .noreturn;\n"
      "q: .callprototype _;\nl: .branchtargets A, B;\nA: B: ret;");
  EXPECT_THAT(parsed.function().prototypes.at("p").returns, SizeIs(1));
  EXPECT_THAT(parsed.function().prototypes.at("p").parameters, SizeIs(2));
  EXPECT_THAT(parsed.function().prototypes.at("q").parameters, IsEmpty());
  EXPECT_THAT(parsed.function().target_lists.at("l"), ElementsAre("A", "B"));
}

TEST(ParserTest, NamesOfScopesThatRepeatAreToldApart) {
  const Parsed parsed = ParseBody(
      ".reg .b32 t, %r<3>;\n{ .reg .b32 t; mov.u32 t, %r1; }\n{ .reg .b32 t, %r<2>; mov.u32 t, %r1;"
      " { mov.u32 t, %r2; } }\nmov.u32 t, %r1;");
  std::set<std::string_view> targets;
  for (const Instruction& instruction : parsed.function().body)
    targets.insert(instruction.operands[0].name);
  EXPECT_THAT(targets, SizeIs(3)) << "the outer t, and one of each scope";
  EXPECT_EQ(parsed.instruction(1).operands[0].name, parsed.instruction(2).operands[0].name);
  EXPECT_EQ(parsed.instruction(3).operands[0].name, "t");
  EXPECT_EQ(parsed.instruction(0).operands[1].name, "%r1");
  EXPECT_NE(parsed.instruction(1).operands[1].name, "%r1") << "a range of the scope";
  EXPECT_EQ(parsed.instruction(2).operands[1].name, "%r2") << "the scope has two";
  std::set<std::string_view> declared;
  for (const Variable& variable : parsed.function().variables)
    EXPECT_TRUE(declared.insert(variable.name).second) << variable.name;
}

TEST(ParserTest, LabelsOfScopesThatRepeatAreToldApart) {
  const Parsed parsed =
      ParseBody("{ bra L; L: ret; }\n{ L: bra L; { bra M; M: ret; } bra M; }\nM: L: ret;");
  const auto target = [&](size_t i) {
    return parsed.function().labels.at(parsed.instruction(i).operands[0].name);
  };
  EXPECT_EQ(target(0), 1);
  EXPECT_EQ(target(2), 2);
  EXPECT_EQ(target(3), 4);
  EXPECT_EQ(target(5), 6) << "an outer label, behind the scope";
}

TEST(ParserTest, AGuardMayBeAPredicateOfItsScope) {
  const Parsed parsed = ParseBody("{ .reg .pred p; @p ret; }");
  EXPECT_EQ(parsed.instruction().guard, parsed.function().variables.at(0).name);
}

TEST(ParserTest, ErrorsSayLineFoundAndExpected) {
  EXPECT_EQ(RefusalOf(".global .u32 ;"), "line 4: found ';', expected a name");
  EXPECT_EQ(RefusalOf("\n.func f()\n{\nret\n}"), "line 8: found '}', expected an operand");
  EXPECT_EQ(RefusalOf(".func f()\n{\nret;\n"),
            "line 7: found the end of the text, expected an instruction");
  EXPECT_EQ(RefusalOf("hello"), "line 4: found 'hello', expected a directive of module scope");
  EXPECT_THAT(RefusalOf(".global .u33 a;"), HasSubstr("found '.u33', expected a type"));
  EXPECT_THAT(RefusalOf(".global .align 3 .u32 a;"), HasSubstr("power of two"));
  EXPECT_THAT(RefusalOf(".address_size 32"), HasSubstr("64-bit"));
  EXPECT_THAT(Parse(""), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Parse("not PTX"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ParserTest, MessagesAreOneLineOfPlainText) {
  const std::string message = RefusalOf(".global .u32 \x01\xff;");
  EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char c) {
    return c >= ' ' && c <= '~';
  })) << message;
  EXPECT_LT(RefusalOf(std::string(100'000, 'x')).size(), 200u);
}

TEST(ParserTest, DepthIsBounded) {
  constexpr size_t kMany = 100'000;
  for (const char* open : {"{", "mov {", "mov (", "mov a|", "mov [a, "}) {
    std::string body;
    for (size_t i = 0; i < kMany; ++i)
      body += open;
    EXPECT_THAT(RefusalOf(".func f()\n{\n" + body), StartsWith("line "));
  }
  EXPECT_THAT(RefusalOf(".global .u32 a[2] = " + std::string(kMany, '{')), StartsWith("line 4"));
  EXPECT_THAT(RefusalOf(".section .debug " + std::string(kMany, '{')), StartsWith("line 4"));
}

TEST(ParserTest, SizesDoNotOverflow) {
  EXPECT_THAT(RefusalOf(".global .b64 a[4000000000][4000000000];"), HasSubstr("2^32"));
  EXPECT_THAT(RefusalOf(".global .b8 a[99999999999999999999];"), HasSubstr("64 bits"));
  EXPECT_THAT(RefusalOf(".func f()\n{\n.reg .b32 %r<99999999999>;"), HasSubstr("integer from"));
}

TEST(ParserTest, ReadsWhatACompilerMade) {
  for (const std::string& name : PtxFixtureNames()) {
    const auto module = Parse(ReadFixture(name));
    ASSERT_THAT(module, IsOk()) << name;
    size_t instructions = 0;
    for (const Function& function : module->functions) {
      instructions += function.body.size();
      for (const Instruction& instruction : function.body) {
        EXPECT_GT(instruction.line, 0);
        EXPECT_TRUE(instruction.source.line == 0 ||
                    module->files.contains(instruction.source.file));
      }
    }
    EXPECT_GT(instructions, 20u) << name;
  }
}

}  // namespace
}  // namespace coppice::ptx
