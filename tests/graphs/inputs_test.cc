// Goal: inputs of every layout are taken, what a program writes to them is where its caller looks
// for it and nowhere else, and a lease tells its number and orders who releases it. Method: small
// programs on the emulator in every way to run; values are compared with sums made on the host, and
// unordered accesses are the emulator's to find.

#include "tests/graphs/sketch.h"

namespace coppice {
namespace {

class InputsTest : public testing::Test, protected SketchDevice {
 protected:
  std::unique_ptr<Session> session_ = MakeSession({.memory = {.copy_out_bytes = 4 * kKiB}});
};

TEST_F(InputsTest, TensorsOfNoBytesComeAndGo) {
  const Sketched empty = Define(
      *session_,
      [this](CallContext& context) -> absl::Status {
        COPPICE_RETURN_IF_ERROR(MakeOutput(context, 0, 1).status());
        COPPICE_RETURN_IF_ERROR(context.AllocateOutput(1).status());
        return context.AliasOutput(2, context.input(0).data);
      },
      3, [](ProgramSpec& spec) { spec.outputs[1].dims = {Dim::Fixed(0)}; });
  for (int i = 0; i < 4; ++i) {
    for (const int64_t n : {0, 6}) {
      const Input x = n == 0 ? Input{.tensor = FloatsAt(0, 0)} : Upload(n, i);
      COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(empty, x));
      made.values = {Sum(x.values, 1), {}, x.values};
      ExpectFresh(made);
      const Input nothing = InputFrom(made, 1);
      COPPICE_ASSERT_OK_AND_ASSIGN(Made child, RunSketch(empty, nothing));
      child.values = {{}, {}, {}};
      ExpectFresh(child);
    }
  }
}

TEST_F(InputsTest, InputsOfStrideZeroRepeatTheirElement) {
  const Sketched program = Define(*session_, Plus(2));
  for (const int64_t n : {10, 11, 12, 600}) {
    Input x = Upload(1, 41);
    x.tensor.sizes[0] = n;
    x.tensor.strides[0] = 0;
    x.values = Values(static_cast<size_t>(n), 41);
    COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(program, x));
    made.values = {Sum(x.values, 2)};
    ExpectFresh(made);
  }
}

// Elements 1 and on of an input, which is aligned to four bytes and no more.
template <typename Input>
Input Misaligned(Input input) {
  input.tensor.data += sizeof(float);
  input.tensor.sizes[0] -= 1;
  input.values.erase(input.values.begin());
  return input;
}

TEST_F(InputsTest, MisalignedCopiedInputsAreStagedFromTheCallerAndFromThePath) {
  const Sketched parent = Draw(*session_, {.name = "parent", .steps = {Output()}});
  const Sketched child = Define(*session_, [this](CallContext& context) {
    EXPECT_EQ(context.input(0).data % kBufferAlignment, 0U);
    return MakeOutput(context, 0, 2).status();
  });
  for (int i = 0; i < 4; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(parent, Misaligned(Upload(21, 1000 * i))));
    ExpectFresh(made);
    const Input x = Misaligned(InputFrom(made));
    COPPICE_ASSERT_OK_AND_ASSIGN(Made next, RunSketch(child, x));
    next.values = {Sum(x.values, 2)};
    ExpectFresh(next);
  }
}

TEST_F(InputsTest, InputsThatLieWhereNoneCanAreRefusedByTheirCall) {
  const Sketched program = Define(*session_, Plus(2));
  const Input whole = Upload(16, 0);
  const auto refused = [&](DeviceAddress data, int64_t count, int64_t stride) {
    Input x{.tensor = FloatsAt(data, count), .values = {}};
    x.tensor.strides[0] = stride;
    return RunSketch(program, x).status().code() == kWrongArgument;
  };
  EXPECT_TRUE(refused(whole.tensor.data + 2, 4, 1)) << "half an element";
  EXPECT_TRUE(refused(whole.tensor.data, 4, int64_t{1} << 62)) << "behind all addresses";
  EXPECT_TRUE(refused(whole.tensor.data, 4, -(int64_t{1} << 60))) << "before all addresses";
  const DeviceAddress window = session_->memory().window(0, MemoryKind::kPlan).base;
  EXPECT_TRUE(refused(window + 8, 4, -1)) << "out of the session's memory, from its fourth element";
  EXPECT_TRUE(refused(window, 4, -1)) << "out of the session's memory";
}

