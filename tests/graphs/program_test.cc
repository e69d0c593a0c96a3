// Goal: every rule of ValidateSpec and the layout of the parameter block. Method: one valid spec,
// and for each rule the least change that breaks it.

#include "coppice/graphs/program.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

// Two symbols, a copied input for each, a static input, an output, and scalars of both kinds.
ProgramSpec ValidSpec() {
  ProgramSpec spec{.name = "attend", .claim = PaddingContents::kAny};
  const int batch = spec.AddSymbol("batch", *PaddingPolicy::Pow2(64));
  const int length = spec.AddSymbol("length", *PaddingPolicy::Linear(16, 4096));
  spec.inputs = {
      {.name = "tokens", .dtype = DType::kInt32, .dims = {Dim::Symbol(batch), Dim::Fixed(8)}},
      {.name = "mask", .dtype = DType::kUInt8, .dims = {Dim::Symbol(batch), Dim::Symbol(length)}},
      {.name = "cache", .dims = {Dim::Fixed(4096)}, .role = InputRole::kStatic, .mutated = true}};
  spec.outputs = {{.name = "logits", .dims = {Dim::Symbol(batch), Dim::Fixed(32)}}};
  spec.scalars = {{.name = "layer"},
                  {.name = "step", .device_resident = true},
                  {.name = "mode"},
                  {.name = "seed", .device_resident = true}};
  return spec;
}

// Expects the error to name the program and, by `field`, the place.
void ExpectInvalid(const ProgramSpec& spec, const std::string& field) {
  const absl::Status status = ValidateSpec(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.ToString(), HasSubstr(spec.name));
  EXPECT_THAT(status.ToString(), HasSubstr(field));
}

TEST(ProgramTest, AcceptsAValidSpec) {
  EXPECT_TRUE(ValidateSpec(ValidSpec()).ok());
}

TEST(ProgramTest, AcceptsTheExampleOfTheHeader) {
  ProgramSpec spec{.name = "scale", .claim = PaddingContents::kAny};
  const int n = spec.AddSymbol("n", *PaddingPolicy::Pow2(4096));
  spec.inputs = {{.name = "x", .dtype = DType::kFloat32, .dims = {Dim::Symbol(n)}}};
  spec.outputs = {{.name = "y", .dtype = DType::kFloat32, .dims = {Dim::Symbol(n)}}};
  EXPECT_TRUE(ValidateSpec(spec).ok());
}

TEST(ProgramTest, AcceptsAProgramOfNothingButAName) {
  const ProgramSpec spec{.name = "empty"};
  EXPECT_TRUE(ValidateSpec(spec).ok());
  EXPECT_EQ(spec.parameter_words(), 0);
}

TEST(ProgramTest, AddSymbolReturnsItsIndex) {
  ProgramSpec spec;
  EXPECT_EQ(spec.AddSymbol("a", *PaddingPolicy::Exact(4)), 0);
  EXPECT_EQ(spec.AddSymbol("b", *PaddingPolicy::Exact(4)), 1);
  EXPECT_EQ(spec.symbols[1].name, "b");
}

TEST(ProgramTest, RejectsMissingNames) {
  ProgramSpec spec = ValidSpec();
  spec.name.clear();
  EXPECT_EQ(ValidateSpec(spec).code(), absl::StatusCode::kInvalidArgument);
  spec = ValidSpec();
  spec.symbols[1].name.clear();
  ExpectInvalid(spec, "symbols[1]");
  spec = ValidSpec();
  spec.inputs[2].name.clear();
  ExpectInvalid(spec, "inputs[2]");
  spec = ValidSpec();
  spec.outputs[0].name.clear();
  ExpectInvalid(spec, "outputs[0]");
  spec = ValidSpec();
  spec.scalars[3].name.clear();
  ExpectInvalid(spec, "scalars[3]");
}

TEST(ProgramTest, RejectsNamesThatRepeatWithinAList) {
  ProgramSpec spec = ValidSpec();
  spec.symbols[1].name = "batch";
  ExpectInvalid(spec, "symbols[1] repeats the name batch");
  spec = ValidSpec();
  spec.inputs[2].name = "tokens";
  ExpectInvalid(spec, "inputs[2] repeats the name tokens");
  spec = ValidSpec();
  spec.outputs.push_back(spec.outputs[0]);
  ExpectInvalid(spec, "outputs[1] repeats the name logits");
  spec = ValidSpec();
  spec.scalars[2].name = "layer";
  ExpectInvalid(spec, "scalars[2] repeats the name layer");
}

