// Goal: every sentence of graphs/program/program.h. Method: one spec with an input, output and
// scalar of every role, and symbols of every kind.

#include "graphs/program/program.h"
#include "tests/graphs/lane_scene.h"

namespace coppice::internal {
namespace {

ProgramSpec MixedSpec() {
  ProgramSpec spec = RowsSpec();
  spec.inputs = {
      {.name = "w", .dims = {Dim::Fixed(4)}, .role = InputRole::kStatic, .mutated = true},
      {.name = "x", .dtype = DType::kInt32, .dims = {Dim::Symbol(0), Dim::Fixed(2)}},
      {.name = "v", .dims = {Dim::Fixed(4)}, .role = InputRole::kStatic}};
  spec.outputs = {{.name = "y", .dims = {Dim::Symbol(0)}},
                  {.name = "z", .dims = {Dim::Fixed(4)}, .role = OutputRole::kStatic}};
  spec.scalars = {{.name = "a"}, {.name = "b", .device_resident = true}, {.name = "c"}};
  return spec;
}

ProgramSpec SpecOf(SymbolKind kind, bool exclude_01 = false) {
  ProgramSpec spec = RowsSpec();
  spec.symbols[0].kind = kind;
  spec.symbols[0].exclude_01 = exclude_01;
  return spec;
}

TEST(ProgramLayoutTest, SpecIsSplitByRoles) {
  const Program program = ProgramOf(MixedSpec());
  EXPECT_EQ(program.layout.statics, (std::vector<int>{0, 2}));
  EXPECT_EQ(program.layout.copies, std::vector<int>{1});
  EXPECT_EQ(program.layout.static_outputs, std::vector<int>{1});
  EXPECT_EQ(program.layout.key_scalars, (std::vector<int>{0, 2}));
  EXPECT_EQ(program.layout.device_scalars, std::vector<int>{1});
  EXPECT_EQ(program.copied_input(0).name, "x");
  EXPECT_EQ(program.static_input(1).name, "v");
  EXPECT_TRUE(program.layout.mutates_statics);
  EXPECT_FALSE(program.layout.mutates_copies);
  EXPECT_TRUE(program.binds());
  EXPECT_FALSE(ProgramOf(RowsSpec()).binds());
}

TEST(ProgramLayoutTest, CopiedInputsHaveTheShapesOfTheirSpecs) {
  const Program program = ProgramOf(MixedSpec());
  ASSERT_EQ(program.layout.copy_shapes.size(), 1U);
  EXPECT_EQ(program.layout.copy_shapes[0].dtype, DType::kInt32);
  EXPECT_EQ(program.layout.copy_shapes[0].rank, 2);
  EXPECT_EQ(program.layout.copy_shapes[0].axes[0].extent, 0);
  EXPECT_EQ(program.layout.copy_shapes[0].axes[1].size, 2);
}

TEST(ProgramLayoutTest, LaddersBeginAsTheSpecSays) {
  ProgramSpec spec = RowsSpec();
  EXPECT_EQ(ProgramOf(spec).ladder(0).observer, nullptr);
  spec.symbols[0].observe_half_life = 7;
  const Program program = ProgramOf(spec);
  EXPECT_EQ(program.policy(0).buckets(), spec.symbols[0].policy.buckets());
  ASSERT_NE(program.ladder(0).observer, nullptr);
  EXPECT_EQ(program.ladder(0).observer->options().limit, 64);
  EXPECT_EQ(program.ladder(0).observer->options().half_life, 7);
}

TEST(ProgramLayoutTest, ExtentsOfAxesAreToldFromOthers) {
  ProgramSpec spec = RowsSpec();
  EXPECT_TRUE(ProgramOf(spec).layout.axes_say_all);
  EXPECT_EQ(ProgramOf(spec).layout.extent_count, 1U);
  EXPECT_EQ(ProgramOf(spec).layout.axis_extents, 1U);
  spec.guards = {"1 == 1"};
  EXPECT_FALSE(ProgramOf(spec).layout.axes_say_all);
  spec.guards.clear();
  spec.AddSymbol("given", *PaddingPolicy::Pow2(8));
  spec.symbols[1].given = true;
  EXPECT_FALSE(ProgramOf(spec).layout.axes_say_all);
  EXPECT_EQ(ProgramOf(spec).layout.given_count, 1);
  EXPECT_EQ(ProgramOf(spec).layout.extent_count, 2U);
  spec.extents = {"given + 1", "2*given"};
  spec.inputs.push_back({.name = "more", .dims = {Dim::Extent(1)}});
  EXPECT_EQ(ProgramOf(spec).layout.extent_count, static_cast<size_t>(kSymbolsMax + 2));
  EXPECT_EQ(ProgramOf(spec).extents[1].text(), "2*given");
  EXPECT_EQ(ProgramOf(spec).layout.axis_extents, 1U | uint32_t{2} << kSymbolsMax);
}

TEST(ProgramLayoutTest, ScalarsThatSymbolsAreBoundToAreNotInTheKey) {
  ProgramSpec spec = RowsSpec();
  spec.scalars = {{.name = "a"}, {.name = "b"}};
  EXPECT_TRUE(ProgramOf(spec).layout.scalars_in_key);
  spec.AddSymbol("bound", *PaddingPolicy::Pow2(8));
  spec.symbols[1].scalar = 0;
  const Program program = ProgramOf(spec);
  EXPECT_FALSE(program.layout.scalars_in_key);
  EXPECT_FALSE(program.layout.axes_say_all);
  EXPECT_FALSE(program.IsKeyScalar(0));
  EXPECT_TRUE(program.IsKeyScalar(1));
  EXPECT_EQ(program.layout.key_scalars, std::vector<int>{1});
  EXPECT_TRUE(program.layout.device_scalars.empty());
}

TEST(ProgramLayoutTest, RandomWordIsThereIfRandomNumbersAre) {
  ProgramSpec spec = MixedSpec();
  EXPECT_EQ(ProgramOf(spec).layout.random_word, -1);
  spec.random_numbers_per_call = 3;
  EXPECT_EQ(ProgramOf(spec).layout.random_word, RandomWord(spec));
}

TEST(ProgramLayoutTest, ReasonIsNewsOnce) {
  const Program program = ProgramOf(RowsSpec());
  EXPECT_TRUE(program.IsNews(Reason::kEvicted));
  EXPECT_FALSE(program.IsNews(Reason::kEvicted));
  EXPECT_TRUE(program.IsNews(Reason::kNewBucket));
}

TEST(ProgramLayoutTest, WhatIsStaticOrPromisesNothingNeverPads) {
  EXPECT_FALSE(ProgramOf(SpecOf(SymbolKind::kStatic)).Pads(0, 5, Observe::kYes));
  ProgramSpec exact = SpecOf(SymbolKind::kMaybeDynamic);
  exact.claim = std::nullopt;
  EXPECT_FALSE(ProgramOf(exact).Pads(0, 5, Observe::kYes));
  for (const SymbolKind kind : {SymbolKind::kDynamic, SymbolKind::kMaybeDynamic})
    EXPECT_TRUE(ProgramOf(SpecOf(kind)).Pads(0, 5, Observe::kYes));
}

// n and m, and the extents "n + m" and "2*n".
TEST(ProgramLayoutTest, ContentsAreWhatAllSymbolsOfThePaddedExtentsAllow) {
  ProgramSpec spec{.name = "p"};
  for (const char* name : {"n", "m"})
    spec.AddSymbol(name, *PaddingPolicy::Pow2(64));
  spec.symbols[0].claim = PaddingClaim{.padding = PaddingContents::kAny};
  spec.symbols[1].claim = PaddingClaim{.padding = PaddingContents::kFinite};
  const Dim both = spec.AddExtent("n + m");
  const Dim twice = spec.AddExtent("2*n");
  spec.inputs = {{.name = "x", .dims = {Dim::Symbol(0), Dim::Symbol(1), both, twice}}};
  const Program program = ProgramOf(spec);
  const auto bit = [](const Dim& dim) { return uint32_t{1} << ExtentOf(dim); };
  EXPECT_EQ(program.SymbolsOf(bit(both)), 3U);
  EXPECT_EQ(program.SymbolsOf(bit(twice)), 1U);
  const auto contents = [&](uint32_t extents) {
    return program.ContentsOf(program.spec.inputs[0], extents);
  };
  EXPECT_EQ(contents(1), PaddingContents::kAny);
  EXPECT_EQ(contents(2), PaddingContents::kFinite);
  EXPECT_EQ(contents(3), PaddingContents::kFinite);
  EXPECT_EQ(contents(bit(twice)), PaddingContents::kAny);
  EXPECT_EQ(contents(bit(both)), PaddingContents::kFinite);
  EXPECT_EQ(program.layout.any_bits, 1U | bit(twice));
  EXPECT_FALSE(program.layout.any_bits_everywhere);
}

TEST(ProgramLayoutTest, ExcludedExtentsDoNotPad) {
  const Program program = ProgramOf(SpecOf(SymbolKind::kDynamic, /*exclude_01=*/true));
  EXPECT_FALSE(program.Pads(0, 0, Observe::kYes));
  EXPECT_FALSE(program.Pads(0, 1, Observe::kYes));
  EXPECT_TRUE(program.Pads(0, 2, Observe::kYes));
}

TEST(ProgramLayoutTest, AutoPadsFromTheSecondExtentThatIsObserved) {
  const Program program = ProgramOf(SpecOf(SymbolKind::kAuto));
  EXPECT_FALSE(program.Pads(0, 5, Observe::kNo));
  EXPECT_FALSE(program.Pads(0, 5, Observe::kYes));
  EXPECT_FALSE(program.Pads(0, 5, Observe::kYes));
  EXPECT_TRUE(program.Pads(0, 6, Observe::kNo));   // As if it were observed,
  EXPECT_FALSE(program.Pads(0, 5, Observe::kNo));  // which it was not.
  EXPECT_TRUE(program.Pads(0, 6, Observe::kYes));
  EXPECT_TRUE(program.Pads(0, 5, Observe::kYes));
}

TEST(ProgramLayoutTest, BucketsAreThoseOfThePolicy) {
  const Program rows = ProgramOf(RowsSpec());
  for (const int64_t extent : {1, 2, 64})
    EXPECT_TRUE(rows.IsBucket(0, extent)) << extent;
  for (const int64_t extent : {-1, 0, 3, 65, 128})
    EXPECT_FALSE(rows.IsBucket(0, extent)) << extent;
  EXPECT_TRUE(ProgramOf(SpecOf(SymbolKind::kStatic)).IsBucket(0, 3));
  EXPECT_TRUE(ProgramOf(SpecOf(SymbolKind::kDynamic, /*exclude_01=*/true)).IsBucket(0, 0));
}

}  // namespace
}  // namespace coppice::internal
