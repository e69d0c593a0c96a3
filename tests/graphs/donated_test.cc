// Goal: what call.h and program.h say of leases that a call is given. Method: plans tell how high
// they are and what they went around; values by the host, in every way to run.

#include "tests/graphs/lifetimes_fixture.h"

namespace coppice {
namespace {

class DonatedTest : public LifetimesTest {
 protected:
  static constexpr int kSaved = 16;
};

// What torch's backward does: it frees what the forward saved as it goes, so that 16 gradients need
// hardly more than the 16 tensors they come from.
TEST_F(DonatedTest, BackwardWritesItsGradientsOverWhatTheForwardSaved) {
  for (const bool donate : {false, true}) {
    const std::unique_ptr<Session> session = MakeSession();
    const Program* forward = AddForward(*session, kSaved);
    const Program* backward = AddBackward(*session, kSaved);
    for (int i = 0; i < 5; ++i) {
      const Tensor x = Upload(static_cast<float>(i));
      COPPICE_ASSERT_OK_AND_ASSIGN(Lease saved, session->Run(CallOf(forward, {&x, 1})));
      std::vector<Tensor> inputs;
      for (int index = 0; index < kSaved; ++index)
        inputs.push_back(OutputOf(saved, index));
      coppice::Call call = CallOf(backward, inputs);
      if (donate) call.donated = {&saved, 1};
      COPPICE_ASSERT_OK_AND_ASSIGN(const Lease gradients, session->Run(call));
      EXPECT_EQ(saved.call_number() == 0, donate) << "it is empty once it was given away";
      for (int index = 0; index < kSaved; ++index)
        ExpectValues(gradients, index, static_cast<float>(2 * i * (index + 1)));
      EXPECT_EQ(gradients.kind() == RunKind::kReplay, i >= 2) << NameOf(gradients.kind());
    }
    const NodeInfo node = NodeOf(*session, "backward");
    EXPECT_EQ(node.donated_bytes, donate ? kSaved * kTensorBytes : 0);
    EXPECT_EQ(node.around_bytes, donate ? 0 : kSaved * kTensorBytes);
    if (donate) {
      EXPECT_LE(node.plan_height, 18 * kTensorBytes);
    } else {
      EXPECT_EQ(node.plan_height, 32 * kTensorBytes);
    }
  }
}

TEST_F(DonatedTest, PartsAreGivenAwayAndOthersKept) {
  const Program* forward = AddForward(*session_, 4);
  const Program* backward = AddBackward(*session_, 2);
  const Tensor x = Upload(3);
  for (int i = 0; i < 6; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(forward, {&x, 1})));
    COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
    const std::vector<Tensor> outputs = OutputsOf(parts);
    const std::vector<Tensor> inputs = {outputs[1], outputs[2]};
    coppice::Call call = CallOf(backward, inputs);
    call.donated = std::span(parts).subspan(1, 2);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session_->Run(call));
    ExpectValues(made, 0, 12);
    ExpectValues(made, 1, 18);
    ExpectValues(parts[0], 0, 3);
    ExpectValues(parts[3], 3, 12);
    EXPECT_EQ(parts[1].call_number(), 0U);
    EXPECT_EQ(parts[2].call_number(), 0U);
  }
  EXPECT_EQ(NodeOf(*session_, "backward").around_bytes, 2 * kTensorBytes);
}

TEST_F(DonatedTest, WhatIsGivenAwayButNotReadIsNobodys) {
  const Program* forward = AddForward(*session_, 3);
  const Program* backward = AddBackward(*session_, 1);
  const Tensor x = Upload(3);
  for (int i = 0; i < 5; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(forward, {&x, 1})));
    const Tensor read = OutputOf(lease, 1);
    coppice::Call call = CallOf(backward, {&read, 1});
    call.donated = {&lease, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session_->Run(call));
    ExpectValues(made, 0, 12);
  }
  EXPECT_EQ(NodeOf(*session_, "backward").donated_bytes, kTensorBytes);
}

TEST_F(DonatedTest, InputThatIsNotFreedKeepsItsBytesToTheEnd) {
  const Program* forward = AddForward(*session_, 1);
  const Program* keeps =
      *session_->Register(SpecOf("keeps", 1, 2), [this](CallContext& context) -> absl::Status {
        for (int i = 0; i < 2; ++i) {
          COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(i));
          COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, y.data, 2));
        }
        return absl::OkStatus();
      });
  const Tensor x = Upload(3);
  for (int i = 0; i < 5; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(forward, {&x, 1})));
    const Tensor read = OutputOf(lease, 0);
    coppice::Call call = CallOf(keeps, {&read, 1});
    call.donated = {&lease, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session_->Run(call));
    ExpectValues(made, 1, 6);
  }
  EXPECT_EQ(NodeOf(*session_, "keeps").plan_height, 3 * kTensorBytes);
}

