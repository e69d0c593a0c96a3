// Goal: outputs come back where the call's mode says, and an output that is another tensor's bytes
// keeps their value as long as its lease.
// Method: small programs on the emulator, each in all four ways to run: warm-up, record, replay and
// eager; values are compared with sums made on the host.

#include "tests/graphs/sketch.h"

namespace coppice {
namespace {

constexpr auto kNoMemory = absl::StatusCode::kResourceExhausted;

class OutputsTest : public testing::Test, protected SketchDevice {
 protected:
  using Adjust = std::function<void(coppice::Call&)>;

  // Runs the program until it replays, then beyond its largest bucket, and expects what `model`
  // makes of x each time, also after another program was staged where it was.
  void ExpectInEveryWay(const Sketched& program,
                        const std::function<std::vector<Values>(const Values& x)>& model,
                        const Adjust& adjust = nullptr) {
    const Sketched other = Define(*session_, Plus(9));
    for (const auto& [path, n] :
         {std::pair(RunKind::kWarmUp, 10), std::pair(RunKind::kRecord, 11),
          std::pair(RunKind::kReplay, 12), std::pair(RunKind::kEager, 600)}) {
      SCOPED_TRACE(NameOf(path));
      const Input x = Upload(n, 1000 * n);
      COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(program, x, adjust));
      EXPECT_EQ(made.lease.kind(), path);
      made.values = model(x.values);
      ExpectFresh(made);
      session_->SetStance(Stance::kEager);
      EXPECT_OK(RunSketch(other, Upload(n, 1)));
      session_->SetStance(Stance::kRecord);
      ExpectFresh(made);
    }
  }

  DeviceMemory Allocate(int64_t elements) {
    return *DeviceMemory::Create(device_.driver(), elements * kFloat);
  }

  std::unique_ptr<Session> session_ = MakeSession();
};

// Output modes.

class CopyOutTest : public OutputsTest {
 protected:
  static constexpr int64_t kSlot = 256;  // Bytes that a call of up to 64 elements copies out.
  static constexpr int64_t kSlots = 4;

  CopyOutTest() {
    session_ = MakeSession({.memory = {.copy_out_bytes = kSlots * kSlot}});
    program_.emplace(Draw(*session_, {.name = "p", .steps = {Output()}}));
    for (int i = 0; i < 2; ++i)
      EXPECT_OK(RunSketch(*program_, Upload(33, 0)));
  }

  static void CopyOut(coppice::Call& call) { call.output_mode = OutputMode::kCopyOut; }

  absl::StatusOr<Made> Copy(int64_t n = 40) {
    return RunSketch(*program_, Upload(n, first_ += 1000), CopyOut);
  }

  std::optional<Sketched> program_;
  int first_ = 0;
};

TEST_F(CopyOutTest, OutputsAreDenseInTheLanesRingAndOutliveLaterCalls) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Made made, Copy());
  EXPECT_EQ(made.lease.kind(), RunKind::kReplay);
  const std::optional<WindowInfo> place = session_->memory().Locate(made.outputs[0].data);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->kind, MemoryKind::kCopyOut);
  for (int i = 0; i < 3; ++i)
    ASSERT_OK(RunSketch(*program_, Upload(50, 0)));
  ExpectFresh(made);
}

TEST_F(CopyOutTest, CostsOneMoreDriverCallThanBorrowing) {
  const Input x = Upload(40, 0);
  const auto cost = [&](const Adjust& adjust) {
    const int64_t before = device_.ledger().calls();
    EXPECT_OK(RunSketch(*program_, x, adjust));
    return device_.ledger().calls() - before;
  };
  EXPECT_EQ(cost(CopyOut), cost(nullptr) + 1);
}

TEST_F(CopyOutTest, AFullRingIsAnErrorThatRunsNothingUntilTheOldestIsDropped) {
  std::vector<Made> held;
  for (int i = 0; i < kSlots; ++i)
    held.push_back(*Copy());
  const int64_t calls = session_->stats().calls;
  EXPECT_THAT(Copy(), StatusIs(kNoMemory));
  held.erase(held.begin() + 2);
  EXPECT_THAT(Copy(), StatusIs(kNoMemory)) << "not the oldest";
  EXPECT_EQ(session_->stats().calls, calls);
  held.erase(held.begin());
  held.push_back(*Copy());
  for (const Made& made : held)
    ExpectFresh(made);
}