TEST(ProgramTest, AcceptsNamesThatRepeatAcrossLists) {
  ProgramSpec spec = ValidSpec();
  spec.outputs[0].name = "tokens";
  spec.scalars[0].name = "batch";
  EXPECT_TRUE(ValidateSpec(spec).ok());
}

TEST(ProgramTest, LimitsTheSymbols) {
  ProgramSpec spec{.name = "many", .claim = PaddingContents::kAny};
  for (int i = 0; i < kSymbolsMax; ++i) {
    const int symbol = spec.AddSymbol(fmt::format("s{}", i), *PaddingPolicy::Pow2(4));
    spec.inputs.push_back({.name = fmt::format("x{}", i), .dims = {Dim::Symbol(symbol)}});
  }
  EXPECT_TRUE(ValidateSpec(spec).ok());
  const int symbol = spec.AddSymbol("more", *PaddingPolicy::Pow2(4));
  spec.inputs[0].dims.push_back(Dim::Symbol(symbol));
  ExpectInvalid(spec, "9 symbols");
}

TEST(ProgramTest, LimitsTheScalars) {
  ProgramSpec spec{.name = "many"};
  for (int i = 0; i < kScalarsMax; ++i)
    spec.scalars.push_back({.name = fmt::format("s{}", i)});
  EXPECT_TRUE(ValidateSpec(spec).ok());
  spec.scalars.push_back({.name = "more"});
  ExpectInvalid(spec, "17 scalars");
}

TEST(ProgramTest, TakesAnyNumberOfInputs) {
  ProgramSpec spec{.name = "many"};
  for (int i = 0; i < 1000; ++i) {
    spec.inputs.push_back({.name = fmt::format("x{}", i)});
    spec.inputs.push_back({.name = fmt::format("w{}", i), .role = InputRole::kStatic});
  }
  EXPECT_TRUE(ValidateSpec(spec).ok());
}

// Strides of input tokens of ValidSpec, [batch, seq].
ProgramSpec SpecWithStrides(Dims strides) {
  ProgramSpec spec = ValidSpec();
  spec.inputs[0].strides = std::move(strides);
  return spec;
}

TEST(ProgramTest, TakesStridesThatKeepElementsApart) {
  EXPECT_TRUE(ValidateSpec(SpecWithStrides({Dim::Symbol(1), Dim::Fixed(1)})).ok());
  EXPECT_TRUE(ValidateSpec(SpecWithStrides({Dim::Fixed(1), Dim::Symbol(0)})).ok());
  EXPECT_TRUE(ValidateSpec(SpecWithStrides({Dim::Fixed(1 << 20), Dim::Fixed(2)})).ok());
}

TEST(ProgramTest, RejectsStridesThatDoNot) {
  ExpectInvalid(SpecWithStrides({Dim::Fixed(1)}),
                "input tokens must have one stride per axis, but has 1 for rank 2");
  ExpectInvalid(SpecWithStrides({Dim::Symbol(7), Dim::Fixed(1)}), "names symbol 7");
  ExpectInvalid(SpecWithStrides({Dim::Fixed(-1), Dim::Fixed(1)}), "axis 0 has stride -1");
  ExpectInvalid(SpecWithStrides({Dim::Fixed(0), Dim::Fixed(1)}), "elements overlap");
  ExpectInvalid(SpecWithStrides({Dim::Fixed(2), Dim::Fixed(1)}), "elements overlap");
  ExpectInvalid(SpecWithStrides({Dim::Fixed(int64_t{1} << 62), Dim::Fixed(1)}), "over 2^63 bytes");
  ProgramSpec spec = ValidSpec();
  spec.outputs[0].strides = Dims(spec.outputs[0].dims.size(), Dim::Fixed(0));
  ExpectInvalid(spec, "output logits has strides that make its elements overlap");
}

TEST(ProgramTest, OnlyStaticInputsThatAreNotWrittenMayRepeatElements) {
  ProgramSpec spec{.name = "rows"};
  spec.inputs = {{.name = "w",
                  .dims = {Dim::Fixed(4), Dim::Fixed(2)},
                  .strides = {Dim::Fixed(0), Dim::Fixed(1)},
                  .role = InputRole::kStatic}};
  EXPECT_TRUE(ValidateSpec(spec).ok());
  spec.inputs[0].mutated = true;
  ExpectInvalid(spec, "input w has strides that make its elements overlap");
  const int n = spec.AddSymbol("n", *PaddingPolicy::Pow2(8));
  spec.inputs[0] = {.name = "w",
                    .dims = {Dim::Fixed(4)},
                    .strides = {Dim::Symbol(n)},
                    .role = InputRole::kStatic};
  ExpectInvalid(spec, "static input w has a symbol");
}