TEST_F(InputsTest, NegativeStridesReadBackwards) {
  const Sketched program = Define(*session_, Plus(2));
  for (const int64_t n : {10, 11, 12, 600}) {
    Input x = Upload(n, 7);
    x.tensor.data += static_cast<DeviceAddress>((n - 1) * kFloat);
    x.tensor.strides[0] = -1;
    std::ranges::reverse(x.values);
    COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(program, x));
    made.values = {Sum(x.values, 2)};
    ExpectFresh(made);
  }
}

TEST_F(InputsTest, StridesThatLeaveTheLeasedOutputAreStale) {
  const Sketched large = Draw(*session_, {.name = "large", .steps = {Output()}});
  for (int i = 0; i < 3; ++i)
    ASSERT_OK(RunSketch(large, Upload(600, 0)));
  const Sketched small = Draw(*session_, {.name = "small", .steps = {Output()}});
  for (int i = 0; i < 3; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Made made, RunSketch(small, Upload(64, 0)));
    Input x = InputFrom(made);
    x.tensor.data += 200 * kFloat;
    x.tensor.sizes[0] = 180;
    x.tensor.strides[0] = -1;
    EXPECT_THAT(RunSketch(large, x), StatusIs(kRefused)) << "of which the last lie in the output";
  }
}

