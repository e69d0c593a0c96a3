// Goal: padding follows the claim of each symbol: whether it pads, what poison puts there, which
// outputs are read in place, and what Explain says. Method: a program that reduces each row of x
// [batch, length] in one of the ways that compiled programs do; its live outputs in buckets, under
// every poison, are compared as claimed with a run at the real extents, so that a claim which is
// too strong is refuted. What lies in padding is read from outputs that copy it.

#include "coppice/runtime/block_kernel.h"

#include "tests/graphs/session_fixture.h"

namespace coppice {

enum class Reduction : int32_t {
  kAttention,  // Mean of the first lengths[row], as weights of 1 and 0 by all.
  kSum,
  kMaximum,
  kSplitMean,  // kAttention in parts of ceil(columns / 4).
};

struct ReduceParams {
  const float* x = nullptr;
  const int32_t* lengths = nullptr;
  float* y = nullptr;
  int64_t columns = 0;
  Reduction reduction = Reduction::kSum;
};

// A row per block.
COPPICE_KERNEL(Reduce, 1, ReduceParams) {
  const float* row = params.x + block.x() * params.columns;
  const int64_t length = params.lengths[block.x()];
  const bool masks =
      params.reduction == Reduction::kAttention || params.reduction == Reduction::kSplitMean;
  const int64_t part =
      params.reduction == Reduction::kSplitMean ? (params.columns + 3) / 4 : params.columns;
  float maximum = -std::numeric_limits<float>::infinity();
  float sum = 0;
  for (int64_t begin = 0; begin < params.columns; begin += part) {
    float of_part = 0;
    for (int64_t i = begin; i < begin + part && i < params.columns; ++i) {
      of_part += (masks && i >= length ? 0.0F : 1.0F) * row[i];
      maximum = row[i] > maximum ? row[i] : maximum;
    }
    sum += of_part;
  }
  if (params.reduction == Reduction::kMaximum) sum = maximum;
  params.y[block.x()] = masks ? sum / static_cast<float>(length) : sum;
}

COPPICE_ACCESSES(Reduce, ReduceParams) {
  accesses.Reads(params.x, accesses.grid_x() * params.columns);
  accesses.Reads(params.lengths, accesses.grid_x());
  accesses.Writes(params.y, accesses.grid_x());
}

COPPICE_KERNEL_IMAGE(session_claims_test, &ReduceHostKernel);

namespace {

constexpr Poison kPoisons[] = {Poison::kOff, Poison::kNan, Poison::kPattern, Poison::kNoise};
constexpr PaddingClaim kAnyBits = {.padding = PaddingContents::kAny};
constexpr PaddingClaim kFiniteValues = {.padding = PaddingContents::kFinite};
constexpr PaddingClaim kItsFill = {.padding = PaddingContents::kFill};
constexpr int kBatch = 0;  // Symbols.
constexpr int kLength = 1;

class SessionClaimsTest : public SessionFixture {
 protected:
  SessionClaimsTest()
      : library_(*KernelLibrary::Load(device_.driver(), session_claims_test_image)),
        reduce_(*library_.Get("Reduce")) {}

  // Buckets are multiples of 8, but for the batch those of 4.
  static ProgramSpec ReduceSpec(const PaddingClaim& batch, const PaddingClaim& length) {
    ProgramSpec spec{.name = "reduce"};
    const Dim b = Dim::Symbol(spec.AddSymbol("batch", *PaddingPolicy::Linear(4, 64)));
    const Dim s = Dim::Symbol(spec.AddSymbol("length", *PaddingPolicy::Linear(8, 64)));
    spec.symbols[kBatch].claim = batch;
    spec.symbols[kLength].claim = length;
    spec.inputs = {{.name = "x", .dims = {b, s}},
                   {.name = "lengths", .dtype = DType::kInt32, .dims = {b}}};
    spec.outputs = {{.name = "y", .dims = {b}}};
    return spec;
  }

