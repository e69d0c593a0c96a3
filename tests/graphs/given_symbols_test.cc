// Goal: symbols whose extents come with the call, or are the values of scalars, do what program.h
// and call.h say. Method: as extents_test.cc.

#include "tests/graphs/extents_fixture.h"

namespace coppice {
namespace {

class GivenSymbolsTest : public ExtentsFixture {
 protected:
  // x [n] gives 2*x, k sevens and k + n sevens. Nothing has k.
  static ProgramSpec SevensSpec() {
    ProgramSpec spec = SpecOf({"n", "k"});
    spec.inputs = {{.name = "x", .dims = {Dim::Symbol(0)}}};
    spec.outputs = {{.name = "y", .dims = {Dim::Symbol(0)}},
                    {.name = "sevens", .dims = {Dim::Symbol(1)}},
                    {.name = "more", .dims = {spec.AddExtent("k + n")}}};
    return spec;
  }
  static ProgramSpec GivenSpec() {
    ProgramSpec spec = SevensSpec();
    spec.symbols[1].given = true;
    return spec;
  }
  static ProgramSpec BoundSpec() {
    ProgramSpec spec = SevensSpec();
    spec.scalars = {{.name = "mode"}, {.name = "length"}};
    spec.symbols[1].scalar = 1;
    return spec;
  }

  // Expects a call with k from either source to run so.
  void ExpectSevens(RunKind kind, int64_t n, int64_t k, bool given) {
    ExpectCall(kind, {{n}}, {{n}, {k}, {k + n}},
               {.extents = given ? Sizes{k} : Sizes{}, .scalars = given ? Sizes{} : Sizes{1, k}});
  }