TEST_F(InputsTest, ScopeOfAnotherStreamDoesNotOrderACallOnAnotherLane) {
  session_ = MakeSession({.lanes = 2});
  const Sketched program = Draw(*session_, {.name = "program", .steps = {Output()}});
  const Stream reader = *Stream::Create(device_.driver());
  COPPICE_ASSERT_OK_AND_ASSIGN(const Made made, RunSketch(program, Upload(12, 0)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, made.lease.Read(reader.handle()));
  const auto on = [](const Stream& stream) {
    return [&stream](coppice::Call& call) {
      call.lane = 1;
      call.stream = stream.handle();
    };
  };
  const Stream other = *Stream::Create(device_.driver());
  EXPECT_THAT(RunSketch(program, InputFrom(made), on(other)), StatusIs(kRefused));
  EXPECT_OK(RunSketch(program, InputFrom(made), on(reader)));
}

// y = x + w with a static w whose alignment is `alignment`.
class MisalignedStaticTest : public InputsTest {
 protected:
  static constexpr int64_t kElements = 1000;

  Sketched Biased(int64_t alignment, bool mutated) {
    return Define(
        *session_,
        [this](CallContext& context) -> absl::Status {
          COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
          return AddOnto(context, context.input(0).data, context.input(1).data, y.data,
                         context.extent(0));
        },
        1,
        [&](ProgramSpec& spec) {
          spec.inputs.push_back({.name = "w",
                                 .dims = {Dim::Fixed(kElements)},
                                 .role = InputRole::kStatic,
                                 .mutated = mutated,
                                 .alignment = alignment});
        });
  }
};

TEST_F(MisalignedStaticTest, IsCopiedByEveryCallAndThenNoPartOfTheKey) {
  const Sketched program = Biased(16, false);
  const Input w[] = {Misaligned(Upload(kElements + 1, 3)), Misaligned(Upload(kElements + 1, 7))};
  for (int round = 0; round < 3; ++round) {
    for (const Input& each : w) {
      const Binding* binding = *session_->Bind(*program.program, {&each.tensor, 1});
      const Input x = Upload(10, 100 * round);
      COPPICE_ASSERT_OK_AND_ASSIGN(
          Made made, RunSketch(program, x, [&](coppice::Call& call) { call.binding = binding; }));
      made.values = {x.values};
      for (size_t i = 0; i < x.values.size(); ++i)
        made.values[0][i] += each.values[i];
      ExpectFresh(made);
    }
  }
  EXPECT_EQ(session_->nodes().size(), 1U);
}

TEST_F(MisalignedStaticTest, OfASmallerAlignmentIsReadWhereItLies) {
  const Sketched program = Biased(4, false);
  const Input w = Misaligned(Upload(kElements + 1, 3));
  const Binding* binding = *session_->Bind(*program.program, {&w.tensor, 1});
  for (const int64_t n : {10, 11, 12, 600}) {
    const Input x = Upload(n, 50);
    COPPICE_ASSERT_OK_AND_ASSIGN(
        Made made, RunSketch(program, x, [&](coppice::Call& call) { call.binding = binding; }));
    made.values = {x.values};
    for (size_t i = 0; i < x.values.size(); ++i)
      made.values[0][i] += w.values[i];
    ExpectFresh(made);
  }
}

TEST_F(MisalignedStaticTest, IsRefusedIfTheProgramMutatesIt) {
  const Sketched program = Biased(16, true);
  const Input w = Misaligned(Upload(kElements + 1, 3));
  EXPECT_THAT(session_->Bind(*program.program, {&w.tensor, 1}), StatusIs(kWrongArgument));
}

// A program that makes y = x + 1 and then x = x + 10.
class MutatedInputTest : public InputsTest {
 protected:
  Sketched Mutating() {
    return Define(
        *session_,
        [this](CallContext& context) -> absl::Status {
          COPPICE_RETURN_IF_ERROR(MakeOutput(context, 0, 1).status());
          const Tensor& x = context.input(0);
          COPPICE_ASSIGN_OR_RETURN(const DeviceAddress copy,
                                   context.Allocate(x.element_count() * kFloat));
          const Tensor temporary = FloatsAt(copy, x.element_count());
          COPPICE_RETURN_IF_ERROR(FillBuffer(context, x, temporary, 10));
          COPPICE_RETURN_IF_ERROR(FillBuffer(context, temporary, x, 0));
          return context.Free(copy);
        },
        1, [](ProgramSpec& spec) { spec.inputs[0].mutated = true; });
  }

  const Sketched mutating_ = Mutating();
  const Sketched plain_ = Draw(*session_, {.name = "plain", .steps = {Output()}});
};

TEST_F(MutatedInputTest, StagedItIsCopiedBackAtItsRealExtentInEveryWay) {
  for (const int64_t n : {10, 11, 12, 600}) {
    const Input x = Upload(n + 1, 100);
    Input shorter = x;
    shorter.tensor.sizes[0] = n;
    shorter.values.pop_back();
    for (const OutputMode mode : {OutputMode::kBorrow, OutputMode::kCopyOut}) {
      if (mode == OutputMode::kCopyOut && n != 12) continue;
      COPPICE_ASSERT_OK_AND_ASSIGN(
          Made made,
          RunSketch(mutating_, shorter, [&](coppice::Call& call) { call.output_mode = mode; }));
      made.values = {Sum(shorter.values, 1)};
      ExpectFresh(made);
      shorter.values = Sum(shorter.values, 10);
      Values whole = shorter.values;
      whole.push_back(x.values.back());
      EXPECT_EQ(device_.Download<float>(x.tensor.data, n + 1), whole);
    }
  }
}

TEST_F(MutatedInputTest, StagedItMustKeepItsElementsApart) {
  Input x = Upload(20, 0);
  x.tensor.sizes[0] = 10;
  for (const int64_t stride : {0, -1}) {
    x.tensor.data += stride < 0 ? 9 * kFloat : 0;
    x.tensor.strides[0] = stride;
    EXPECT_THAT(RunSketch(mutating_, x), StatusIs(kWrongArgument));
  }
}

// Whether y sees what was written to x would depend on which of them are staged.
TEST_F(MutatedInputTest, ItSharesNoByteWithAnythingElseOfTheCall) {
  const Sketched two = Define(
      *session_,
      [this](CallContext& context) -> absl::Status {
        COPPICE_RETURN_IF_ERROR(FillBuffer(context, context.input(0), context.input(0), 1));
        COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
        return FillBuffer(context, context.input(1), y, 0);
      },
      1,
      [](ProgramSpec& spec) {
        spec.inputs[0].mutated = true;
        spec.inputs.push_back({.name = "other", .dims = spec.inputs[0].dims});
      });
  for (int i = 0; i < 4; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Made made, RunSketch(plain_, Upload(16, 100 * i)));
    const Input own = Upload(32, 0);
    for (const Tensor& x : {made.outputs[0], FloatsAt(own.tensor.data, 16)}) {
      Tensor behind = x;
      behind.data += 15 * kFloat;
      Tensor apart = Upload(16, 0).tensor;
      const auto run = [&](const Tensor& other) {
        const Tensor inputs[] = {x, other};
        return session_->Run({.program = two.program, .inputs = inputs, .stream = device_.stream()})
            .status();
      };
      EXPECT_THAT(run(x), StatusIs(kWrongArgument));
      if (x.data == own.tensor.data) {
        EXPECT_THAT(run(behind), StatusIs(kWrongArgument));
      }
      EXPECT_OK(run(apart));
    }
  }
}

