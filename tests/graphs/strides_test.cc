// Goal: what program.h says of strides: of copied, static and written inputs, of outputs, and of
// what a caller may pass. Method: a program that doubles what lies between its first and last
// element, so that it computes the same whatever the order in memory; values by row and column.

#include <tuple>

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

using Matrix = std::vector<std::vector<float>>;

class StridesTest : public SessionFixture {
 protected:
  static constexpr int64_t kColumns = 3;
  static constexpr int64_t kRowsMost = 16;

  // y = 2 x, both [n, kColumns] with these strides of y and x.
  static ProgramSpec TurnSpec(Dims in, Dims out) {
    ProgramSpec spec{.name = "turn", .claim = PaddingContents::kRowIndependent};
    const int n = spec.AddSymbol("n", *PaddingPolicy::Pow2(kRowsMost));
    const Dims dims = {Dim::Symbol(n), Dim::Fixed(kColumns)};
    spec.inputs = {{.name = "x", .dims = dims, .strides = std::move(in)}};
    spec.outputs = {{.name = "y", .dims = dims, .strides = std::move(out)}};
    return spec;
  }
  static Dims ByColumn() { return {Dim::Fixed(1), Dim::Symbol(0)}; }

  absl::Status Double(CallContext& context, const Tensor& x, const Tensor& y) const {
    EXPECT_EQ(x.strides, y.strides);
    return LaunchScale(context, x.data, y.data, x.span(), 2);
  }
  Callable Doubled() const {
    return [this](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      return Double(context, context.input(0), y);
    };
  }

  static Matrix Numbers(int64_t rows, float factor = 1) {
    Matrix matrix(static_cast<size_t>(rows));
    float next = 1;
    for (std::vector<float>& row : matrix) {
      for (int64_t column = 0; column < kColumns; ++column)
        row.push_back(factor * next++);
    }
    return matrix;
  }

  // A tensor of these strides in memory of its own, 7 where no element lies.
  Tensor Place(const Matrix& matrix, std::array<int64_t, 2> strides) {
    const std::array<int64_t, 2> dims = {std::ssize(matrix), kColumns};
    Tensor tensor = Tensor::Dense(0, DType::kFloat32, dims);
    std::copy(strides.begin(), strides.end(), tensor.strides.begin());
    std::vector<float> values(static_cast<size_t>(std::max<int64_t>(tensor.span(), 1)), 7);
    for (int64_t i = 0; i < dims[0]; ++i) {
      for (int64_t j = 0; j < kColumns; ++j)
        values[static_cast<size_t>(i * strides[0] + j * strides[1])] =
            matrix[static_cast<size_t>(i)][static_cast<size_t>(j)];
    }
    uploads_.push_back(*device_.Upload(values));
    tensor.data = uploads_.back().address();
    return tensor;
  }

  Matrix Rows(const Tensor& tensor) const {
    const std::vector<float> values = device_.Download<float>(tensor.data, tensor.span());
    Matrix matrix(static_cast<size_t>(tensor.sizes[0]));
    for (int64_t i = 0; i < tensor.sizes[0]; ++i) {
      for (int64_t j = 0; j < tensor.sizes[1]; ++j)
        matrix[static_cast<size_t>(i)].push_back(
            values[static_cast<size_t>(i * tensor.strides[0] + j * tensor.strides[1])]);
    }
    return matrix;
  }

  Matrix RowsOf(const Lease& lease) {
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    return scope.ok() ? Rows(scope->output(0)) : Matrix();
  }

  coppice::Call CallOf(const Program* program, const Tensor& x) const {
    return {.program = program, .inputs = {&x, 1}, .stream = device_.stream()};
  }

  std::unique_ptr<Session> session_ = MakeSession();
};