  void ExpectRefused(const absl::Status& status, const std::vector<std::string>& texts) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    for (const std::string& text : texts)
      EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
};

TEST_F(GivenSymbolsTest, ExtentsOfTheCallAreBucketsAsThoseOfAxesAre) {
  Open(GivenSpec());
  ExpectSevens(RunKind::kWarmUp, 5, 3, true);
  ExpectSevens(RunKind::kRecord, 6, 4, true);
  ExpectSevens(RunKind::kReplay, 7, 3, true);
  ExpectSevens(RunKind::kReplay, 8, 4, true);
  ExpectSevens(RunKind::kWarmUp, 8, 5, true);
  EXPECT_THAT(Buckets(), ElementsAre(ElementsAre(8, 4), ElementsAre(8, 8)));
}

TEST_F(GivenSymbolsTest, ScalarsThatSymbolsAreBoundToAreBucketsInTheKey) {
  Open(BoundSpec());
  ExpectSevens(RunKind::kWarmUp, 5, 3, false);
  ExpectSevens(RunKind::kRecord, 6, 4, false);
  ExpectSevens(RunKind::kReplay, 7, 3, false);
  ExpectSevens(RunKind::kReplay, 8, 4, false);
  ExpectSevens(RunKind::kWarmUp, 8, 5, false);
  EXPECT_THAT(Buckets(), ElementsAre(ElementsAre(8, 4), ElementsAre(8, 8)));
  // The other scalar is in the key.
  ExpectCall(RunKind::kWarmUp, {{5}}, {{5}, {3}, {8}}, {.scalars = {2, 3}});
}

TEST_F(GivenSymbolsTest, CallablesSeeTheBucketAndNoScalarThatASymbolIsBoundTo) {
  std::vector<int64_t> seen;
  Open(BoundSpec(), {}, DoubleAll([&](CallContext& context) {
         seen = {context.extent(1), context.scalar(0), context.scalar(1)};
         return absl::OkStatus();
       }));
  for (int i = 0; i < 2; ++i) {
    EXPECT_OK(Run({{5}}, {.scalars = {9, 3}}));
    EXPECT_THAT(seen, ElementsAre(4, 9, 0));
  }
}

TEST_F(GivenSymbolsTest, AuditFindsACallableThatUsesSuchAScalarNonetheless) {
  ProgramSpec spec = BoundSpec();
  spec.outputs.resize(1);
  Open(spec, {.checks = {.audit_keys = true}}, [this](CallContext& context) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    return LaunchScale(context, context.input(0).data, y.data, y.element_count(),
                       static_cast<float>(context.scalar(1)));
  });
  EXPECT_OK(Run({{5}}, {.scalars = {9, 3}}));
  EXPECT_FALSE(Run({{5}}, {.scalars = {9, 3}}).ok());
}

TEST_F(GivenSymbolsTest, KernelsReadTheRealExtentFromTheParameterBlock) {
  for (const bool given : {true, false}) {
    ProgramSpec spec = given ? GivenSpec() : BoundSpec();
    spec.claim = PaddingContents::kAny;
    spec.outputs.resize(1);
    Open(spec, {}, [this, spec](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      COPPICE_RETURN_IF_ERROR(LaunchFill(context, y.data, y.element_count(), 0));
      return Launch(context.driver(), kernels_.masked_scale, context.stream(),
                    MaskedScaleParams{.x = PointerAt<float>(context.input(0).data),
                                      .y = PointerAt<float>(y.data),
                                      .words = PointerAt<const int64_t>(context.parameters()),
                                      .word = ExtentWord(spec, 1),
                                      .factor = 3},
                    GridFor(y.element_count()));
    });
    for (const int64_t k : {4, 3, 4, 3}) {
      const absl::StatusOr<Lease> lease = Run(
          {{5}}, {.extents = given ? Sizes{k} : Sizes{}, .scalars = given ? Sizes{} : Sizes{1, k}});
      ASSERT_OK(lease);
      std::vector<float> expected(5);
      for (int64_t i = 0; i < k; ++i)
        expected[static_cast<size_t>(i)] = static_cast<float>(3 * (i + 1));
      EXPECT_EQ(Read(*lease), expected);
    }
  }
}

TEST_F(GivenSymbolsTest, DeviceResidentScalarMayBeASymbolsExtent) {
  ProgramSpec spec = BoundSpec();
  spec.scalars[1].device_resident = true;
  Open(spec);
  EXPECT_EQ(ScalarWord(spec, 1), 2);
  ExpectSevens(RunKind::kWarmUp, 5, 3, false);
  ExpectSevens(RunKind::kRecord, 6, 4, false);
  ExpectSevens(RunKind::kReplay, 7, 3, false);
}

TEST_F(GivenSymbolsTest, ACallGivesAsManyExtentsAsThereAreSuchSymbols) {
  Open(GivenSpec());
  ExpectRefused(Run({{5}}).status(), {"given extents", "must be 0 and 1, not 0 and 0"});
  ExpectRefused(Run({{5}}, {.extents = {3, 3}}).status(),
                {"given extents", "must be 0 and 1, not 0 and 2"});
  Open(DoublesSpec());
  ExpectRefused(Run({{5}, {10}}, {.extents = {3}}).status(),
                {"given extents", "must be 0 and 0, not 0 and 1"});
}

TEST_F(GivenSymbolsTest, GivenExtentsComeInTheOrderOfTheSymbols) {
  ProgramSpec spec = SpecOf({"a", "n", "b"});
  spec.symbols[0].given = spec.symbols[2].given = true;
  spec.inputs = {{.name = "x", .dims = {Dim::Symbol(1)}}};
  spec.outputs = {{.name = "y", .dims = {Dim::Symbol(1)}},
                  {.name = "b", .dims = {Dim::Symbol(2)}},
                  {.name = "a", .dims = {Dim::Symbol(0)}}};
  Open(spec);
  for (const RunKind kind : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    ExpectCall(kind, {{5}}, {{5}, {3}, {9}}, {.extents = {9, 3}});
}

TEST_F(GivenSymbolsTest, NegativeExtentsAreRefusedByName) {
  Open(GivenSpec());
  ExpectRefused(Run({{5}}, {.extents = {-1}}).status(), {"symbol k", "given with the call", "-1"});
  Open(BoundSpec());
  ExpectRefused(Run({{5}}, {.scalars = {1, -2}}).status(), {"symbol k", "scalar 'length'", "-2"});
  EXPECT_TRUE(session_->nodes().empty());
}

TEST_F(GivenSymbolsTest, BoundsHoldForThemAndMessagesSayWhereTheyComeFrom) {
  ProgramSpec spec = GivenSpec();
  spec.symbols[1].max = 64;
  spec.symbols[1].min = 2;
  Open(spec);
  ExpectRefused(Run({{5}}, {.extents = {1}}).status(),
                {"k >= 2", "k = 1", "k is given with the call"});
  spec = BoundSpec();
  spec.guards = {"k < n", "length != 3"};
  Open(spec);
  ExpectRefused(Run({{5}}, {.scalars = {1, 5}}).status(),
                {"k < n", "k is scalar 'length'", "n is axis 0 of input 'x'"});
  ExpectRefused(Run({{5}}, {.scalars = {1, 3}}).status(), {"length = 3"});
}

TEST_F(GivenSymbolsTest, ExtentsOverTheLargestBucketAreThoseOfOtherSymbols) {
  ProgramSpec spec = GivenSpec();
  Open(spec);
  ExpectSevens(RunKind::kEager, 5, 70, true);
  EXPECT_EQ(last_.reason, Reason::kOverLargestBucket);
  spec.symbols[1].over_maximum = OverMaximum::kError;
  Open(spec);
  EXPECT_THAT(Run({{5}}, {.extents = {70}}), StatusIs(absl::StatusCode::kOutOfRange));
  Open(BoundSpec());
  ExpectSevens(RunKind::kEager, 5, 70, false);
  EXPECT_THAT(Run({{5}}, {.scalars = {1, int64_t{1} << 60}}), StatusIs(kExhausted));
}

TEST_F(GivenSymbolsTest, AnAxisThatNamesSuchASymbolMustAgree) {
  for (const bool given : {true, false}) {
    ProgramSpec spec = given ? GivenSpec() : BoundSpec();
    spec.inputs.push_back({.name = "w", .dims = {Dim::Symbol(1)}});
    Open(spec);
    const auto beside = [given](int64_t k) {
      return given ? Beside{.extents = {k}, .scalars = {}}
                   : Beside{.extents = {}, .scalars = {1, k}};
    };
    EXPECT_OK(Run({{5}, {3}}, beside(3)));
    ExpectRefused(Run({{5}, {3}}, beside(4)).status(), {"axis 0 of input 'w'", "size 3", "k is 4"});
  }
}

TEST_F(GivenSymbolsTest, TheyNeedNoInputAtAll) {
  ProgramSpec spec = SpecOf({"k"});
  spec.symbols[0].given = true;
  spec.outputs = {{.name = "y", .dims = {spec.AddExtent("3*k")}}};
  Open(spec);
  ExpectCall(RunKind::kWarmUp, {}, {{9}}, {.extents = {3}});
  ExpectCall(RunKind::kRecord, {}, {{12}}, {.extents = {4}});
  ExpectCall(RunKind::kReplay, {}, {{9}}, {.extents = {3}});
}

TEST_F(GivenSymbolsTest, AutoAndStaticSymbolsMayBeGiven) {
  ProgramSpec spec = GivenSpec();
  spec.symbols[1].kind = SymbolKind::kAuto;
  Open(spec);
  ExpectSevens(RunKind::kWarmUp, 5, 3, true);
  ExpectSevens(RunKind::kRecord, 5, 3, true);
  ExpectSevens(RunKind::kWarmUp, 5, 5, true);
  EXPECT_THAT(Buckets(), ElementsAre(ElementsAre(8, 3), ElementsAre(8, 8)));
  spec.symbols[1].kind = SymbolKind::kStatic;
  Open(spec);
  ExpectSevens(RunKind::kWarmUp, 5, 3, true);
  ExpectSevens(RunKind::kWarmUp, 5, 5, true);
  EXPECT_THAT(Buckets(), ElementsAre(ElementsAre(8, 3), ElementsAre(8, 5)));
}

TEST_F(GivenSymbolsTest, BackgroundRecordingsSeeTheirBuckets) {
  ProgramSpec spec = BoundSpec();
  spec.thread_safe = true;
  Open(spec, {.record_in_background = true});
  EXPECT_OK(Run({{5}}, {.scalars = {1, 3}}));
  EXPECT_OK(Run({{5}}, {.scalars = {1, 3}}));
  session_->WaitForRecordings();
  ExpectSevens(RunKind::kReplay, 7, 4, false);
}

}  // namespace
}  // namespace coppice
