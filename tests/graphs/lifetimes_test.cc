// Goal: what lease.h says of parts of a lease, and call.h and program.h of donated ones. Method:
// programs of several outputs on the emulator, whose plans tell what they went around; values by
// the host, in every way to run.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr int64_t kTensorElements = 256;  // Of every tensor: 1 KiB.
constexpr int64_t kTensorBytes = kTensorElements * static_cast<int64_t>(sizeof(float));

class LifetimesTest : public SessionFixture {
 protected:
  static ProgramSpec SpecOf(std::string name, int inputs, int outputs) {
    ProgramSpec spec{.name = std::move(name), .claim = Claim::kExact, .one_stream = true};
    for (int i = 0; i < inputs; ++i)
      spec.inputs.push_back({.name = fmt::format("x{}", i), .dims = {Dim::Fixed(kTensorElements)}});
    for (int i = 0; i < outputs; ++i)
      spec.outputs.push_back(
          {.name = fmt::format("y{}", i), .dims = {Dim::Fixed(kTensorElements)}});
    return spec;
  }

  // Output i is i + 1 times the input.
  const Program* AddForward(Session& session, int outputs) {
    return *session.Register(
        SpecOf("forward", 1, outputs), [this, outputs](CallContext& context) -> absl::Status {
          for (int i = 0; i < outputs; ++i) {
            COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(i));
            COPPICE_RETURN_IF_ERROR(
                Scale(context, context.input(0).data, y.data, static_cast<float>(i + 1)));
          }
          return absl::OkStatus();
        });
  }

  // Output i is twice input i, which is freed as soon as it was read.
  const Program* AddBackward(Session& session, int count) {
    return *session.Register(
        SpecOf("backward", count, count), [this, count](CallContext& context) -> absl::Status {
          for (int i = 0; i < count; ++i) {
            const DeviceAddress x = context.input(i).data;
            COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(i));
            COPPICE_RETURN_IF_ERROR(Scale(context, x, y.data, 2));
            COPPICE_RETURN_IF_ERROR(context.Free(x));
          }
          return absl::OkStatus();
        });
  }

  absl::Status Scale(CallContext& context, DeviceAddress x, DeviceAddress y, float factor) const {
    return Launch(context.driver(), kernels_.scale, context.stream(),
                  ScaleParams{.x = PointerAt<float>(x),
                              .y = PointerAt<float>(y),
                              .count = kTensorElements,
                              .factor = factor},
                  GridFor(kTensorElements));
  }

  Tensor Upload(float value) {
    uploads_.push_back(*device_.Upload(std::vector<float>(kTensorElements, value)));
    const int64_t dims[] = {kTensorElements};
    return Tensor::Dense(uploads_.back().address(), DType::kFloat32, dims);
  }
  coppice::Call CallOf(const Program* program, std::span<const Tensor> inputs) const {
    return {.program = program, .inputs = inputs, .stream = device_.stream()};
  }

  // Output `index` of a lease, as a tensor to pass on.
  Tensor OutputOf(const Lease& lease, int index) const {
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    return scope.ok() ? scope->output(index) : Tensor();
  }
  std::vector<Tensor> OutputsOf(const std::vector<Lease>& parts) const {
    std::vector<Tensor> tensors;
    for (const Lease& part : parts)
      tensors.push_back(OutputOf(part, part.part()));
    return tensors;
  }
  void ExpectValues(const Lease& lease, int index, float value) {
    const Tensor tensor = OutputOf(lease, index);
    EXPECT_EQ(device_.Download<float>(tensor.data, kTensorElements),
              std::vector<float>(kTensorElements, value))
        << "output " << index;
  }

  // The last graph of the program.
  static NodeInfo NodeOf(const Session& session, const std::string& program) {
    NodeInfo found;
    for (const NodeInfo& node : session.nodes())
      if (node.program == program && node.recorded) found = node;
    return found;
  }

  // Runs the program until it replays, and returns that call's lease.
  Lease Replayed(Session& session, const coppice::Call& call) {
    for (int i = 0; i < 2; ++i)
      EXPECT_OK(session.Run(call));
    absl::StatusOr<Lease> lease = session.Run(call);
    EXPECT_OK(lease);
    EXPECT_EQ(lease->kind(), RunKind::kReplay);
    return *std::move(lease);
  }
};

using SplitTest = LifetimesTest;