TEST_F(StridesTest, CopiedInputsAndOutputsHaveTheSpecsStridesInEveryRun) {
  const std::vector<Dims> all = {
      {}, ByColumn(), {Dim::Fixed(kColumns), Dim::Fixed(1)}, {Dim::Fixed(8), Dim::Fixed(2)}};
  for (size_t i = 0; i < all.size(); ++i) {
    ProgramSpec spec = TurnSpec(all[i], all[i]);
    spec.variant = std::to_string(i);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program,
                                 session_->Register(std::move(spec), Doubled()));
    for (const int64_t rows : {5, 5, 5, 6, 8, 20, 1, 1, 1, 0}) {
      for (const auto& strides :
           {std::array<int64_t, 2>{kColumns, 1}, {1, rows + 1}, {10, 3}, {kColumns, 0}}) {
        Matrix numbers = Numbers(rows);
        const Tensor x = Place(numbers, strides);
        numbers = Rows(x);  // A stride of 0 keeps the last column.
        for (std::vector<float>& row : numbers) {
          for (float& value : row)
            value *= 2;
        }
        COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(CallOf(program, x)));
        EXPECT_EQ(RowsOf(lease), numbers) << rows << " rows, " << NameOf(lease.kind());
      }
    }
  }
  EXPECT_GT(session_->stats().runs[static_cast<size_t>(RunKind::kReplay)], 0);
}

TEST_F(StridesTest, OutputOfThePathIsReadInPlaceIfItHasTheStridesThatAreWanted) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* turned,
                               session_->Register(TurnSpec(ByColumn(), ByColumn()), Doubled()));
  ProgramSpec spec = TurnSpec({}, {});
  spec.name = "straight";
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* straight,
                               session_->Register(std::move(spec), Doubled()));
  const Tensor x = Place(Numbers(8), {kColumns, 1});
  for (const Program* reader : {turned, straight}) {
    int64_t in_place = 0;
    for (int i = 0; i < 4; ++i) {
      COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session_->Run(CallOf(turned, x)));
      Tensor output;
      {
        COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, made.Read(device_.stream()));
        output = scope.output(0);
      }
      in_place = session_->stats().inputs_in_place;
      COPPICE_ASSERT_OK_AND_ASSIGN(const Lease read, session_->Run(CallOf(reader, output)));
      in_place = session_->stats().inputs_in_place - in_place;
      EXPECT_EQ(RowsOf(read), Numbers(8, 4));
    }
    EXPECT_EQ(in_place, reader == turned ? 1 : 0);
  }
}

TEST_F(StridesTest, CopiedOutOutputsHaveTheStridesOfTheirRealSizes) {
  const std::unique_ptr<Session> session = MakeSession({.memory = {.copy_out_bytes = 4 * kKiB}});
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Program* program, session->Register(TurnSpec({}, ByColumn()), [](CallContext& context) {
        return context.AllocateOutput(0).status();
      }));
  const Tensor x = Place(Numbers(5), {kColumns, 1});
  for (int i = 0; i < 3; ++i) {
    coppice::Call call = CallOf(program, x);
    call.output_mode = OutputMode::kCopyOut;
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session->Run(call));
    if (lease.kind() != RunKind::kReplay) continue;
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
    EXPECT_EQ(scope.output(0).strides[0], 1);
    EXPECT_EQ(scope.output(0).strides[1], 5);
  }
}