TEST_F(CopyOutTest, MoreBytesThanTheRingHasNeverFit) {
  EXPECT_THAT(RunSketch(*program_, Upload(64 * kSlots, 0), CopyOut), IsOk()) << "a warm-up";
  EXPECT_THAT(Copy(64 * kSlots), IsOk());
  EXPECT_THAT(Copy(64 * kSlots), IsOk());
  for (int i = 0; i < 3; ++i)
    ASSERT_OK(RunSketch(*program_, Upload(64 * kSlots + 1, 0)));
  EXPECT_THAT(Copy(64 * kSlots + 1), StatusIs(kNoMemory));
}

TEST_F(CopyOutTest, HeldCopiesKeepTheirValuesInWhateverOrderOthersAreDropped) {
  std::mt19937_64 random(TestSeed());
  const auto below = [&](size_t end) {
    return std::uniform_int_distribution<size_t>(0, end - 1)(random);
  };
  for (const int64_t n : {64, 128, 256}) {
    for (int i = 0; i < 2; ++i)
      ASSERT_OK(RunSketch(*program_, Upload(n, 0)));
  }
  std::vector<Made> held;
  int refused = 0;
  for (int step = 0; step < 1000; ++step) {
    absl::StatusOr<Made> made = Copy(static_cast<int64_t>(1 + below(200)));
    if (made.ok()) {
      held.push_back(*std::move(made));
    } else {
      ASSERT_THAT(made, StatusIs(kNoMemory));
      ASSERT_FALSE(held.empty()) << "an empty ring has room";
      ++refused;
    }
    while (!held.empty() && below(3) > 0)
      held.erase(held.begin() + static_cast<ptrdiff_t>(below(held.size())));
    for (const Made& each : held)
      ExpectFresh(each);
    ASSERT_FALSE(HasFailure()) << "step " << step;
  }
  EXPECT_GT(refused, 0);
}

TEST_F(CopyOutTest, AProgramWithoutOutputsTakesNoRoom) {
  const Sketched none = Define(
      *session_, [](CallContext&) { return absl::OkStatus(); }, 0);
  std::vector<Lease> held;
  for (int i = 0; i < 10; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(none, Upload(5, 0), CopyOut));
    held.push_back(std::move(made.lease));
  }
  std::vector<Made> copies;
  for (int i = 0; i < kSlots; ++i)
    copies.push_back(*Copy());
}

TEST_F(CopyOutTest, WithoutARingItIsRefused) {
  session_ = MakeSession();
  program_.emplace(Draw(*session_, {.name = "p", .steps = {Output()}}));
  // On every path, so that nobody finds out at the first replay.
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Copy(), StatusIs(kNoMemory));
    ASSERT_OK(RunSketch(*program_, Upload(33, 0)));
  }
}

TEST_F(OutputsTest, WriteIntoFillsTheTargetsAtRealExtentsInEveryWay) {
  const Sketched program = Draw(*session_, {.name = "p", .steps = {Output(), Output()}});
  const DeviceMemory memory[] = {Allocate(1000), Allocate(1000)};
  for (const int64_t n : {10, 11, 12, 600}) {
    const Input x = Upload(n, static_cast<int>(1000 * n));
    for (const DeviceMemory& each : memory)
      ASSERT_OK(device_.Write(each.address(), Values(1000, -1)));
    const Tensor targets[] = {FloatsAt(memory[0].address(), n), FloatsAt(memory[1].address(), n)};
    COPPICE_ASSERT_OK_AND_ASSIGN(const Made made, RunSketch(program, x, [&](coppice::Call& call) {
                                   call.output_mode = OutputMode::kWriteInto;
                                   call.targets = targets;
                                 }));
    ExpectFresh(made);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(made.outputs[i].data, targets[i].data);
      EXPECT_EQ(device_.Download<float>(targets[i].data + static_cast<size_t>(n * kFloat), 1),
                Values{-1})
          << "behind the real extent";
    }
  }
}