TEST(ProgramTest, LimitsTheRank) {
  ProgramSpec spec = ValidSpec();
  spec.inputs[2].dims = Dims(kRankMax, Dim::Fixed(2));
  spec.outputs[0].dims = Dims(kRankMax, Dim::Fixed(2));
  EXPECT_TRUE(ValidateSpec(spec).ok());
  spec.outputs[0].dims.push_back(Dim::Fixed(2));
  ExpectInvalid(spec, "output logits has rank 9");
  spec = ValidSpec();
  spec.inputs[2].dims = Dims(kRankMax + 1, Dim::Fixed(2));
  ExpectInvalid(spec, "input cache has rank 9");
}

TEST(ProgramTest, RejectsSymbolsThatDoNotExist) {
  ProgramSpec spec = ValidSpec();
  spec.inputs[0].dims[1] = Dim::Symbol(2);
  ExpectInvalid(spec, "input tokens axis 1 names symbol 2, but the program has only 2");
  spec = ValidSpec();
  spec.outputs[0].dims[0] = Dim::Symbol(7);
  ExpectInvalid(spec, "output logits axis 0 names symbol 7, but the program has only 2");
}

TEST(ProgramTest, RejectsNegativeSizesAndAcceptsEmptyOnes) {
  ProgramSpec spec = ValidSpec();
  spec.inputs[0].dims[1] = Dim::Fixed(0);
  EXPECT_TRUE(ValidateSpec(spec).ok());
  spec.inputs[0].dims[1] = Dim::Fixed(-1);
  ExpectInvalid(spec, "input tokens axis 1 has size -1");
  spec = ValidSpec();
  spec.outputs[0].dims[1] = Dim::Fixed(-5);
  ExpectInvalid(spec, "output logits axis 1 has size -5");
}

TEST(ProgramTest, RejectsTensorsWhoseBytesOverflow) {
  ProgramSpec spec = ValidSpec();
  // 64 x 2^54 elements of 4 bytes are 2^62 bytes, twice as many are 2^63.
  spec.outputs[0].dims = {Dim::Symbol(0), Dim::Fixed(int64_t{1} << 54)};
  EXPECT_TRUE(ValidateSpec(spec).ok());
  spec.outputs[0].dims[1] = Dim::Fixed(int64_t{1} << 55);
  ExpectInvalid(spec, "output logits");
  spec = ValidSpec();
  spec.inputs[2].dims = {Dim::Fixed(0), Dim::Fixed(std::numeric_limits<int64_t>::max())};
  ExpectInvalid(spec, "input cache");
}

TEST(ProgramTest, RejectsASymbolThatNoCopiedInputBinds) {
  ProgramSpec spec = ValidSpec();
  spec.inputs[1].dims = {Dim::Symbol(0)};
  ExpectInvalid(spec, "symbol length");
  spec.outputs[0].dims[1] = Dim::Symbol(1);
  ExpectInvalid(spec, "symbol length");
}

TEST(ProgramTest, AcceptsSymbolsThatCallsOrScalarsGive) {
  ProgramSpec spec = ValidSpec();
  const int given = spec.AddSymbol("given", *PaddingPolicy::Pow2(64));
  ExpectInvalid(spec, "symbol given");
  spec.symbols[static_cast<size_t>(given)].given = true;
  EXPECT_TRUE(ValidateSpec(spec).ok());
  spec.symbols[static_cast<size_t>(given)].scalar = 2;
  ExpectInvalid(spec, "both `given` and bound to scalar mode");
  spec.symbols[static_cast<size_t>(given)].given = false;
  EXPECT_TRUE(ValidateSpec(spec).ok());
  spec.symbols[static_cast<size_t>(given)].scalar = 4;
  ExpectInvalid(spec, "scalar 4, but the number of scalars is 4");
  spec.symbols[static_cast<size_t>(given)].scalar = -2;
  ExpectInvalid(spec, "scalar -2, but the number of scalars is 4");
}