TEST_F(SplitTest, EachPartShowsItsOutputAndIsKeptByItself) {
  const std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 3);
  const Tensor x = Upload(5);
  Lease lease = Replayed(*session, CallOf(forward, {&x, 1}));
  EXPECT_EQ(lease.part(), -1);
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  ASSERT_THAT(parts, SizeIs(3));
  EXPECT_EQ(lease.call_number(), 0U) << "it is empty";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(parts[static_cast<size_t>(i)].part(), i);
    EXPECT_EQ(parts[static_cast<size_t>(i)].kind(), RunKind::kReplay);
    ExpectValues(parts[static_cast<size_t>(i)], i, static_cast<float>(5 * (i + 1)));
  }
  const Lease moved = std::move(parts[2]);
  EXPECT_EQ(moved.part(), 2);
  parts.clear();
  ExpectValues(moved, 2, 15);
}

TEST_F(SplitTest, BytesOfADroppedPartServeTheNextCallAndOthersAreLeftAlone) {
  const std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 4);
  const Program* backward = AddBackward(*session, 1);
  const Tensor x = Upload(5);
  for (int i = 0; i < 4; ++i) {
    Lease lease = Replayed(*session, CallOf(forward, {&x, 1}));
    COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
    parts[1].Release();
    parts[2].Release();
    const Tensor read = OutputOf(parts[0], 0);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session->Run(CallOf(backward, {&read, 1})));
    ExpectValues(made, 0, 10);
    ExpectValues(parts[0], 0, 5);
    ExpectValues(parts[3], 3, 20);
  }
  const NodeInfo node = NodeOf(*session, "backward");
  EXPECT_EQ(node.around_bytes, 2 * kTensorBytes);
  EXPECT_EQ(node.plan_height, 4 * kTensorBytes) << "the output lies where a part was dropped";
}

TEST_F(SplitTest, OutputOfADroppedPartIsStaleAsAnInput) {
  const std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 2);
  const Tensor x = Upload(5);
  Lease lease = Replayed(*session, CallOf(forward, {&x, 1}));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  const std::vector<Tensor> outputs = OutputsOf(parts);
  parts[1].Release();
  EXPECT_THAT(session->Run(CallOf(forward, {&outputs[1], 1})).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(session->Run(CallOf(forward, {outputs.data(), 1})));
}

TEST_F(SplitTest, OutputsOfARunWithoutAGraphAreGivenBackOneByOne) {
  const std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 3);
  const Tensor x = Upload(5);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(CallOf(forward, {&x, 1})));
  EXPECT_EQ(lease.kind(), RunKind::kWarmUp);
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  EXPECT_EQ(session->memory().usage().eager_live, 3 * kTensorBytes);
  parts[0].Release();
  parts[1].Release();
  session->SetStance(Stance::kEager);
  { COPPICE_ASSERT_OK_AND_ASSIGN(const Lease sweeps, session->Run(CallOf(forward, {&x, 1}))); }
  ASSERT_OK(session->Run(CallOf(AddBackward(*session, 0), {})));
  EXPECT_EQ(session->memory().usage().eager_live, kTensorBytes);
  std::vector<Lease> later;
  for (int i = 0; i < 4; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease next, session->Run(CallOf(forward, {&x, 1})));
    later.push_back(std::move(next));
    ExpectValues(parts[2], 2, 15);
  }
  for (const Lease& each : later)
    ExpectValues(each, 1, 10);
}

TEST_F(SplitTest, StaticOutputKeepsNoBytesOfARunWithoutAGraph) {
  const std::unique_ptr<Session> session = MakeSession();
  ProgramSpec spec = SpecOf("bound", 1, 2);
  spec.outputs[1].role = OutputRole::kStatic;
  const Program* bound = *session->Register(spec, [this](CallContext& context) -> absl::Status {
    for (int i = 0; i < 2; ++i) {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(i));
      COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, y.data, 2));
    }
    return absl::OkStatus();
  });
  const Tensor place = Upload(0);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* binding, session->Bind(*bound, {&place, 1}));
  const Tensor x = Upload(5);
  coppice::Call call = CallOf(bound, {&x, 1});
  call.binding = binding;
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(call));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  EXPECT_EQ(session->memory().usage().eager_live, kTensorBytes);
  parts[0].Release();
  EXPECT_EQ(session->memory().usage().eager_live, 0);
  ExpectValues(parts[1], 1, 10);
}