TEST_F(OutputsTest, WriteIntoRefusesTargetsThatDoNotFit) {
  const Sketched program = Draw(*session_, {.name = "p", .steps = {Output(), Output()}});
  COPPICE_ASSERT_OK_AND_ASSIGN(const Made own, RunSketch(program, Upload(10, 0)));
  const DeviceMemory memory = Allocate(100);
  const Tensor right = FloatsAt(memory.address(), 10);
  const auto run = [&](std::span<const Tensor> targets) {
    return RunSketch(program, Upload(10, 0),
                     [&](coppice::Call& call) {
                       call.output_mode = OutputMode::kWriteInto;
                       call.targets = targets;
                     })
        .status();
  };
  const int64_t calls = session_->stats().calls;
  Tensor strided = right;
  strided.strides[0] = 2;
  Tensor integers = right;
  integers.dtype = DType::kInt32;
  const int64_t square[] = {2, 5};
  const char* const sizes = "does not have the dtype and the real sizes of the output";
  for (const auto& [wrong, why] : std::vector<std::pair<Tensor, const char*>>{
           {FloatsAt(memory.address(), 16), sizes},
           {FloatsAt(memory.address(), 9), sizes},
           {FloatsAt(0, 10), "has no memory"},
           {FloatsAt(memory.address() + 41, 10), "is not aligned to its element size"},
           {strided, "share bytes"},
           {integers, sizes},
           {own.outputs[0], "lies in the session's memory"},
           {Tensor::Dense(memory.address(), DType::kFloat32, square), sizes}}) {
    const Tensor targets[] = {right, wrong};
    EXPECT_THAT(run(targets), StatusIs(kWrongArgument, HasSubstr(why)));
  }
  EXPECT_THAT(run({&right, 1}), StatusIs(kWrongArgument)) << "one target for two outputs";
  EXPECT_EQ(session_->stats().calls, calls);
}

TEST_F(OutputsTest, StaticOutputsAreWrittenWhereTheyAreBoundInEveryMode) {
  session_ = MakeSession({.memory = {.copy_out_bytes = 4 * kKiB}});
  const Sketched program = Define(
      *session_,
      [this](CallContext& context) -> absl::Status {
        COPPICE_RETURN_IF_ERROR(MakeOutput(context, 0, 1).status());
        COPPICE_ASSIGN_OR_RETURN(const Tensor fixed, context.AllocateOutput(1));
        return FillBuffer(context, context.input(0), fixed, 2);
      },
      2,
      [](ProgramSpec& spec) {
        spec.outputs[1].dims = {Dim::Fixed(4)};
        spec.outputs[1].role = OutputRole::kStatic;
      });
  const DeviceMemory bound = Allocate(4);
  const DeviceMemory memory = Allocate(600);
  const Tensor fixed = FloatsAt(bound.address(), 4);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* binding,
                               session_->Bind(*program.program, {&fixed, 1}));
  int first = 0;
  for (const OutputMode mode :
       {OutputMode::kBorrow, OutputMode::kCopyOut, OutputMode::kWriteInto}) {
    for (const int64_t n : {10, 11, 12, 600}) {
      const Input x = Upload(n, first += 1000);
      const Tensor targets[] = {FloatsAt(memory.address(), n), Tensor{}};
      COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(program, x, [&](coppice::Call& call) {
                                     call.binding = binding;
                                     call.output_mode = mode;
                                     if (mode == OutputMode::kWriteInto) call.targets = targets;
                                   }));
      EXPECT_EQ(made.outputs[1].data, bound.address());
      const Values four(x.values.begin(), x.values.begin() + 4);
      made.values = {Sum(x.values, 1), Sum(four, 2)};
      ExpectFresh(made);
    }
  }
}

// Outputs that are other tensors' bytes.

TEST_F(OutputsTest, AnAliasOfAStaticInputIsThatInputsBytesAndAViewOfItToo) {
  const int64_t kElements = 1024;
  const Input w = Upload(kElements, 5);
  const Sketched program = Define(
      *session_,
      [](CallContext& context) -> absl::Status {
        COPPICE_RETURN_IF_ERROR(context.AliasOutput(0, context.input(1).data));
        return context.AliasOutput(1, context.input(1).data + 12);
      },
      2,
      [](ProgramSpec& spec) {
        spec.inputs.push_back(
            {.name = "w", .dims = {Dim::Fixed(kElements)}, .role = InputRole::kStatic});
      });
  const Binding* binding = *session_->Bind(*program.program, {&w.tensor, 1});
  ExpectInEveryWay(
      program,
      [&](const Values& x) {
        const auto n = static_cast<ptrdiff_t>(x.size());
        return std::vector<Values>{{w.values.begin(), w.values.begin() + n},
                                   {w.values.begin() + 3, w.values.begin() + 3 + n}};
      },
      [&](coppice::Call& call) { call.binding = binding; });
}