  Callable ReduceCallable(Reduction reduction) const {
    return [this, reduction](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      return Launch(context.driver(), reduce_, context.stream(),
                    ReduceParams{.x = PointerAt<float>(context.input(0).data),
                                 .lengths = PointerAt<int32_t>(context.input(1).data),
                                 .y = PointerAt<float>(y.data),
                                 .columns = context.extent(kLength),
                                 .reduction = reduction},
                    static_cast<unsigned>(context.extent(kBatch)));
    };
  }

  // What the program gives for rows of this many numbers, all of them live.
  std::vector<float> Reduced(
      Session& session, const Program* program, int64_t rows, int64_t columns, Poison poison) {
    std::vector<float> values;
    for (int64_t i = 0; i < rows * columns; ++i)
      values.push_back(-1.0F / static_cast<float>(3 + 7 * i % 64));
    const auto length = static_cast<int32_t>(columns);
    const DeviceMemory x = *device_.Upload(values);
    const DeviceMemory lengths =
        *device_.Upload(std::vector<int32_t>(static_cast<size_t>(rows), length));
    const int64_t dims[] = {rows, columns};
    const Tensor inputs[] = {
        Tensor::Dense(x.address(), DType::kFloat32, dims),
        Tensor::Dense(lengths.address(), DType::kInt32, std::span(dims).first(1))};
    const absl::StatusOr<Lease> lease = session.Run(
        {.program = program, .inputs = inputs, .stream = device_.stream(), .poison = poison});
    EXPECT_OK(lease);
    return lease.ok() ? Read(*lease) : std::vector<float>();
  }

  // Whether the live outputs are as equal as claimed, whatever the claim lets the padding hold.
  bool Holds(Reduction reduction, const PaddingClaim& batch, const PaddingClaim& length) {
    const std::unique_ptr<Session> session = MakeSession();
    const ProgramSpec spec = ReduceSpec(batch, length);
    const Program* program = *session->Register(spec, ReduceCallable(reduction));
    bool holds = true;
    // Each symbol alone is padded, then both.
    const std::pair<int64_t, int64_t> sizes[] = {{3, 8}, {4, 5}, {2, 33}, {4, 11}};
    for (const auto& [rows, columns] : sizes) {
      session->SetStance(Stance::kEager);
      const std::vector<float> real = Reduced(*session, program, rows, columns, Poison::kOff);
      session->SetStance(Stance::kRecord);
      for (const Poison poison : kPoisons) {
        const std::vector<float> padded = Reduced(*session, program, rows, columns, poison);
        holds &= !FindDisagreement(EqualityOf(spec), DType::kFloat32,
                                   std::as_bytes(std::span(real)), std::as_bytes(std::span(padded)))
                      .has_value();
      }
    }
    EXPECT_GT(session->stats().runs[static_cast<size_t>(RunKind::kReplay)], 0);
    return holds;
  }

  KernelLibrary library_;
  Kernel reduce_;
};

TEST_F(SessionClaimsTest, BatchPaddingOfAttentionStandsAnyBits) {
  EXPECT_TRUE(Holds(Reduction::kAttention, kAnyBits, kFiniteValues));
}

TEST_F(SessionClaimsTest, AttentionThatMultipliesPaddingBy0StandsFiniteValuesAndNotAnyBits) {
  EXPECT_TRUE(Holds(Reduction::kAttention, kFiniteValues, kFiniteValues));
  EXPECT_FALSE(Holds(Reduction::kAttention, kAnyBits, kAnyBits));
}

TEST_F(SessionClaimsTest, SumOverAPaddedAxisStandsItsFillAlone) {
  EXPECT_TRUE(Holds(Reduction::kSum, kAnyBits, kItsFill));
  EXPECT_FALSE(Holds(Reduction::kSum, kAnyBits, kFiniteValues));
}

TEST_F(SessionClaimsTest, MaximumOverAPaddedAxisStandsNotEvenItsFill) {
  EXPECT_FALSE(Holds(Reduction::kMaximum, kAnyBits, kItsFill));
}

TEST_F(SessionClaimsTest, MeanThatIsSplitByThePaddedSizeIsEqualWithinATolerance) {
  PaddingClaim tolerant = kFiniteValues;
  EXPECT_FALSE(Holds(Reduction::kSplitMean, kAnyBits, tolerant));
  tolerant.equal = {.bits = false, .relative = 1e-5};
  EXPECT_TRUE(Holds(Reduction::kSplitMean, kAnyBits, tolerant));
}

// y = x of [n, m], for all of the bucket: what staging wrote.
class StagedPaddingTest : public SessionFixture {
 protected:
  static ProgramSpec CopySpec(const std::optional<PaddingClaim>& n,
                              const std::optional<PaddingClaim>& m,
                              std::optional<PaddingContents> claim = std::nullopt) {
    ProgramSpec spec{.name = "copy", .claim = claim};
    const Dim rows =
        Dim::Symbol(spec.AddSymbol("n", *PaddingPolicy::Linear(4, 64), SymbolKind::kMaybeDynamic));
    const Dim columns =
        Dim::Symbol(spec.AddSymbol("m", *PaddingPolicy::Linear(4, 64), SymbolKind::kMaybeDynamic));
    spec.symbols[0].claim = n;
    spec.symbols[1].claim = m;
    spec.inputs = {{.name = "x", .dims = {rows, columns}, .fill = Fill::Value(9)}};
    spec.outputs = {{.name = "y", .dims = {rows, columns}}};
    return spec;
  }