TEST_F(StridesTest, TargetsMayHaveAnyStridesThatKeepTheirElementsApart) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program,
                               session_->Register(TurnSpec({}, {}), Doubled()));
  const Tensor x = Place(Numbers(5), {kColumns, 1});
  coppice::Call call = CallOf(program, x);
  call.output_mode = OutputMode::kWriteInto;
  for (const auto& strides : {std::array<int64_t, 2>{kColumns, 1}, {1, 5}, {1, 8}, {9, 2}}) {
    for (int i = 0; i < 3; ++i) {
      const Tensor target = Place(Numbers(5, 0), strides);
      call.targets = {&target, 1};
      ASSERT_OK(session_->Run(call));
      EXPECT_EQ(Rows(target), Numbers(5, 2));
      const std::vector<float> all = device_.Download<float>(target.data, target.span());
      EXPECT_EQ(std::ranges::count(all, 7.0F), target.span() - 5 * kColumns) << "between elements";
    }
  }
  Tensor target = Place(Numbers(5), {kColumns, 1});
  call.targets = {&target, 1};
  for (const auto& strides : {std::array<int64_t, 2>{0, 1}, {1, 1}, {2, 1}, {-3, 1}}) {
    std::copy(strides.begin(), strides.end(), target.strides.begin());
    EXPECT_THAT(session_->Run(call).status(), StatusIs(kWrongArgument));
  }
}

TEST_F(StridesTest, WrittenInputIsWrittenBackWithTheCallersStrides) {
  ProgramSpec spec = TurnSpec(ByColumn(), {});
  spec.inputs[0].mutated = true;
  spec.outputs.clear();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program,
                               session_->Register(std::move(spec), [this](CallContext& context) {
                                 return Double(context, context.input(0), context.input(0));
                               }));
  for (const auto& strides : {std::array<int64_t, 2>{kColumns, 1}, {1, 5}, {1, 8}, {9, 2}}) {
    for (int i = 0; i < 3; ++i) {
      const Tensor x = Place(Numbers(5), strides);
      ASSERT_OK(session_->Run(CallOf(program, x)));
      EXPECT_EQ(Rows(x), Numbers(5, 2));
    }
  }
  Tensor x = Place(Numbers(5), {kColumns, 1});
  x.strides[0] = 0;
  EXPECT_THAT(session_->Run(CallOf(program, x)),
              StatusIs(kWrongArgument, HasSubstr("written back")));
}

TEST_F(StridesTest, StaticInputsAndOutputsAreBoundWithTheSpecsStrides) {
  const Dims dims = {Dim::Fixed(4), Dim::Fixed(kColumns)};
  const Dims turned = {Dim::Fixed(1), Dim::Fixed(4)};
  ProgramSpec spec{.name = "turn", .claim = std::nullopt};
  spec.inputs = {{.name = "w", .dims = dims, .strides = turned, .role = InputRole::kStatic}};
  spec.outputs = {{.name = "y", .dims = dims, .strides = turned, .role = OutputRole::kStatic}};
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session_->Register(spec, Doubled()));
  const Tensor y = Place(Numbers(4, 0), {1, 4});
  const Tensor straight = Place(Numbers(4), {kColumns, 1});
  EXPECT_THAT(session_->Bind(*program, std::vector<Tensor>{straight, y}).status(),
              StatusIs(kWrongArgument));
  // The second one misses its alignment, so that every call copies it.
  Tensor shifted = Place(Numbers(5), {1, 4});
  shifted.data += sizeof(float);
  shifted.sizes[0] = 4;
  for (const Tensor& w : {Place(Numbers(4), {1, 4}), shifted}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* binding,
                                 session_->Bind(*program, std::vector<Tensor>{w, y}));
    Matrix expected = Rows(w);
    for (std::vector<float>& row : expected) {
      for (float& value : row)
        value *= 2;
    }
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(
          session_->Run({.program = program, .binding = binding, .stream = device_.stream()}));
      EXPECT_EQ(Rows(y), expected);
    }
  }
}