TEST(ProgramTest, AddExtentReturnsTheDimOfItsExpression) {
  ProgramSpec spec = ValidSpec();
  const Dim twice = spec.AddExtent("2*batch");
  const Dim sum = spec.AddExtent("batch + length");
  EXPECT_EQ(twice, Dim::Extent(0));
  EXPECT_EQ(sum, Dim::Extent(1));
  EXPECT_EQ(spec.AddExtent("2*batch"), twice);
  EXPECT_EQ(spec.extents.size(), 2U);
  spec.inputs[1].dims[1] = sum;
  ExpectInvalid(spec, "symbol length");
  spec.inputs[1].dims.push_back(Dim::Symbol(1));
  EXPECT_TRUE(ValidateSpec(spec).ok());
  EXPECT_EQ(CompileExtents(spec)->size(), 2U);
  EXPECT_EQ(CompileExtents(spec)->at(1).text(), "batch + length");
}

TEST(ProgramTest, RejectsExpressionsThatDoNotExistOrDoNotParse) {
  ProgramSpec spec = ValidSpec();
  spec.outputs[0].dims[0] = Dim::Extent(0);
  ExpectInvalid(spec, "output logits axis 0 names extent 0, but the program has only 0");
  spec.outputs[0].dims[0] = spec.AddExtent("2*");
  ExpectInvalid(spec, "extents[0]");
  spec.extents[0] = "2*width";
  ExpectInvalid(spec, "width");
  EXPECT_EQ(CompileExtents(spec).status().code(), absl::StatusCode::kInvalidArgument);
  spec.extents[0] = "2*length";
  EXPECT_TRUE(ValidateSpec(spec).ok());
}

TEST(ProgramTest, LimitsTheExpressions) {
  ProgramSpec spec = ValidSpec();
  for (int i = 0; i < kExtentsMax; ++i)
    spec.outputs[0].dims[0] = spec.AddExtent(fmt::format("batch + {}", i));
  EXPECT_TRUE(ValidateSpec(spec).ok());
  spec.AddExtent("batch - 1");
  ExpectInvalid(spec, "25 extents");
}

TEST(ProgramTest, ExpressionsReadScalarsOfTheKeyAlone) {
  ProgramSpec spec = ValidSpec();
  spec.extents = {"layer + mode"};
  EXPECT_TRUE(ValidateSpec(spec).ok());
  spec.extents = {"layer + step"};
  ExpectInvalid(spec, "reads scalar step");
  spec.extents = {"layer + mode"};
  spec.symbols[1].scalar = 2;
  ExpectInvalid(spec, "read symbol length");
}

TEST(ProgramTest, BytesOfExpressionsAreLeftToTheCalls) {
  ProgramSpec spec = ValidSpec();
  const Dim huge = spec.AddExtent("batch * 9223372036854775807");
  spec.outputs[0].dims = {huge, Dim::Fixed(1)};
  EXPECT_TRUE(ValidateSpec(spec).ok());
  spec.outputs[0].dims = {huge, Dim::Fixed(std::numeric_limits<int64_t>::max() / 2)};
  ExpectInvalid(spec, "larger than 2^63 bytes");
}

TEST(ProgramTest, RejectsAnExpressionInAStaticTensor) {
  ProgramSpec spec = ValidSpec();
  spec.inputs[2].dims[0] = spec.AddExtent("16 * 2");
  ExpectInvalid(spec, "static input cache");
  spec = ValidSpec();
  spec.outputs[0].role = OutputRole::kStatic;
  spec.outputs[0].dims = {spec.AddExtent("2*batch")};
  ExpectInvalid(spec, "static output logits");
}

TEST(ProgramTest, RejectsADynamicStaticInput) {
  ProgramSpec spec = ValidSpec();
  spec.inputs[2].dims = {Dim::Fixed(4), Dim::Symbol(0)};
  ExpectInvalid(spec, "static input cache");
}

TEST(ProgramTest, IgnoresTheFillOfAStaticInput) {
  ProgramSpec spec = ValidSpec();
  spec.inputs[2].fill = Fill::RepeatLast();
  EXPECT_TRUE(ValidateSpec(spec).ok());
}

TEST(ProgramTest, AnExactClaimAllowsExactPoliciesOnly) {
  ProgramSpec spec = ValidSpec();
  spec.claim = std::nullopt;
  ExpectInvalid(spec, "symbol batch is padded by pow2");
  spec.symbols[0].policy = *PaddingPolicy::Exact(64);
  ExpectInvalid(spec, "symbol length is padded by linear:16");
  spec.symbols[1].policy = *PaddingPolicy::Exact(4096);
  EXPECT_TRUE(ValidateSpec(spec).ok());
}