TEST_F(MutatedInputTest, ItSharesNoByteWithATargetOrAStaticInput) {
  const Input room = Upload(64, 0);
  Input x{.tensor = FloatsAt(room.tensor.data, 16),
          .values = {room.values.begin(), room.values.begin() + 16}};
  const auto write = [&](DeviceAddress target) {
    const Tensor targets[] = {FloatsAt(target, 16)};
    return RunSketch(mutating_, x,
                     [&](coppice::Call& call) {
                       call.output_mode = OutputMode::kWriteInto;
                       call.targets = targets;
                     })
        .status();
  };
  EXPECT_THAT(write(x.tensor.data), StatusIs(kWrongArgument));
  EXPECT_THAT(write(x.tensor.data + 15 * kFloat), StatusIs(kWrongArgument));
  EXPECT_OK(write(x.tensor.data + 16 * kFloat));
  const Sketched biased = Define(*session_, Plus(1), 1, [](ProgramSpec& spec) {
    spec.inputs[0].mutated = true;
    spec.inputs.push_back({.name = "w", .dims = {Dim::Fixed(16)}, .role = InputRole::kStatic});
  });
  const auto run_beside = [&](DeviceAddress weights) {
    const Tensor w = FloatsAt(weights, 16);
    const Binding* binding = *session_->Bind(*biased.program, {&w, 1});
    return RunSketch(biased, x, [&](coppice::Call& call) { call.binding = binding; }).status();
  };
  EXPECT_THAT(run_beside(x.tensor.data), StatusIs(kWrongArgument));
  EXPECT_OK(run_beside(x.tensor.data + 32 * kFloat));
}

TEST_F(MutatedInputTest, InPlaceItsChangeIsSeenThroughTheParentsLease) {
  for (int i = 0; i < 4; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Made parent, RunSketch(plain_, Upload(16, 100 * i)));
    const int64_t in_place = session_->stats().inputs_in_place;
    COPPICE_ASSERT_OK_AND_ASSIGN(Made child, RunSketch(mutating_, InputFrom(parent)));
    EXPECT_EQ(session_->stats().inputs_in_place - in_place, i < 1 ? 0 : 1);
    child.values = {Sum(parent.values[0], 1)};
    parent.values = {Sum(parent.values[0], 10)};
    ExpectFresh(child);
    ExpectFresh(parent);
  }
}

// Whatever keeps the input from being read in place: it is padded, it is misaligned, the path has
// ended, or the call runs eagerly.
TEST_F(MutatedInputTest, OfAnEarlierOutputUnderAScopeItIsRefused) {
  for (int i = 0; i < 4; ++i) {
    for (const bool view : {false, true}) {
      COPPICE_ASSERT_OK_AND_ASSIGN(const Made parent, RunSketch(plain_, Upload(12, 100 * i)));
      const Input x = view ? Misaligned(InputFrom(parent)) : InputFrom(parent);
      for (const Stance stance : {Stance::kRecord, Stance::kEager}) {
        session_->SetStance(stance);
        COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, parent.lease.Read(device_.stream()));
        EXPECT_THAT(RunSketch(mutating_, x), StatusIs(kRefused)) << view;
        ExpectFresh(parent);
      }
      session_->SetStance(Stance::kRecord);
    }
  }
}

// A graph's own outputs may lie where the input lay; it must not be copied back over them.
TEST_F(MutatedInputTest, OfAnEarlierOutputItIsNeverCopiedBackOverTheCallsOwnOutputs) {
  for (int i = 0; i < 4; ++i) {
    for (const bool view : {false, true}) {
      COPPICE_ASSERT_OK_AND_ASSIGN(Made parent, RunSketch(plain_, Upload(12, 100 * i)));
      const Input x = view ? Misaligned(InputFrom(parent)) : InputFrom(parent);
      COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(mutating_, x));
      made.values = {Sum(x.values, 1)};
      ExpectFresh(made);
      const auto changed = parent.values[0].begin() + (view ? 1 : 0);
      std::for_each(changed, parent.values[0].end(), [](float& value) { value += 10; });
      ExpectFresh(parent);
    }
  }
}