TEST_F(OutputsTest, AConstantOutsideTheSessionKeepsItsAddressAndValue) {
  const Input constant = Upload(1024, 77);
  const Sketched program = Define(*session_, [&](CallContext& context) {
    return context.AliasOutput(0, constant.tensor.data);
  });
  ExpectInEveryWay(program, [&](const Values& x) {
    return std::vector<Values>{
        {constant.values.begin(), constant.values.begin() + static_cast<ptrdiff_t>(x.size())}};
  });
}

TEST_F(OutputsTest, AnAliasOfAStagedInputIsCopiedOnce) {
  const Sketched program = Define(
      *session_,
      [this](CallContext& context) -> absl::Status {
        COPPICE_RETURN_IF_ERROR(context.AliasOutput(0, context.input(0).data));
        COPPICE_RETURN_IF_ERROR(MakeOutput(context, 1, 1).status());
        return context.AliasOutput(2, context.input(0).data);
      },
      3);
  ExpectInEveryWay(program, [](const Values& x) { return std::vector<Values>{x, Sum(x, 1), x}; });
  COPPICE_ASSERT_OK_AND_ASSIGN(const Made made, RunSketch(program, Upload(12, 0)));
  EXPECT_EQ(made.lease.kind(), RunKind::kReplay);
  EXPECT_EQ(made.outputs[0].data, made.outputs[2].data);
  EXPECT_EQ(session_->memory().Locate(made.outputs[0].data)->kind, MemoryKind::kPlan);
}

TEST_F(OutputsTest, AnAliasOfAnotherOutputIsTheSameBytes) {
  const Sketched program = Define(
      *session_,
      [this](CallContext& context) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(const Tensor y, MakeOutput(context, 1, 4));
        return context.AliasOutput(0, y.data);
      },
      2);
  ExpectInEveryWay(program, [](const Values& x) {
    return std::vector<Values>{Sum(x, 4), Sum(x, 4)};
  });
}

// y1 is y0 without its first element.
class OutputViewTest : public OutputsTest {
 protected:
  Sketched program_ = Define(
      *session_,
      [this](CallContext& context) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
        COPPICE_RETURN_IF_ERROR(FillBuffer(context, context.input(0), y, 3));
        COPPICE_RETURN_IF_ERROR(context.AliasOutput(1, y.data + kFloat));
        return MakeOutput(context, 2, 8).status();
      },
      3,
      [](ProgramSpec& spec) {
        spec.symbols.clear();
        spec.inputs[0].dims = {Dim::Fixed(64)};
        spec.outputs[0].dims = {Dim::Fixed(64)};
        spec.outputs[1].dims = {Dim::Fixed(63)};
        spec.outputs[2].dims = {Dim::Fixed(64)};
      });
  const Input x_ = Upload(64, 100);
  const std::vector<Values> expected_ = [&] {
    const Values y = Sum(x_.values, 3);
    return std::vector<Values>{y, {y.begin() + 1, y.end()}, Sum(x_.values, 8)};
  }();
};

TEST_F(OutputViewTest, AViewIntoAnOutputIsThoseBytes) {
  for (int i = 0; i < 3; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(program_, x_));
    made.values = expected_;
    ExpectFresh(made);
    EXPECT_EQ(made.outputs[1].data, made.outputs[0].data + kFloat);
  }
}

TEST_F(OutputViewTest, AChildIsPlannedAroundAView) {
  const Sketched child = Draw(*session_, {.name = "child", .steps = {Output()}});
  for (int i = 0; i < 4; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const ChainScope chain, session_->Chain());
    COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(program_, x_));
    made.values = expected_;
    COPPICE_ASSERT_OK_AND_ASSIGN(const Made next, RunSketch(child, InputFrom(made, 1)));
    ExpectFresh(made);
    ExpectFresh(next);
    if (i == 3) {
      EXPECT_EQ(next.lease.kind(), RunKind::kReplay);
    }
  }
}

TEST_F(OutputViewTest, AViewAloneKeepsItsBytesAndIsNotExpiredByItsNeighbours) {
  // y0 is a view of the last half of the input that lies in place; the rest is released.
  const Sketched tail = Define(
      *session_,
      [](CallContext& context) { return context.AliasOutput(0, context.input(0).data + 128); }, 1,
      [](ProgramSpec& spec) {
        spec.symbols.clear();
        spec.inputs[0].dims = {Dim::Fixed(64)};
        spec.outputs[0].dims = {Dim::Fixed(32)};
      });
  const Sketched child = Draw(*session_, {.name = "child", .steps = {Output()}});
  for (int i = 0; i < 4; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const ChainScope chain, session_->Chain());
    COPPICE_ASSERT_OK_AND_ASSIGN(Made parent, RunSketch(program_, x_));
    parent.values = expected_;
    COPPICE_ASSERT_OK_AND_ASSIGN(Made view, RunSketch(tail, InputFrom(parent, 0)));
    view.values = {{expected_[0].begin() + 32, expected_[0].end()}};
    ExpectFresh(view);
    parent.lease.Release();
    for (int calls = 0; calls < 3; ++calls) {
      COPPICE_ASSERT_OK_AND_ASSIGN(const Made next, RunSketch(child, x_));
      ExpectFresh(next);
      ExpectFresh(view);
    }
  }
}