TEST_F(SplitTest, PartThatKeepsNoMemoryOfTheSessionStandsInNobodysWay) {
  const std::unique_ptr<Session> session = MakeSession();
  ProgramSpec spec = SpecOf("bound", 1, 2);
  spec.outputs[1].role = OutputRole::kStatic;
  const Program* bound = *session->Register(spec, [this](CallContext& context) -> absl::Status {
    for (int i = 0; i < 2; ++i) {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(i));
      COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, y.data, 2));
    }
    return absl::OkStatus();
  });
  const Tensor place = Upload(0);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* binding, session->Bind(*bound, {&place, 1}));
  const Tensor x = Upload(5);
  coppice::Call call = CallOf(bound, {&x, 1});
  call.binding = binding;
  Lease lease = Replayed(*session, call);
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  ASSERT_OK(device_.Synchronize());
  EXPECT_THAT(session->memory().Suspend({.refuse_leases = true}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  parts[0].Release();
  ASSERT_OK(session->memory().Suspend({.refuse_leases = true}));
  ASSERT_OK(session->memory().Resume());
}

TEST_F(SplitTest, NextReplayBehindDroppedPartsHasALeaseOfItsOwn) {
  const std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 2);
  const Tensor x = Upload(5);
  Lease lease = Replayed(*session, CallOf(forward, {&x, 1}));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  parts.clear();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease kept, session->Run(CallOf(forward, {&x, 1})));
  const Tensor read = OutputOf(kept, 1);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease child, session->Run(CallOf(forward, {&read, 1})));
  ExpectValues(kept, 0, 5);
  ExpectValues(kept, 1, 10);
  ExpectValues(child, 1, 20);
}

TEST_F(SplitTest, OfAnEmptyLeaseOrAPartOrBehindItsSessionIsRefused) {
  std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 2);
  const Tensor x = Upload(5);
  Lease empty;
  EXPECT_THAT(empty.Split(), StatusIs(absl::StatusCode::kFailedPrecondition));
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(CallOf(forward, {&x, 1})));
  COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
  EXPECT_THAT(parts[0].Split(), StatusIs(absl::StatusCode::kFailedPrecondition));
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease late, session->Run(CallOf(forward, {&x, 1})));
  session.reset();
  EXPECT_THAT(late.Split(), StatusIs(absl::StatusCode::kFailedPrecondition));
  parts.clear();  // Behind their session.
}

TEST_F(SplitTest, PartsAreDroppedOnAnyThread) {
  const std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 4);
  const Tensor x = Upload(5);
  for (int round = 0; round < 20; ++round) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(CallOf(forward, {&x, 1})));
    COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
    std::vector<std::thread> threads;
    for (Lease& part : parts)
      threads.emplace_back([part = std::move(part)]() mutable { part.Release(); });
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease meanwhile, session->Run(CallOf(forward, {&x, 1})));
    ExpectValues(meanwhile, 3, 20);
    for (std::thread& thread : threads)
      thread.join();
  }
}

TEST_F(SplitTest, ScopeOfAPartShowsNoOtherOutput) {
  const std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 2);
  const Tensor x = Upload(5);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(CallOf(forward, {&x, 1})));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<Lease> parts, lease.Split());
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, parts[1].Read(device_.stream()));
  EXPECT_EQ(scope.output(1).rank, 1);
  EXPECT_DEATH((void)scope.output(0), "the part of another output");
}

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
  const std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 4);
  const Program* backward = AddBackward(*session, 2);
  const Tensor x = Upload(3);
  for (int i = 0; i < 6; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(CallOf(forward, {&x, 1})));
    COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
    const std::vector<Tensor> outputs = OutputsOf(parts);
    const std::vector<Tensor> inputs = {outputs[1], outputs[2]};
    coppice::Call call = CallOf(backward, inputs);
    call.donated = std::span(parts).subspan(1, 2);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session->Run(call));
    ExpectValues(made, 0, 12);
    ExpectValues(made, 1, 18);
    ExpectValues(parts[0], 0, 3);
    ExpectValues(parts[3], 3, 12);
    EXPECT_EQ(parts[1].call_number(), 0U);
    EXPECT_EQ(parts[2].call_number(), 0U);
  }
  EXPECT_EQ(NodeOf(*session, "backward").around_bytes, 2 * kTensorBytes);
}

TEST_F(DonatedTest, WhatIsGivenAwayButNotReadIsNobodys) {
  const std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 3);
  const Program* backward = AddBackward(*session, 1);
  const Tensor x = Upload(3);
  for (int i = 0; i < 5; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(CallOf(forward, {&x, 1})));
    const Tensor read = OutputOf(lease, 1);
    coppice::Call call = CallOf(backward, {&read, 1});
    call.donated = {&lease, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session->Run(call));
    ExpectValues(made, 0, 12);
  }
  EXPECT_EQ(NodeOf(*session, "backward").donated_bytes, kTensorBytes);
}