TEST_F(DonatedTest, BytesThatAnotherLeaseShowsStayWhereTheyAre) {
  const Program* twice =
      *session_->Register(SpecOf("twice", 1, 2), [this](CallContext& context) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
        COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, y.data, 3));
        return context.AliasOutput(1, y.data);
      });
  const Program* backward = AddBackward(*session_, 1);
  const Tensor x = Upload(1);
  for (int i = 0; i < 5; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(twice, {&x, 1})));
    COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
    const Tensor read = OutputOf(parts[0], 0);
    coppice::Call call = CallOf(backward, {&read, 1});
    call.donated = {parts.data(), 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session_->Run(call));
    ExpectValues(made, 0, 6);
    ExpectValues(parts[1], 1, 3);
  }
  EXPECT_EQ(NodeOf(*session_, "backward").donated_bytes, 0);
}

// Of a bucket that is larger, so that the input cannot be written where it lies.
TEST_F(DonatedTest, InputThatIsWrittenBackKeepsItsBytes) {
  const auto define = [&](const char* name, bool mutated, float factor) {
    ProgramSpec spec{.name = name, .claim = PaddingContents::kRowIndependent};
    const int n = spec.AddSymbol("n", *PaddingPolicy::Pow2(64));
    spec.inputs = {{.name = "x", .dims = {Dim::Symbol(n)}, .mutated = mutated}};
    spec.outputs = {{.name = "y", .dims = {Dim::Symbol(n)}}};
    return *session_->Register(spec, [=, this](CallContext& context) -> absl::Status {
      const int64_t count = context.extent(0);
      const DeviceAddress x = context.input(0).data;
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      const auto scale = [&](DeviceAddress from, DeviceAddress to) {
        return LaunchScale(context, from, to, count, factor);
      };
      if (mutated) COPPICE_RETURN_IF_ERROR(scale(x, x));
      return scale(x, y.data);
    });
  };
  const Program* makes = define("makes", false, 1);
  const Program* writes = define("writes", true, 2);
  uploads_.push_back(*device_.Upload(Ramp(33)));
  const Tensor x = FloatsAt(uploads_.back().address(), 33);
  for (int i = 0; i < 5; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(makes, {&x, 1})));
    const Tensor read = OutputOf(lease, 0);
    coppice::Call call = CallOf(writes, {&read, 1});
    call.donated = {&lease, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session_->Run(call));
    std::vector<float> expected = Ramp(33);
    for (float& value : expected)
      value *= 4;
    EXPECT_EQ(Read(made), expected);
  }
}

TEST_F(DonatedTest, OutputThatAliasesADonatedInputKeepsItsBytes) {
  const Program* forward = AddForward(*session_, 1);
  const Program* passes =
      *session_->Register(SpecOf("passes", 1, 3), [this](CallContext& context) -> absl::Status {
        const DeviceAddress x = context.input(0).data;
        COPPICE_RETURN_IF_ERROR(context.AliasOutput(0, x));
        for (int i = 1; i < 3; ++i) {
          COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(i));
          COPPICE_RETURN_IF_ERROR(Scale(context, x, y.data, 2));
          if (i == 1) COPPICE_RETURN_IF_ERROR(context.Free(x));
        }
        return absl::OkStatus();
      });
  const Tensor x = Upload(3);
  for (int i = 0; i < 5; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(forward, {&x, 1})));
    const Tensor read = OutputOf(lease, 0);
    coppice::Call call = CallOf(passes, {&read, 1});
    call.donated = {&lease, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session_->Run(call));
    ExpectValues(made, 0, 3);
    ExpectValues(made, 2, 6);
  }
}

TEST_F(DonatedTest, CallThatFailsBeforeItsGraphLeavesTheLeasesAsTheyWere) {
  const Program* forward = AddForward(*session_, 1);
  const Program* backward = AddBackward(*session_, 1);
  const Tensor x = Upload(3);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(forward, {&x, 1})));
  const Tensor read = OutputOf(lease, 0);
  coppice::Call call = CallOf(backward, {&read, 1});
  call.donated = {&lease, 1};
  call.stream = nullptr;
  EXPECT_FALSE(session_->Run(call).ok());
  call.stream = device_.stream();
  session_->SetStance(Stance::kStrict);
  EXPECT_FALSE(session_->Run(call).ok());
  ExpectValues(lease, 0, 3);
  const Explanation said = session_->Explain(call);
  EXPECT_FALSE(said.status.ok());
  ExpectValues(lease, 0, 3);
}