// A program that launches nothing writes nothing.
TEST_F(OutputsTest, AViewOfAnInputInPlaceExpiresNobodyAndPlansNothing) {
  const Sketched parent = Draw(*session_, {.name = "parent", .steps = {Output()}});
  const Sketched view = Define(*session_, [](CallContext& context) {
    return context.AliasOutput(0, context.input(0).data);
  });
  Made kept;
  for (int i = 0; i < 4; ++i) {
    {
      COPPICE_ASSERT_OK_AND_ASSIGN(const ChainScope chain, session_->Chain());
      COPPICE_ASSERT_OK_AND_ASSIGN(const Made first, RunSketch(parent, Upload(20, 0)));
      COPPICE_ASSERT_OK_AND_ASSIGN(kept, RunSketch(parent, Upload(20, 1000)));
    }
    COPPICE_ASSERT_OK_AND_ASSIGN(const Made made, RunSketch(parent, Upload(20, 2000 + i)));
    COPPICE_ASSERT_OK_AND_ASSIGN(Made seen, RunSketch(view, InputFrom(made)));
    seen.values = made.values;
    ExpectFresh(seen);
    if (i > 0) ExpectFresh(kept);  // Planned behind the first.
  }
  for (const NodeInfo& node : session_->nodes()) {
    if (node.program == view.sketch.name && node.recorded && node.around_bytes > 0) {
      EXPECT_EQ(node.plan_height, node.around_bytes);
      EXPECT_EQ(node.graph_nodes, 0);
    }
  }
}

// Whether an alias of a weight is a copy depends on where the weight lies in this call.
TEST_F(OutputsTest, AnAliasOfAWeightThatIsCopiedAndOfOneThatIsNotShareABucket) {
  session_ = MakeSession({.limits = {.static_moves_max = 2}});
  const Sketched program = Define(
      *session_,
      [this](CallContext& context) -> absl::Status {
        COPPICE_RETURN_IF_ERROR(MakeOutput(context, 0, 1).status());
        return context.AliasOutput(1, context.input(1).data);
      },
      2,
      [](ProgramSpec& spec) {
        spec.outputs[1].dims = {Dim::Fixed(64)};
        spec.inputs.push_back(
            {.name = "w", .dims = {Dim::Fixed(64)}, .role = InputRole::kStatic, .alignment = 16});
      });
  for (int i = 0; i < 8; ++i) {
    Input w = Upload(65, 1000 * i);
    const bool misaligned = i % 3 == 1;
    w.tensor.sizes[0] = 64;
    if (misaligned) w.tensor.data += kFloat;
    const Values values(w.values.begin() + (misaligned ? 1 : 0),
                        w.values.end() - (misaligned ? 0 : 1));
    const Binding* binding = *session_->Bind(*program.program, {&w.tensor, 1});
    for (int call = 0; call < 3; ++call) {
      const Input x = Upload(20, i);
      COPPICE_ASSERT_OK_AND_ASSIGN(
          Made made, RunSketch(program, x, [&](coppice::Call& of) { of.binding = binding; }));
      made.values = {Sum(x.values, 1), values};
      ExpectFresh(made);
      EXPECT_NE(made.lease.kind(), RunKind::kEager);
      if (call == 2) {
        EXPECT_EQ(made.lease.kind(), RunKind::kReplay) << i;
      }
    }
  }
  EXPECT_EQ(session_->stats().inputs_demoted, 1);
}