TEST_F(StridesTest, StaticInputThatRepeatsElementsIsReadAndNeverCopied) {
  ProgramSpec spec{.name = "first", .claim = std::nullopt};
  spec.inputs = {{.name = "w",
                  .dims = {Dim::Fixed(4), Dim::Fixed(kColumns)},
                  .strides = {Dim::Fixed(0), Dim::Fixed(1)},
                  .role = InputRole::kStatic}};
  spec.outputs = {{.name = "y", .dims = {Dim::Fixed(kColumns)}}};
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Program* program,
      session_->Register(spec, [this](CallContext& context) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
        EXPECT_EQ(context.input(0).strides[0], 0);
        return AddOnto(context, context.input(0).data, context.input(0).data, y.data, kColumns);
      }));
  Tensor w = Place(Numbers(4), {kColumns, 1});
  w.strides[0] = 0;
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* binding, session_->Bind(*program, {&w, 1}));
  for (int i = 0; i < 3; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const Lease lease,
        session_->Run({.program = program, .binding = binding, .stream = device_.stream()}));
    EXPECT_EQ(Read(lease), (std::vector<float>{2, 4, 6}));
  }
  w.data += sizeof(float);
  EXPECT_THAT(session_->Bind(*program, {&w, 1}),
              StatusIs(kWrongArgument, HasSubstr("elements overlap")));
}

// At the largest bucket, which a spec is checked at, rows are as far apart as they are long.
TEST_F(StridesTest, StridesThatPutElementsOntoEachOtherAreRefusedWhereTheyDo) {
  const auto spec_of = [](const char* name, Dims in, Dims out) {
    ProgramSpec spec{.name = name, .claim = std::nullopt};
    const int n = spec.AddSymbol("n", *PaddingPolicy::Exact(16));
    const Dims dims = {Dim::Fixed(4), Dim::Symbol(n)};
    spec.inputs = {{.name = "x", .dims = dims, .strides = std::move(in)}};
    spec.outputs = {{.name = "y", .dims = dims, .strides = std::move(out)}};
    return spec;
  };
  const Dims apart = {Dim::Symbol(0), Dim::Fixed(1)};
  const Dims close = {Dim::Fixed(16), Dim::Fixed(1)};
  for (const bool input : {false, true}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const Program* program,
        session_->Register(
            spec_of(input ? "in" : "out", input ? close : apart, input ? apart : close),
            [](CallContext& context) { return context.AllocateOutput(0).status(); }));
    for (const int64_t n : {16, 17}) {
      const std::array<int64_t, 2> dims = {4, n};
      uploads_.push_back(*device_.Upload(Ramp(4 * n)));
      const Tensor x = Tensor::Dense(uploads_.back().address(), DType::kFloat32, dims);
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(session_->Explain(CallOf(program, x)).status.ok(), n == 16);
        const absl::Status status = session_->Run(CallOf(program, x)).status();
        EXPECT_EQ(status.ok(), n == 16) << status;
        EXPECT_TRUE(status.ok() || status.ToString().find("elements overlap") != std::string::npos);
      }
    }
  }
}

// A call that is padded and one that is not must not differ in whether they run.
TEST_F(StridesTest, StridesMustKeepElementsApartAtTheCallsExtentsAndItsBuckets) {
  ProgramSpec spec{.name = "wide", .claim = PaddingContents::kRowIndependent};
  const int m = spec.AddSymbol("m", *PaddingPolicy::List(std::vector<int64_t>{4}, 4));
  const Dims dims = {Dim::Fixed(2), Dim::Fixed(4)};
  spec.inputs = {{.name = "x", .dims = {Dim::Symbol(m)}},
                 {.name = "w", .dims = dims, .strides = {Dim::Symbol(m), Dim::Fixed(1)}}};
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session_->Register(spec, [](CallContext&) {
    return absl::OkStatus();
  }));
  uploads_.push_back(*device_.Upload(Ramp(8)));
  const DeviceAddress data = uploads_.back().address();
  for (const int64_t extent : {4, 2, 4, 2}) {
    const Tensor inputs[] = {Tensor::Dense(data, DType::kFloat32, std::array<int64_t, 1>{extent}),
                             Tensor::Dense(data, DType::kFloat32, std::array<int64_t, 2>{2, 4})};
    const coppice::Call call{.program = program, .inputs = inputs, .stream = device_.stream()};
    EXPECT_EQ(session_->Explain(call).status.ok(), extent == 4);
    EXPECT_EQ(session_->Run(call).ok(), extent == 4);
  }
}