TEST_F(MutatedInputTest, OfAPathThatHasEndedItIsRefused) {
  for (int i = 0; i < 2; ++i)
    ASSERT_OK(RunSketch(plain_, Upload(12, 0)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Made parent, RunSketch(plain_, Upload(12, 0)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ChainScope chain, session_->Chain());
  EXPECT_THAT(RunSketch(mutating_, InputFrom(parent)), StatusIs(kRefused));
  ExpectFresh(parent);
}

TEST_F(MutatedInputTest, OnAnotherLaneItIsRefusedEvenUnderAScope) {
  session_ = MakeSession({.lanes = 2});
  const Sketched plain = Draw(*session_, {.name = "plain", .steps = {Output()}});
  const Sketched mutating = Mutating();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Made parent, RunSketch(plain, Upload(12, 0)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, parent.lease.Read(device_.stream()));
  const auto on_lane_1 = [](coppice::Call& call) { call.lane = 1; };
  EXPECT_OK(RunSketch(plain, InputFrom(parent), on_lane_1));
  EXPECT_THAT(RunSketch(mutating, InputFrom(parent), on_lane_1), StatusIs(kRefused));
}

TEST_F(InputsTest, AnInputLargerThanTheOutputThatItBeginsInIsRefused) {
  const Sketched program = Draw(*session_, {.name = "p", .steps = {Output()}});
  for (int i = 0; i < 4; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Made made, RunSketch(program, Upload(16, 0)));
    Input x = InputFrom(made);
    x.tensor.sizes[0] = 65;
    EXPECT_THAT(RunSketch(program, x), StatusIs(kRefused));
  }
}

// Leases.

TEST_F(InputsTest, ReleaseOnAStreamOrdersTheLaneBehindItsReader) {
  const Sketched program = Draw(*session_, {.name = "p", .steps = {Output()}});
  const Stream reader = *Stream::Create(device_.driver());
  const DeviceMemory copy = *DeviceMemory::Create(device_.driver(), 40 * kFloat);
  for (int round = 0; round < 20; ++round) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(program, Upload(40, 100 * round)));
    // A raw pointer, ordered behind the call by a scope that has ended.
    ASSERT_OK(made.lease.Read(reader.handle()));
    ASSERT_OK(device_.driver().Call<&DriverTable::MemcpyDtoDAsync>(
        copy.address(), made.outputs[0].data, static_cast<size_t>(copy.bytes()), reader.handle()));
    ASSERT_OK(made.lease.Release(reader.handle()));
    EXPECT_EQ(made.lease.output_count(), 0);
    ASSERT_OK(RunSketch(program, Upload(40, -100)));
    ASSERT_OK(reader.Synchronize());
    EXPECT_EQ(device_.Download<float>(copy.address(), 40), made.values[0]) << "round " << round;
  }
}

TEST_F(InputsTest, ReleaseOnAStreamEmptiesTheLeaseWhateverItAnswers) {
  const Sketched program = Draw(*session_, {.name = "p", .steps = {Output()}});
  COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(program, Upload(600, 0)));
  EXPECT_FALSE(made.lease.Release(nullptr).ok()) << "no stream";
  EXPECT_EQ(made.lease.call_number(), 0U);
  EXPECT_EQ(session_->memory().usage().eager_live, 0);
}

TEST_F(InputsTest, CallNumbersCountTheCallsOfALaneHoweverTheyRun) {
  session_ = MakeSession({.lanes = 2});
  const Sketched program = Draw(*session_, {.name = "p", .steps = {Output(), Output()}});
  EXPECT_EQ(Lease().call_number(), 0U);
  uint64_t number = 0;
  for (const int64_t n : {10, 11, 12, 600, 12}) {
    EXPECT_FALSE(RunSketch(program, Input{.tensor = FloatsAt(0, 4)}).ok()) << "takes no number";
    COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(program, Upload(n, 0)));
    EXPECT_EQ(made.lease.call_number(), ++number);
    EXPECT_EQ(made.lease.output_count(), 2);
    EXPECT_EQ(made.outputs[1].made_by, number);
    made.lease.Release();
    EXPECT_EQ(made.lease.call_number(), 0U);
  }
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Made made,
      RunSketch(program, Upload(12, 0), [](coppice::Call& call) { call.lane = 1; }));
  EXPECT_EQ(made.lease.call_number(), 1U);
}

}  // namespace
}  // namespace coppice