TEST_F(OutputsTest, WriteIntoRefusesTargetsThatShareBytesOrLieInConstants) {
  const Sketched program = Define(
      *session_,
      [this](CallContext& context) -> absl::Status {
        COPPICE_RETURN_IF_ERROR(MakeOutput(context, 0, 1).status());
        return MakeOutput(context, 1, 2).status();
      },
      2);
  const Input x = Upload(16, 0);
  const DeviceAddress room = Upload(64, 0).tensor.data;
  const int64_t sizes[] = {64};
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Tensor constant,
      session_->memory().AddConstant(DType::kFloat32, sizes,
                                     [](std::span<std::byte>) { return absl::OkStatus(); }));
  const auto write = [&](DeviceAddress first, DeviceAddress second) {
    const Tensor targets[] = {FloatsAt(first, 16), FloatsAt(second, 16)};
    return RunSketch(program, x,
                     [&](coppice::Call& call) {
                       call.output_mode = OutputMode::kWriteInto;
                       call.targets = targets;
                     })
        .status();
  };
  EXPECT_OK(write(room, room + 16 * kFloat));
  EXPECT_THAT(write(room, room), StatusIs(kWrongArgument));
  EXPECT_THAT(write(room, room + 15 * kFloat), StatusIs(kWrongArgument));
  EXPECT_THAT(write(room, room + 16 * kFloat + 2), StatusIs(kWrongArgument));
  EXPECT_THAT(write(room, constant.data), StatusIs(kWrongArgument));
}

TEST_F(OutputsTest, AnAliasOfAnInputInPlaceIsTheParentsBytesAndKeepsThem) {
  const Sketched parent = Draw(*session_, {.name = "parent", .steps = {Output()}});
  const Sketched echo = Define(*session_, [](CallContext& context) {
    return context.AliasOutput(0, context.input(0).data);
  });
  for (int i = 0; i < 4; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Made made, RunSketch(parent, Upload(20, 1000 * i)));
    COPPICE_ASSERT_OK_AND_ASSIGN(Made alias, RunSketch(echo, InputFrom(made)));
    alias.values = made.values;
    if (i >= 2) {
      EXPECT_EQ(alias.outputs[0].data, made.outputs[0].data);
    }
    made.lease.Release();
    COPPICE_ASSERT_OK_AND_ASSIGN(const Made child, RunSketch(parent, InputFrom(alias)));
    ExpectFresh(alias);
    ExpectFresh(child);
  }
}

TEST_F(OutputsTest, AliasesOfTheSessionsOwnMemoryAreRefused) {
  const std::vector<std::function<absl::Status(CallContext&)>> wrong = {
      [](CallContext& context) -> absl::Status {  // A temporary.
        COPPICE_ASSIGN_OR_RETURN(const DeviceAddress temporary, context.Allocate(4 * kKiB));
        return context.AliasOutput(0, temporary);
      },
      [](CallContext& context) { return context.AliasOutput(0, context.parameters()); },
      [](CallContext& context) {  // Past the input's end.
        return context.AliasOutput(0, context.input(0).data + kBufferAlignment);
      },
  };
  for (const auto& callable : wrong)
    EXPECT_THAT(RunSketch(Define(*session_, callable), Upload(64, 0)), StatusIs(kWrongArgument));
}

TEST_F(OutputsTest, EachOutputIsAskedForOnceAndExists) {
  const auto run = [&](Callable callable) {
    return RunSketch(Define(*session_, std::move(callable)), Upload(4, 0)).status();
  };
  EXPECT_FALSE(run([](CallContext&) { return absl::OkStatus(); }).ok());
  EXPECT_FALSE(run([](CallContext& context) -> absl::Status {
                 COPPICE_RETURN_IF_ERROR(context.AllocateOutput(0).status());
                 return context.AliasOutput(0, context.input(0).data);
               }).ok());
  EXPECT_THAT(run([](CallContext& context) { return context.AllocateOutput(1).status(); }),
              StatusIs(kWrongArgument));
  EXPECT_THAT(
      run([](CallContext& context) { return context.AliasOutput(-1, context.input(0).data); }),
      StatusIs(kWrongArgument));
}

TEST_F(OutputsTest, AStaticOutputIsNoAlias) {
  const Sketched program = Define(
      *session_, [](CallContext& context) { return context.AliasOutput(0, context.input(0).data); },
      1,
      [](ProgramSpec& spec) {
        spec.outputs[0].dims = {Dim::Fixed(4)};
        spec.outputs[0].role = OutputRole::kStatic;
      });
  const DeviceMemory bound = Allocate(4);
  const Tensor fixed = FloatsAt(bound.address(), 4);
  const Binding* binding = *session_->Bind(*program.program, {&fixed, 1});
  EXPECT_THAT(
      RunSketch(program, Upload(4, 0), [&](coppice::Call& call) { call.binding = binding; }),
      StatusIs(kWrongArgument));
}

}  // namespace
}  // namespace coppice