  // A session with it.
  struct Copy {
    std::unique_ptr<Session> session;
    const Program* program = nullptr;
  };
  Copy Make(ProgramSpec spec) {
    Copy copy{.session = MakeSession()};
    copy.program =
        *copy.session->Register(std::move(spec), [this](CallContext& context) -> absl::Status {
          COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
          const int64_t bytes = context.input(0).element_count() * SizeOf(context.input(0).dtype);
          return context.driver().Call<&DriverTable::MemcpyDtoDAsync>(
              y.data, context.input(0).data, static_cast<size_t>(bytes), context.stream());
        });
    return copy;
  }

  coppice::Call CallOn(const Copy& copy, const Tensor& x, Poison poison = Poison::kOff) const {
    return {
        .program = copy.program, .inputs = {&x, 1}, .stream = device_.stream(), .poison = poison};
  }
  Tensor Ones(int64_t rows, int64_t columns) {
    uploads_.push_back(*device_.Upload(std::vector<float>(static_cast<size_t>(rows * columns), 1)));
    const int64_t dims[] = {rows, columns};
    return Tensor::Dense(uploads_.back().address(), DType::kFloat32, dims);
  }

  // What lies beyond the live elements of a call, which hold 1.
  std::vector<float> PaddingOf(const Copy& copy, int64_t rows, int64_t columns, Poison poison) {
    const Tensor x = Ones(rows, columns);
    const absl::StatusOr<Lease> lease = copy.session->Run(CallOn(copy, x, poison));
    EXPECT_OK(lease);
    COPPICE_CHECK(lease.ok(), "the call failed");
    const ReadScope scope = *lease->Read(device_.stream());
    const int64_t padded_rows = (rows + 3) / 4 * 4;
    const int64_t padded_columns = scope.output(0).strides[0];
    const std::vector<float> all =
        device_.Download<float>(scope.output(0).data, padded_rows * padded_columns);
    std::vector<float> padding;
    for (int64_t i = 0; i < padded_rows * padded_columns; ++i) {
      const float value = all[static_cast<size_t>(i)];
      const bool live = i / padded_columns < rows && i % padded_columns < columns;
      EXPECT_TRUE(!live || value == 1) << "element " << i;
      if (!live) padding.push_back(value);
    }
    return padding;
  }
};

MATCHER(IsNan, "") {
  return std::isnan(arg);
}
MATCHER(IsFinite, "") {
  return std::isfinite(arg);
}

TEST_F(StagedPaddingTest, PoisonIsWhatTheClaimOfThePaddedSymbolAllows) {
  const Copy copy = Make(CopySpec(kAnyBits, kFiniteValues));
  constexpr float kLeast = std::numeric_limits<float>::lowest();
  EXPECT_THAT(PaddingOf(copy, 3, 4, Poison::kNan), Each(IsNan()));
  EXPECT_THAT(PaddingOf(copy, 4, 3, Poison::kNan), Each(kLeast));
  EXPECT_THAT(PaddingOf(copy, 4, 3, Poison::kPattern), Each(AllOf(IsFinite(), testing::Gt(1e15F))));
  EXPECT_THAT(PaddingOf(copy, 4, 3, Poison::kNoise), Each(IsFinite()));
  EXPECT_THAT(PaddingOf(copy, 4, 3, Poison::kOff), Each(9)) << "the fill";
}

TEST_F(StagedPaddingTest, ElementsThatAreThePaddingOfTwoSymbolsHoldWhatBothAllow) {
  const Copy copy = Make(CopySpec(kAnyBits, kFiniteValues));
  EXPECT_THAT(PaddingOf(copy, 3, 3, Poison::kNan), Each(IsFinite()));
}

TEST_F(StagedPaddingTest, ClaimOfItsFillLeavesNothingToPoison) {
  const Copy copy = Make(CopySpec(kItsFill, kAnyBits));
  for (const Poison poison : kPoisons)
    EXPECT_THAT(PaddingOf(copy, 3, 4, poison), Each(9));
}

TEST_F(StagedPaddingTest, NoiseDiffersFromElementToElementAndFromCallToCall) {
  const Copy copy = Make(CopySpec(kFiniteValues, kFiniteValues));
  std::vector<float> noise;
  for (int call = 0; call < 3; ++call) {
    const std::vector<float> drawn = PaddingOf(copy, 2, 5, Poison::kNoise);
    noise.insert(noise.end(), drawn.begin(), drawn.end());
  }
  EXPECT_GT(std::ranges::count_if(noise, [](float value) { return value < -1; }), 0);
  EXPECT_GT(std::ranges::count_if(noise, [](float value) { return value > 1; }), 0);
  std::ranges::sort(noise);
  EXPECT_EQ(std::ranges::adjacent_find(noise), noise.end());
}

TEST_F(StagedPaddingTest, IntegersHoldTheirFillUnlessAnyBitsAreClaimed) {
  const auto least = [&](const std::optional<PaddingClaim>& claim,
                         std::optional<PaddingContents> of_program) {
    ProgramSpec spec = CopySpec(claim, claim, of_program);
    spec.inputs[0].dtype = DType::kInt32;
    spec.outputs[0].dtype = DType::kInt32;
    const Copy copy = Make(std::move(spec));
    Tensor x = Ones(4, 3);
    x.dtype = DType::kInt32;
    const absl::StatusOr<Lease> lease = copy.session->Run(CallOn(copy, x, Poison::kNan));
    EXPECT_OK(lease);
    return device_.Download<int32_t>(lease->Read(device_.stream())->output(0).data, 4)[3];
  };
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(least(kAnyBits, std::nullopt), kLeast);
  EXPECT_EQ(least(kFiniteValues, std::nullopt), 9);
  EXPECT_EQ(least(std::nullopt, PaddingContents::kAny), kLeast);
  EXPECT_EQ(least(std::nullopt, PaddingContents::kRowIndependent), 9);
}

TEST_F(StagedPaddingTest, SymbolWithAClaimPadsInAProgramThatClaimsNothing) {
  const Copy copy = Make(CopySpec(std::nullopt, kAnyBits));
  const Tensor x = Ones(3, 3);
  for (int i = 0; i < 2; ++i)
    EXPECT_OK(copy.session->Run(CallOn(copy, x)));
  ASSERT_THAT(copy.session->nodes(), SizeIs(1));
  EXPECT_THAT(copy.session->nodes()[0].bucket, ElementsAre(3, 4));
}

TEST_F(StagedPaddingTest, OutputIsReadInPlaceOnlyIfEachPaddedSymbolClaimsAnyBits) {
  struct Case {
    std::optional<PaddingClaim> n;
    std::optional<PaddingClaim> m;
    std::optional<PaddingContents> claim;
    int64_t rows;
    int64_t columns;
    bool in_place;
  };
  const Case cases[] = {
      {kAnyBits, kFiniteValues, std::nullopt, 3, 4, true},
      {kAnyBits, kFiniteValues, std::nullopt, 4, 3, false},
      {kAnyBits, kFiniteValues, std::nullopt, 3, 3, false},
      {kAnyBits, kAnyBits, std::nullopt, 3, 3, true},
      {kFiniteValues, kFiniteValues, std::nullopt, 4, 4, true},
      {kItsFill, kItsFill, std::nullopt, 3, 4, false},
      {std::nullopt, std::nullopt, PaddingContents::kAny, 3, 3, true},
      {std::nullopt, kItsFill, PaddingContents::kAny, 3, 4, true},
      {std::nullopt, kItsFill, PaddingContents::kAny, 3, 3, false},
      {std::nullopt, std::nullopt, PaddingContents::kRowIndependent, 3, 3, false},
      {kAnyBits, std::nullopt, PaddingContents::kRowIndependent, 3, 4, true},
      {std::nullopt, kAnyBits, std::nullopt, 3, 3, true},  // Of which the first does not pad.
  };
  for (const Case& each : cases) {
    const Copy copy = Make(CopySpec(each.n, each.m, each.claim));
    Tensor x = Ones(each.rows, each.columns);
    Lease previous;
    for (int i = 0; i < 4; ++i) {
      absl::StatusOr<Lease> lease = copy.session->Run(CallOn(copy, x));
      ASSERT_OK(lease);
      x = lease->Read(device_.stream())->output(0);
      previous = *std::move(lease);
    }
    const SessionStats stats = copy.session->stats();
    EXPECT_EQ(stats.inputs_in_place > 0, each.in_place) << (&each - cases);
    EXPECT_EQ(stats.inputs_filled == 0, each.in_place) << (&each - cases);
  }
}

TEST_F(StagedPaddingTest, ExplainNamesTheSymbolOfWhichNothingIsClaimed) {
  const Copy copy = Make(CopySpec(std::nullopt, kAnyBits));
  const Tensor x = Ones(3, 4);
  EXPECT_THAT(copy.session->Explain(CallOn(copy, x)).text,
              HasSubstr("'n' is not padded from 3 to 4, because it has no claim"));
  const Tensor full = Ones(4, 4);
  EXPECT_THAT(copy.session->Explain(CallOn(copy, full)).text, Not(HasSubstr("claim")));
}

TEST_F(StagedPaddingTest, ExplainSaysWhatThePaddingOfASymbolMayHold) {
  PaddingClaim tolerant = kFiniteValues;
  tolerant.equal = {.bits = false, .absolute = 0.5, .relative = 1e-5};
  const Copy copy = Make(CopySpec(kAnyBits, tolerant));
  const Tensor x = Ones(4, 3);
  const std::string text = copy.session->Explain(CallOn(copy, x)).text;
  EXPECT_THAT(text, HasSubstr("'m' is padded from 3 to 4, as its claim allows: finite values"));
  EXPECT_THAT(text, HasSubstr("within 0.5 + 1e-05 x |value|"));
  EXPECT_THAT(text, Not(HasSubstr("'n'")));
}

TEST_F(StagedPaddingTest, ExplainNamesTheClaimForWhichAnOutputIsStagedAnew) {
  const std::pair<std::optional<PaddingClaim>, const char*> cases[] = {
      {kFiniteValues, "input 'x' is staged because of its padding: 'm' claims finite values"},
      {std::nullopt,
       "input 'x' is staged because of its padding: 'm' is claimed to be row-independent"}};
  for (const auto& [claim, said] : cases) {
    const Copy copy = Make(CopySpec(kAnyBits, claim, PaddingContents::kRowIndependent));
    const Tensor x = Ones(3, 3);
    Lease lease;
    for (int i = 0; i < 2; ++i)
      lease = *copy.session->Run(CallOn(copy, x));
    const Tensor y = lease.Read(device_.stream())->output(0);
    const std::string text = copy.session->Explain(CallOn(copy, y)).text;
    EXPECT_THAT(text, HasSubstr(said));
    EXPECT_THAT(text, Not(HasSubstr("padding: 'n'")));
  }
}

}  // namespace
}  // namespace coppice