// Of buckets 4, 8 and 16 the smallest puts rows onto each other; a spec is checked at the largest.
TEST_F(StridesTest, EveryWayIntoASessionRefusesThem) {
  for (const bool input : {false, true}) {
    const std::unique_ptr<Session> session = MakeSession();
    ProgramSpec spec{.name = "wide", .claim = PaddingContents::kRowIndependent};
    const int m = spec.AddSymbol("m", *PaddingPolicy::Ramp(4, 16, 16));
    const Dims dims = {Dim::Fixed(2), Dim::Fixed(8)};
    const Dims close = {Dim::Symbol(m), Dim::Fixed(1)};
    spec.inputs = {{.name = "x", .dims = {Dim::Symbol(m)}},
                   {.name = "w", .dims = dims, .strides = input ? close : Dims{}}};
    spec.outputs = {{.name = "y", .dims = dims, .strides = input ? Dims{} : close}};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program,
                                 session->Register(spec, [](CallContext& context) {
                                   return context.AllocateOutput(0).status();
                                 }));
    uploads_.push_back(*device_.Upload(Ramp(16)));
    const DeviceAddress data = uploads_.back().address();
    const Tensor inputs[] = {Tensor::Dense(data, DType::kFloat32, std::array<int64_t, 1>{4}),
                             Tensor::Dense(data, DType::kFloat32, std::array<int64_t, 2>{2, 8})};
    const coppice::Call call{.program = program, .inputs = inputs, .stream = device_.stream()};
    const auto expect_refused = [&](const absl::Status& status, const char* where) {
      EXPECT_THAT(status, StatusIs(kWrongArgument, HasSubstr(where)));
      EXPECT_THAT(status.ToString(), HasSubstr(input ? "input 'w'" : "output 'y'"));
      EXPECT_THAT(status.ToString(), HasSubstr("strides [4, 1] for sizes [2, 8]"));
    };
    for (const Stance stance : {Stance::kRecord, Stance::kEager}) {
      session->SetStance(stance);
      expect_refused(session->Explain(call).status, "Session::Explain");
      expect_refused(session->Run(call).status(), "Session::Run");
      expect_refused(session->Include(call).status(), "Session::Include");
    }
    session->SetStance(Stance::kRecord);
    const auto warm = [&](int64_t bucket) {
      return session->warming().Warm(*program, nullptr, std::vector<std::vector<int64_t>>{{bucket}},
                                     {}, {});
    };
    const auto warm_chain = [&](int64_t bucket) {
      const WarmStep steps[] = {{.program = program, .bucket = {bucket}}};
      return session->warming().Warm(steps, {});
    };
    expect_refused(warm(4), "Session::Warm");
    expect_refused(warm_chain(4), "Session::Warm");
    EXPECT_TRUE(session->nodes().empty());
    EXPECT_OK(warm(8));
    EXPECT_OK(warm_chain(16));
    EXPECT_EQ(session->nodes().size(), 2U);
  }
}

// Rows of w are 8 apart: in the bucket of 16 that the other rank is in, too close.
TEST_F(StridesTest, BucketThatRanksAgreeOnIsCheckedAsWell) {
  SessionOptions options;
  options.ranks.vote = [](RankVote& vote) {
    vote.unanimous = vote.bucket[0] == 16;
    vote.bucket[0] = 16;
    return absl::OkStatus();
  };
  const std::unique_ptr<Session> session = MakeSession(options);
  ProgramSpec spec{.name = "wide", .claim = PaddingContents::kRowIndependent};
  const int m = spec.AddSymbol("m", *PaddingPolicy::Pow2(16));
  spec.inputs = {{.name = "w",
                  .dims = {Dim::Fixed(2), Dim::Symbol(m)},
                  .strides = {spec.AddExtent("8 + 0 * m"), Dim::Fixed(1)}}};
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(spec, [](CallContext&) {
    return absl::OkStatus();
  }));
  uploads_.push_back(*device_.Upload(Ramp(6)));
  const Tensor w =
      Tensor::Dense(uploads_.back().address(), DType::kFloat32, std::array<int64_t, 2>{2, 3});
  EXPECT_OK(session->Explain(CallOf(program, w)).status);
  EXPECT_THAT(
      session->Run(CallOf(program, w)),
      StatusIs(kWrongArgument, HasSubstr("strides [8, 1] for sizes [2, 16] in the bucket")));
}