TEST(ProgramTest, PaddingClaimsAllowEveryPolicy) {
  ProgramSpec spec = ValidSpec();
  spec.symbols[1].policy = *PaddingPolicy::Exact(4096);
  for (const PaddingContents claim : {PaddingContents::kRowIndependent, PaddingContents::kAny}) {
    spec.claim = claim;
    EXPECT_TRUE(ValidateSpec(spec).ok());
  }
}

constexpr PaddingClaim kAnyPadding = {.padding = PaddingContents::kAny};
constexpr PaddingClaim kFinitePadding = {.padding = PaddingContents::kFinite};
constexpr PaddingClaim kRowsApart = {.padding = PaddingContents::kRowIndependent};

TEST(ProgramTest, SymbolWithAClaimMayPadWhateverItsProgramClaims) {
  ProgramSpec spec = ValidSpec();
  spec.claim = std::nullopt;
  spec.symbols[0].claim = kFinitePadding;
  ExpectInvalid(spec, "symbol length is padded by linear:16");
  spec.symbols[1].claim = kAnyPadding;
  EXPECT_TRUE(ValidateSpec(spec).ok());
}

TEST(ProgramTest, RejectsClaimsOfNoToleranceOrOfTwo) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Equality refused[] = {
      {.bits = false, .absolute = -1},        {.bits = false, .relative = -1e-5},
      {.bits = false, .absolute = kInfinity}, {.bits = false, .relative = kInfinity - kInfinity},
      {.bits = true, .absolute = 1},          {.bits = true, .relative = 1}};
  for (const Equality& equal : refused) {
    ProgramSpec spec = ValidSpec();
    spec.symbols[1].claim = kAnyPadding;
    spec.symbols[1].claim->equal = equal;
    ExpectInvalid(spec, "symbol length claims");
  }
  ProgramSpec spec = ValidSpec();
  for (const Equality& equal : {Equality{.bits = false}, Equality{.bits = false, .absolute = 1}}) {
    spec.symbols[1].claim = kAnyPadding;
    spec.symbols[1].claim->equal = equal;
    EXPECT_TRUE(ValidateSpec(spec).ok());
  }
}

TEST(ProgramTest, RejectsInputsThatLeaveWhatWasThereInPaddingThatMustNotHoldIt) {
  for (const bool computed : {false, true}) {
    ProgramSpec spec = ValidSpec();
    if (computed) spec.inputs[1].dims[1] = spec.AddExtent("2*length");
    spec.inputs.push_back({.name = "lengths", .dims = {Dim::Symbol(1)}});
    spec.inputs[1].fill = Fill::Undefined();
    EXPECT_TRUE(ValidateSpec(spec).ok());
    for (const PaddingClaim& claim : {kAnyPadding, kRowsApart}) {
      spec.symbols[1].claim = claim;
      EXPECT_TRUE(ValidateSpec(spec).ok());
    }
    for (const PaddingContents contents : {PaddingContents::kFinite, PaddingContents::kFill}) {
      spec.symbols[1].claim->padding = contents;
      ExpectInvalid(spec, "input mask leaves its padding unfilled, but symbol length");
    }
    spec.symbols[1].claim.reset();
    for (const PaddingContents contents : {PaddingContents::kFinite, PaddingContents::kFill}) {
      spec.claim = contents;
      ExpectInvalid(spec, "input mask leaves its padding unfilled, but symbol");
    }
    spec.claim = PaddingContents::kAny;
    spec.symbols[1].claim = kFinitePadding;
    spec.symbols[1].kind = SymbolKind::kStatic;
    EXPECT_TRUE(ValidateSpec(spec).ok()) << "it is never padded";
  }
}

TEST(ProgramTest, SymbolsWithoutAClaimHaveTheirPrograms) {
  ProgramSpec spec = ValidSpec();
  spec.symbols[0].claim = kFinitePadding;
  spec.claim = std::nullopt;
  EXPECT_EQ(ClaimOf(spec, 1), std::nullopt);
  for (const PaddingClaim& claim : {kRowsApart, kFinitePadding, kAnyPadding}) {
    spec.claim = claim.padding;
    EXPECT_EQ(ClaimOf(spec, 0), kFinitePadding);
    EXPECT_EQ(ClaimOf(spec, 1), claim);
  }
}