TEST_F(DonatedTest, InputThatIsNotFreedKeepsItsBytesToTheEnd) {
  const std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 1);
  const Program* keeps =
      *session->Register(SpecOf("keeps", 1, 2), [this](CallContext& context) -> absl::Status {
        for (int i = 0; i < 2; ++i) {
          COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(i));
          COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, y.data, 2));
        }
        return absl::OkStatus();
      });
  const Tensor x = Upload(3);
  for (int i = 0; i < 5; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(CallOf(forward, {&x, 1})));
    const Tensor read = OutputOf(lease, 0);
    coppice::Call call = CallOf(keeps, {&read, 1});
    call.donated = {&lease, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session->Run(call));
    ExpectValues(made, 1, 6);
  }
  EXPECT_EQ(NodeOf(*session, "keeps").plan_height, 3 * kTensorBytes);
}

TEST_F(DonatedTest, BytesThatAnotherLeaseShowsStayWhereTheyAre) {
  const std::unique_ptr<Session> session = MakeSession();
  const Program* twice =
      *session->Register(SpecOf("twice", 1, 2), [this](CallContext& context) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
        COPPICE_RETURN_IF_ERROR(Scale(context, context.input(0).data, y.data, 3));
        return context.AliasOutput(1, y.data);
      });
  const Program* backward = AddBackward(*session, 1);
  const Tensor x = Upload(1);
  for (int i = 0; i < 5; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(CallOf(twice, {&x, 1})));
    COPPICE_ASSERT_OK_AND_ASSIGN(std::vector<Lease> parts, lease.Split());
    const Tensor read = OutputOf(parts[0], 0);
    coppice::Call call = CallOf(backward, {&read, 1});
    call.donated = {parts.data(), 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session->Run(call));
    ExpectValues(made, 0, 6);
    ExpectValues(parts[1], 1, 3);
  }
  EXPECT_EQ(NodeOf(*session, "backward").donated_bytes, 0);
}

// Of a bucket that is larger, so that the input cannot be written where it lies.
TEST_F(DonatedTest, InputThatIsWrittenBackKeepsItsBytes) {
  const std::unique_ptr<Session> session = MakeSession();
  const auto define = [&](const char* name, bool mutated, float factor) {
    ProgramSpec spec{.name = name, .claim = Claim::kRowIndependent};
    const int n = spec.AddSymbol("n", *PaddingPolicy::Pow2(64));
    spec.inputs = {{.name = "x", .dims = {Dim::Symbol(n)}, .mutated = mutated}};
    spec.outputs = {{.name = "y", .dims = {Dim::Symbol(n)}}};
    return *session->Register(spec, [=, this](CallContext& context) -> absl::Status {
      const int64_t count = context.extent(0);
      const DeviceAddress x = context.input(0).data;
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      const auto scale = [&](DeviceAddress from, DeviceAddress to) {
        return Launch(context.driver(), kernels_.scale, context.stream(),
                      ScaleParams{.x = PointerAt<float>(from),
                                  .y = PointerAt<float>(to),
                                  .count = count,
                                  .factor = factor},
                      GridFor(count));
      };
      if (mutated) COPPICE_RETURN_IF_ERROR(scale(x, x));
      return scale(x, y.data);
    });
  };
  const Program* makes = define("makes", false, 1);
  const Program* writes = define("writes", true, 2);
  uploads_.push_back(*device_.Upload(Ramp(33)));
  const int64_t dims[] = {33};
  const Tensor x = Tensor::Dense(uploads_.back().address(), DType::kFloat32, dims);
  for (int i = 0; i < 5; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(CallOf(makes, {&x, 1})));
    const Tensor read = OutputOf(lease, 0);
    coppice::Call call = CallOf(writes, {&read, 1});
    call.donated = {&lease, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session->Run(call));
    std::vector<float> expected = Ramp(33);
    for (float& value : expected)
      value *= 4;
    EXPECT_EQ(Read(made), expected);
  }
}