TEST_F(DonatedTest, LeasesThatCannotBeGivenAwayAreRefused) {
  const std::unique_ptr<Session> session = MakeSession({.lanes = 2});
  const std::unique_ptr<Session> other = MakeSession();
  const Program* forward = AddForward(*session, 1);
  const Program* elsewhere = AddForward(*other, 1);
  const Tensor x = Upload(3);
  coppice::Call call = CallOf(forward, {&x, 1});
  Lease empty;
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease of_other, other->Run(CallOf(elsewhere, {&x, 1})));
  coppice::Call on_lane = call;
  on_lane.lane = 1;
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease of_lane, session->Run(on_lane));
  for (Lease* lease : {&empty, &of_other, &of_lane}) {
    call.donated = {lease, 1};
    EXPECT_THAT(session->Run(call).status(), StatusIs(kWrongArgument));
  }
  call.donated = {};
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease read, session->Run(call));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, read.Read(device_.stream()));
  call.donated = {&read, 1};
  EXPECT_THAT(session->Run(call).status(), StatusIs(kRefused));
}

TEST_F(DonatedTest, BytesAreReadBeforeTheyAreFilledAsExpired) {
  const std::unique_ptr<Session> session = MakeSession({.checks = {.fill_expired = true}});
  const Program* forward = AddForward(*session, 4);
  const Program* backward = AddBackward(*session, 4);
  const Tensor x = Upload(3);
  for (int i = 0; i < 6; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease saved, session->Run(CallOf(forward, {&x, 1})));
    std::vector<Tensor> inputs;
    for (int index = 0; index < 4; ++index)
      inputs.push_back(OutputOf(saved, index));
    coppice::Call call = CallOf(backward, inputs);
    call.donated = {&saved, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session->Run(call));
    for (int index = 0; index < 4; ++index)
      ExpectValues(made, index, static_cast<float>(6 * (index + 1)));
  }
}

// Each of a chain's calls reads the output of the one before at its beginning, and gives it away:
// the most that is ever live are two outputs.
TEST_F(DonatedTest, ChainOfCallsThatGiveTheirInputsAwayIsHardlyHigherThanWhatIsLive) {
  constexpr int kChains = 20;
  constexpr int kCalls = 8;
  std::mt19937_64 random(TestSeed());
  double sum = 0;
  for (int chain = 0; chain < kChains; ++chain) {
    const std::unique_ptr<Session> session = MakeSession();
    std::vector<const Program*> programs;
    std::vector<int64_t> sizes = {kTensorElements};
    int64_t live = 0;
    for (int i = 0; i < kCalls; ++i) {
      const int64_t read = sizes.back();
      sizes.push_back(64 * std::uniform_int_distribution<int64_t>(1, 64)(random));
      const int64_t own = i == 0 ? 0 : read;
      live = std::max(live, (own + 2 * sizes.back()) * static_cast<int64_t>(sizeof(float)));
      ProgramSpec spec{.name = fmt::format("p{}", i), .claim = std::nullopt, .one_stream = true};
      spec.inputs = {{.name = "x", .dims = {Dim::Fixed(read)}}};
      spec.outputs = {{.name = "y", .dims = {Dim::Fixed(sizes.back())}}};
      // A temporary of the first element, as long as the output; then the output.
      programs.push_back(*session->Register(
          spec, [this, count = sizes.back()](CallContext& context) -> absl::Status {
            const DeviceAddress x = context.input(0).data;
            COPPICE_ASSIGN_OR_RETURN(const DeviceAddress t,
                                     context.Allocate(count * static_cast<int64_t>(sizeof(float))));
            COPPICE_RETURN_IF_ERROR(LaunchFill(context, t, count, 2));
            COPPICE_RETURN_IF_ERROR(AddOnto(context, x, t, t, 1));
            COPPICE_RETURN_IF_ERROR(context.Free(x));
            COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
            COPPICE_RETURN_IF_ERROR(AddOnto(context, t, t, y.data, count));
            return context.Free(t);
          }));
    }
    for (int pass = 0; pass < 4; ++pass) {
      COPPICE_ASSERT_OK_AND_ASSIGN(const ChainScope scope, session->Chain());
      Tensor x = Upload(1);
      Lease held;
      float first = 1;
      for (const Program* program : programs) {
        coppice::Call call = CallOf(program, {&x, 1});
        if (held.call_number() != 0) call.donated = {&held, 1};
        absl::StatusOr<Lease> lease = session->Run(call);
        ASSERT_OK(lease);
        held = *std::move(lease);
        x = OutputOf(held, 0);
        first = 2 * (first + 2);
        const std::vector<float> values = device_.Download<float>(x.data, x.element_count());
        ASSERT_EQ(values[0], first);
        ASSERT_EQ(values.back(), x.element_count() == 1 ? first : 4);
      }
    }
    sum += static_cast<double>(session->memory().usage().height) / static_cast<double>(live);
  }
  EXPECT_LE(sum / kChains, 1.01);
}