// Of n - m a bucket may have less than the call, and none at all over the largest.
TEST_F(StridesTest, CallThatNoBucketServesNeedsThemApartAtItsOwnExtentsAlone) {
  ProgramSpec spec{.name = "apart", .claim = PaddingContents::kRowIndependent};
  const int n = spec.AddSymbol("n", *PaddingPolicy::Pow2(16));
  const int m = spec.AddSymbol("m", *PaddingPolicy::Pow2(16));
  const Dims dims = {Dim::Fixed(2), Dim::Fixed(4)};
  const Dims strides = {spec.AddExtent("n - m"), Dim::Fixed(1)};
  spec.inputs = {{.name = "x", .dims = {Dim::Symbol(n)}},
                 {.name = "y", .dims = {Dim::Symbol(m)}},
                 {.name = "w", .dims = dims, .strides = strides}};
  spec.outputs = {{.name = "z", .dims = dims, .strides = strides}};
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Program* program,
      session_->Register(spec, [this](CallContext& context) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(const Tensor z, context.AllocateOutput(0));
        return Double(context, context.input(2), z);
      }));
  uploads_.push_back(*device_.Upload(Ramp(32)));
  const DeviceAddress data = uploads_.back().address();
  for (const auto& [extent_n, extent_m, reason] :
       {std::tuple(16, 9, Reason::kUnpaddedExtent), {20, 9, Reason::kOverLargestBucket}}) {
    const Tensor inputs[] = {Tensor::Dense(data, DType::kFloat32, std::array<int64_t, 1>{extent_n}),
                             Tensor::Dense(data, DType::kFloat32, std::array<int64_t, 1>{extent_m}),
                             Tensor::Dense(data, DType::kFloat32, std::array<int64_t, 2>{2, 4})};
    const coppice::Call call{.program = program, .inputs = inputs, .stream = device_.stream()};
    EXPECT_OK(session_->Explain(call).status);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, session_->Run(call));
    EXPECT_EQ(lease.reason(), reason);
    EXPECT_EQ(RowsOf(lease), (Matrix{{2, 4, 6, 8}, {10, 12, 14, 16}}));
  }
}

TEST_F(StridesTest, MoreBytesThanAnyDeviceHasAreRefused) {
  ProgramSpec spec{.name = "huge", .claim = std::nullopt};
  for (int i = 0; i < 20; ++i)
    spec.inputs.push_back(
        {.name = "x" + std::to_string(i), .dims = {Dim::Fixed(int64_t{1} << 58)}});
  spec.outputs = {{.name = "y", .dims = {Dim::Fixed(std::numeric_limits<int64_t>::max() / 4)}}};
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program,
                               session_->Register(spec, [](CallContext& context) {
                                 return context.AllocateOutput(0).status();
                               }));
  uploads_.push_back(*device_.Upload(Ramp(1)));
  Tensor x = Tensor::Dense(uploads_.back().address(), DType::kFloat32,
                           std::array<int64_t, 1>{int64_t{1} << 58});
  x.strides[0] = 0;
  const std::vector<Tensor> inputs(20, x);
  EXPECT_THAT(
      session_->Run({.program = program, .inputs = inputs, .stream = device_.stream()}).status(),
      StatusIs(kExhausted));
}

}  // namespace
}  // namespace coppice
