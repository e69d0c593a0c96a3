// Goal: every opcode that compilers emit is executed, or refused by its name when a module is
// built. Method: a table of what was seen in their output, fixtures/opcodes.txt.

#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/form_table.h"
#include "runtime/emulator/ptx/program.h"
#include "tests/ptx/fixtures.h"
#include "tests/support/status_matchers.h"

namespace coppice::ptx {
namespace {

using testing::HasSubstr;

std::vector<std::string> OpcodesThatAre(const std::string& fate) {
  std::istringstream table(ReadFixture("opcodes.txt"));
  std::vector<std::string> opcodes;
  for (std::string line; std::getline(table, line);)
    if (line.starts_with(fate + " ")) opcodes.push_back(line.substr(fate.size() + 1));
  return opcodes;
}

TEST(OpcodesTest, ThoseThatCompilersEmitHaveAForm) {
  const std::vector<std::string> opcodes = OpcodesThatAre("executed");
  EXPECT_EQ(opcodes.size(), 494u);
  for (const std::string& opcode : opcodes)
    EXPECT_NE(FindForm(CanonicalOpcode(opcode)), nullptr) << opcode;
}

TEST(OpcodesTest, OthersAreRefusedByTheirName) {
  const std::vector<std::string> opcodes = OpcodesThatAre("refused");
  EXPECT_EQ(opcodes.size(), 4u);
  for (const std::string& opcode : opcodes) {
    const auto program = Program::Build(
        fmt::format(".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry Reaches()\n"
                    "{{\n.reg .b32 %r<4>;\nmov.u32 %r1, 0;\n{} %r2, %r1;\n}}\n",
                    opcode));
    ASSERT_THAT(program, StatusIs(absl::StatusCode::kUnimplemented)) << opcode;
    const std::string message(program.status().message());
    for (const std::string& part : {std::string("kernel Reaches"), std::string("line 8"), opcode,
                                    std::string("compile for sm_80, sm_89 or sm_90")})
      EXPECT_THAT(message, HasSubstr(part));
  }
}

}  // namespace
}  // namespace coppice::ptx