TEST_F(DonatedTest, OneTensorAsTwoInputsIsFreedInAnyOrder) {
  const Program* forward = AddForward(*session_, 1);
  const Program* sums =
      *session_->Register(SpecOf("sums", 2, 1), [this](CallContext& context) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
        COPPICE_RETURN_IF_ERROR(AddOnto(context, context.input(0).data, context.input(1).data,
                                        y.data, kTensorElements));
        COPPICE_RETURN_IF_ERROR(context.Free(context.input(1).data));
        return context.Free(context.input(0).data);
      });
  const Tensor x = Upload(3);
  RunKind last = RunKind::kEager;
  for (int i = 0; i < 5; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(forward, {&x, 1})));
    const Tensor read = OutputOf(lease, 0);
    const std::vector<Tensor> inputs = {read, read};
    coppice::Call call = CallOf(sums, inputs);
    call.donated = {&lease, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session_->Run(call));
    ExpectValues(made, 0, 6);
    last = made.kind();
  }
  EXPECT_EQ(last, RunKind::kReplay);
}

TEST_F(DonatedTest, FreeOfAnInputIsOnceAndOfACopiedOne) {
  ProgramSpec spec = SpecOf("frees", 1, 0);
  spec.inputs.push_back(
      {.name = "w", .dims = {Dim::Fixed(kTensorElements)}, .role = InputRole::kStatic});
  const Program* frees = *session_->Register(spec, [](CallContext& context) -> absl::Status {
    EXPECT_THAT(context.Free(context.input(1).data), StatusIs(kWrongArgument));
    COPPICE_RETURN_IF_ERROR(context.Free(context.input(0).data));
    return context.Free(context.input(0).data);
  });
  const Tensor w = Upload(1);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* binding, session_->Bind(*frees, {&w, 1}));
  const Tensor x = Upload(3);
  coppice::Call call = CallOf(frees, {&x, 1});
  call.binding = binding;
  EXPECT_THAT(session_->Run(call), StatusIs(kWrongArgument, HasSubstr("no copied input")));
}

TEST_F(DonatedTest, ForkedProgramKeepsAnInputUntilAllThatMayReadItIsOver) {
  const Program* forward = AddForward(*session_, 1);
  const Stream side = *Stream::Create(device_.driver());
  const Event fork = *Event::Create(device_.driver());
  const Event join = *Event::Create(device_.driver());
  ProgramSpec spec = SpecOf("forks", 1, 2);
  spec.one_stream = false;
  const Program* forks = *session_->Register(spec, [&, this](CallContext& context) -> absl::Status {
    const Driver& driver = context.driver();
    const DeviceAddress x = context.input(0).data;
    COPPICE_RETURN_IF_ERROR(
        driver.Call<&DriverTable::EventRecord>(fork.handle(), context.stream()));
    COPPICE_RETURN_IF_ERROR(
        driver.Call<&DriverTable::StreamWaitEvent>(side.handle(), fork.handle(), 0U));
    COPPICE_ASSIGN_OR_RETURN(const Tensor first, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(Launch(driver, kernels_.scale, side.handle(),
                                   ScaleParams{.x = PointerAt<float>(x),
                                               .y = PointerAt<float>(first.data),
                                               .count = kTensorElements,
                                               .factor = 2},
                                   GridFor(kTensorElements)));
    COPPICE_RETURN_IF_ERROR(context.Free(x));
    // Beside the reader of x, as far as the graph says.
    COPPICE_ASSIGN_OR_RETURN(const Tensor second, context.AllocateOutput(1));
    COPPICE_RETURN_IF_ERROR(Launch(
        driver, kernels_.fill, context.stream(),
        FillParams{.target = PointerAt<float>(second.data), .count = kTensorElements, .value = 9},
        GridFor(kTensorElements)));
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::EventRecord>(join.handle(), side.handle()));
    return driver.Call<&DriverTable::StreamWaitEvent>(context.stream(), join.handle(), 0U);
  });
  const Tensor x = Upload(3);
  for (int i = 0; i < 6; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session_->Run(CallOf(forward, {&x, 1})));
    const Tensor read = OutputOf(lease, 0);
    coppice::Call call = CallOf(forks, {&read, 1});
    call.donated = {&lease, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session_->Run(call));
    ExpectValues(made, 0, 6);
    ExpectValues(made, 1, 9);
  }
}

}  // namespace
}  // namespace coppice