TEST(ProgramTest, SymbolMayPadByClaimKindAndPolicy) {
  ProgramSpec spec = ValidSpec();
  EXPECT_TRUE(MayPad(spec, 0));
  spec.symbols[0].kind = SymbolKind::kStatic;
  EXPECT_FALSE(MayPad(spec, 0));
  spec.symbols[1].policy = *PaddingPolicy::Exact(4096);
  EXPECT_FALSE(MayPad(spec, 1));
  spec = ValidSpec();
  spec.claim = std::nullopt;
  EXPECT_FALSE(MayPad(spec, 0));
  spec.symbols[0].claim = kFinitePadding;
  EXPECT_TRUE(MayPad(spec, 0));
}

TEST(ProgramTest, RowIndependenceAllowsAnyBitsInFloatsAndItsFillInIntegers) {
  ProgramSpec spec = ValidSpec();
  const InputSpec floats = {.name = "x", .dtype = DType::kBFloat16};
  const InputSpec integers = {.name = "i", .dtype = DType::kInt32};
  const auto contents = [&](const InputSpec& input) { return ContentsOf(spec, input, 1); };
  EXPECT_EQ(contents(floats), PaddingContents::kAny);
  EXPECT_EQ(contents(integers), PaddingContents::kAny) << "masked";
  spec.claim = PaddingContents::kRowIndependent;
  EXPECT_EQ(contents(floats), PaddingContents::kAny);
  EXPECT_EQ(contents(integers), PaddingContents::kFill);
  spec.claim = std::nullopt;
  spec.symbols[1].claim = kRowsApart;
  EXPECT_EQ(contents(floats), PaddingContents::kAny) << "of one symbol";
  EXPECT_EQ(contents(integers), PaddingContents::kFill);
  spec.symbols[1].claim = kAnyPadding;
  EXPECT_EQ(contents(integers), PaddingContents::kAny);
  spec.symbols[1].claim = kFinitePadding;
  EXPECT_EQ(contents(floats), PaddingContents::kFinite);
}

TEST(ProgramTest, TolerancesOfTheSymbolsThatMayPadAddUp) {
  ProgramSpec spec = ValidSpec();
  EXPECT_EQ(EqualityOf(spec), Equality{});
  spec.symbols[0].claim = kFinitePadding;
  spec.symbols[0].claim->equal = {.bits = false, .absolute = 1};
  EXPECT_EQ(EqualityOf(spec), spec.symbols[0].claim->equal);
  spec.symbols[1].claim = kAnyPadding;
  spec.symbols[1].claim->equal = {.bits = false, .relative = 0.5};
  EXPECT_EQ(EqualityOf(spec), (Equality{.bits = false, .absolute = 1, .relative = 0.5}));
  spec.symbols[0].kind = SymbolKind::kStatic;
  EXPECT_EQ(EqualityOf(spec), spec.symbols[1].claim->equal);
}

TEST(ProgramDeathTest, ClaimsOfNoSymbolAreChecked) {
  const ProgramSpec spec = ValidSpec();
  EXPECT_DEATH(ClaimOf(spec, 2), "the program has no such symbol");
  EXPECT_DEATH(MayPad(spec, -1), "the program has no such symbol");
  EXPECT_DEATH(ContentsOf(spec, spec.inputs[0], 2), "the program has no such symbol");
}

TEST(ProgramTest, ParameterBlockHoldsExtentsThenDeviceResidentScalars) {
  const ProgramSpec spec = ValidSpec();
  EXPECT_EQ(ExtentWord(spec, 0), 0);
  EXPECT_EQ(ExtentWord(spec, 1), 1);
  EXPECT_EQ(ScalarWord(spec, 1), 2);
  EXPECT_EQ(ScalarWord(spec, 3), 3);
  EXPECT_EQ(spec.parameter_words(), 4);
}

TEST(ProgramDeathTest, WordsOfNothingAreChecked) {
  const ProgramSpec spec = ValidSpec();
  EXPECT_DEATH(ScalarWord(spec, 0), "the scalar is not device-resident");
  EXPECT_DEATH(ScalarWord(spec, 4), "the program has no such scalar");
  EXPECT_DEATH(ScalarWord(spec, -1), "the program has no such scalar");
  EXPECT_DEATH(ExtentWord(spec, 2), "the program has no such symbol");
  EXPECT_DEATH(ExtentWord(spec, -1), "the program has no such symbol");
}

}  // namespace
}  // namespace coppice