TEST_F(DonatedTest, OutputThatAliasesADonatedInputKeepsItsBytes) {
  const std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 1);
  const Program* passes =
      *session->Register(SpecOf("passes", 1, 3), [this](CallContext& context) -> absl::Status {
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
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(CallOf(forward, {&x, 1})));
    const Tensor read = OutputOf(lease, 0);
    coppice::Call call = CallOf(passes, {&read, 1});
    call.donated = {&lease, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session->Run(call));
    ExpectValues(made, 0, 3);
    ExpectValues(made, 2, 6);
  }
}

TEST_F(DonatedTest, CallThatFailsBeforeItsGraphLeavesTheLeasesAsTheyWere) {
  const std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 1);
  const Program* backward = AddBackward(*session, 1);
  const Tensor x = Upload(3);
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(CallOf(forward, {&x, 1})));
  const Tensor read = OutputOf(lease, 0);
  coppice::Call call = CallOf(backward, {&read, 1});
  call.donated = {&lease, 1};
  call.stream = nullptr;
  EXPECT_FALSE(session->Run(call).ok());
  call.stream = device_.stream();
  session->SetStance(Stance::kStrict);
  EXPECT_FALSE(session->Run(call).ok());
  ExpectValues(lease, 0, 3);
  const Explanation said = session->Explain(call);
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
    EXPECT_THAT(session->Run(call).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  call.donated = {};
  COPPICE_ASSERT_OK_AND_ASSIGN(Lease read, session->Run(call));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, read.Read(device_.stream()));
  call.donated = {&read, 1};
  EXPECT_THAT(session->Run(call).status(), StatusIs(absl::StatusCode::kFailedPrecondition));
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
      ProgramSpec spec{.name = fmt::format("p{}", i), .claim = Claim::kExact, .one_stream = true};
      spec.inputs = {{.name = "x", .dims = {Dim::Fixed(read)}}};
      spec.outputs = {{.name = "y", .dims = {Dim::Fixed(sizes.back())}}};
      // A temporary of the first element, as long as the output; then the output.
      programs.push_back(*session->Register(
          spec, [this, count = sizes.back()](CallContext& context) -> absl::Status {
            const DeviceAddress x = context.input(0).data;
            COPPICE_ASSIGN_OR_RETURN(const DeviceAddress t,
                                     context.Allocate(count * static_cast<int64_t>(sizeof(float))));
            COPPICE_RETURN_IF_ERROR(
                Launch(context.driver(), kernels_.fill, context.stream(),
                       FillParams{.target = PointerAt<float>(t), .count = count, .value = 2},
                       GridFor(count)));
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

TEST_F(DonatedTest, FreeOfAnInputIsOnceAndOfACopiedOne) {
  const std::unique_ptr<Session> session = MakeSession();
  ProgramSpec spec = SpecOf("frees", 1, 0);
  spec.inputs.push_back(
      {.name = "w", .dims = {Dim::Fixed(kTensorElements)}, .role = InputRole::kStatic});
  const Program* frees = *session->Register(spec, [](CallContext& context) -> absl::Status {
    EXPECT_THAT(context.Free(context.input(1).data), StatusIs(absl::StatusCode::kInvalidArgument));
    COPPICE_RETURN_IF_ERROR(context.Free(context.input(0).data));
    return context.Free(context.input(0).data);
  });
  const Tensor w = Upload(1);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* binding, session->Bind(*frees, {&w, 1}));
  const Tensor x = Upload(3);
  coppice::Call call = CallOf(frees, {&x, 1});
  call.binding = binding;
  const absl::Status twice = session->Run(call).status();
  EXPECT_THAT(twice, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(twice.ToString(), HasSubstr("no copied input"));
}

TEST_F(DonatedTest, ForkedProgramKeepsAnInputUntilAllThatMayReadItIsOver) {
  const std::unique_ptr<Session> session = MakeSession();
  const Program* forward = AddForward(*session, 1);
  const Stream side = *Stream::Create(device_.driver());
  const Event fork = *Event::Create(device_.driver());
  const Event join = *Event::Create(device_.driver());
  ProgramSpec spec = SpecOf("forks", 1, 2);
  spec.one_stream = false;
  const Program* forks = *session->Register(spec, [&, this](CallContext& context) -> absl::Status {
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
    COPPICE_ASSERT_OK_AND_ASSIGN(Lease lease, session->Run(CallOf(forward, {&x, 1})));
    const Tensor read = OutputOf(lease, 0);
    coppice::Call call = CallOf(forks, {&read, 1});
    call.donated = {&lease, 1};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease made, session->Run(call));
    ExpectValues(made, 0, 6);
    ExpectValues(made, 1, 9);
  }
}

}  // namespace
}  // namespace coppice
