// Goal: a step's buffers are found wherever its arguments name them, and all amounts of a program.
// Method: one manifest with every kind of step and argument, by hand.

#include "coppice/runtime/package_uses.h"

#include "tests/support/test.h"

namespace coppice::package {
namespace {

using testing::Field;
using testing::FieldsAre;

Manifest ManifestOf(std::vector<Step> steps) {
  Manifest manifest;
  Program& program = manifest.programs.emplace_back();
  program.name = "main";
  program.buffers.resize(4);
  program.steps = std::move(steps);
  return manifest;
}

// What matters of a step's buffers.
auto Uses(const std::vector<int>& reads, const std::vector<int>& writes) {
  return AllOf(Field(&StepUses::reads, reads), Field(&StepUses::writes, writes));
}

TEST(PackageUsesTest, ArgumentsReadAndWriteAsTheirAccessSays) {
  const Step step{.action = KernelStep{
                      .args = {BufferArgument{.operand = {.buffer = 2}, .access = Access::kRead},
                               IntegerArgument{},
                               BufferArgument{.operand = {.buffer = 0}, .access = Access::kWrite},
                               BufferArgument{.operand = {.buffer = 1}}}}};
  EXPECT_THAT(UsesOf(ManifestOf({step}), step), Uses({2, 1}, {0, 1}));
}

TEST(PackageUsesTest, MembersOfStructsAndDescriptorsCount) {
  StructArgument members;
  members.members.emplace_back(BufferArgument{.operand = {.buffer = 3}, .access = Access::kRead});
  members.members.emplace_back(
      TensorMapArgument{.operand = {.buffer = 1}, .access = Access::kRead});
  const Step step{.action = KernelStep{.args = {members}}};
  EXPECT_THAT(UsesOf(ManifestOf({step}), step), Uses({3, 1}, {}));
}

TEST(PackageUsesTest, RealSizesAndScratchAreNamed) {
  const Step step{.action =
                      KernelStep{.args = {RealArgument{.symbol = 2}, ScratchArgument{.index = 1},
                                          RealArgument{.scalar = 0}}}};
  const StepUses uses = UsesOf(ManifestOf({step}), step);
  EXPECT_THAT(uses.real_symbols, ElementsAre(2));
  EXPECT_THAT(uses.real_scalars, ElementsAre(0));
  EXPECT_THAT(uses.scratches, ElementsAre(1));
}

TEST(PackageUsesTest, CopiesReadTheirSourceAndFillsReadNothing) {
  const Step copy{.action = MemcpyStep{.to = {.buffer = 1}, .from = {.buffer = 0}}};
  const Step fill{.action = MemsetStep{.to = {.buffer = 2}}};
  const Manifest manifest = ManifestOf({copy, fill});
  EXPECT_THAT(UsesOf(manifest, copy), Uses({0}, {1}));
  EXPECT_THAT(UsesOf(manifest, fill), Uses({}, {2}));
}

TEST(PackageUsesTest, CallsReadInputsAndWriteOutputs) {
  const Step step{.action = CallStep{.inputs = {View{.operand = {.buffer = 0}}},
                                     .outputs = {View{.operand = {.buffer = 3}}}}};
  EXPECT_THAT(UsesOf(ManifestOf({step}), step), Uses({0}, {3}));
}

TEST(PackageUsesTest, ChildrenWriteOutputsAndMutatedInputs) {
  Manifest manifest = ManifestOf({});
  Program& child = manifest.programs.emplace_back();
  child.buffers.resize(3);
  child.buffers[1].mutated = true;
  child.inputs = {0, 1};
  child.outputs = {2};
  const Step step{.action = ChildStep{.program = 1,
                                      .inputs = {{.buffer = 3}, {.buffer = 2}},
                                      .outputs = {{.buffer = 1}}}};
  EXPECT_THAT(UsesOf(manifest, step), Uses({3, 2}, {2, 1}));
}

TEST(PackageUsesTest, EveryAmountOfAProgramIsSeen) {
  int64_t next = 0;
  const auto amount = [&next] { return Amount{.value = ++next}; };
  const auto operand = [&] { return Operand{.offset = amount()}; };
  std::vector<Step> steps = {
      {.action =
           KernelStep{
               .grid = {amount(), amount(), amount()},
               .args = {BufferArgument{.operand = operand()}, IntegerArgument{.value = amount()},
                        StructArgument{.members = {TensorMapArgument{.operand = operand(),
                                                                     .dims = {amount()},
                                                                     .strides = {amount()}}}}}}},
      {.action = MemsetStep{.to = operand(), .count = amount()}},
      {.action = MemcpyStep{.to = operand(), .from = operand(), .bytes = amount()}},
      {.action = CallStep{.inputs = {{.operand = operand(), .shape = {amount()}}},
                          .outputs = {{.operand = operand(), .strides = {amount()}}}}},
      {.action = ChildStep{.symbols = {amount()}, .inputs = {operand()}, .outputs = {operand()}}}};
  Manifest manifest = ManifestOf(std::move(steps));
  Buffer& buffer = manifest.programs[0].buffers[0];
  buffer.shape = {amount()};
  buffer.strides = {amount()};
  buffer.alias = {.buffer = 1, .offset = amount()};
  std::set<int64_t> seen;
  ForEachAmount(manifest.programs[0], [&seen](const Amount& of) { seen.insert(of.value); });
  EXPECT_THAT(seen, SizeIs(static_cast<size_t>(next)));
  EXPECT_EQ(*seen.rbegin(), next);
}

TEST(PackageUsesTest, ProgramsWithinAreThereOnceHoweverOftenTheyRun) {
  constexpr int kDepth = 200;
  Manifest manifest;
  manifest.programs.resize(kDepth + 2);  // The last is inside none.
  for (int i = 0; i < kDepth; ++i) {
    const Step child{.action = ChildStep{.program = i + 1}};
    manifest.programs[static_cast<size_t>(i)].steps = {child, child};
  }
  EXPECT_THAT(ProgramsWithin(manifest, 0), SizeIs(kDepth + 1));
  EXPECT_THAT(ProgramsWithin(manifest, kDepth - 1), UnorderedElementsAre(kDepth - 1, kDepth));
  EXPECT_THAT(ProgramsWithin(manifest, kDepth + 1), ElementsAre(kDepth + 1));
}

TEST(PackageUsesTest, LifetimesGoFromTheFirstStepToTheLast) {
  const Step copy{.action = MemcpyStep{.to = {.buffer = 1}, .from = {.buffer = 0}}};
  const Step fill{.action = MemsetStep{.to = {.buffer = 2}}};
  const Manifest manifest = ManifestOf({fill, copy, fill});
  EXPECT_THAT(LifetimesOf(manifest, manifest.programs[0]),
              ElementsAre(FieldsAre(1, 1), FieldsAre(1, 1), FieldsAre(0, 2), FieldsAre(-1, -1)));
}

TEST(PackageUsesTest, AliasLivesInItsRoot) {
  const Step fill{.action = MemsetStep{.to = {.buffer = 2}}};
  Manifest manifest = ManifestOf({fill});
  manifest.programs[0].buffers[2].alias = {.buffer = 1};
  EXPECT_EQ(RootOf(manifest.programs[0], 2), 1);
  EXPECT_EQ(RootOf(manifest.programs[0], 1), 1);
  EXPECT_THAT(
      LifetimesOf(manifest, manifest.programs[0]),
      ElementsAre(FieldsAre(-1, -1), FieldsAre(0, 0), FieldsAre(-1, -1), FieldsAre(-1, -1)));
}

}  // namespace
}  // namespace coppice::package
