// Goal: whoever keeps an output, an address or a binding too long is told so, and never reads what
// lies there since: in each of twelve ways to keep them, in every round, in every build.
// Method: a thousand rounds per way on one session that is warm, with sizes, programs, streams and
// the calls between drawn from the test's seed. Ranges of addresses, which readers were given, say
// what must be stale; the data, which no two calls share, says what must not be.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "coppice/allocator/arena.h"

#include "tests/graphs/sketch.h"
#include "tests/support/test_share.h"

namespace coppice {
namespace {

// The bytes under an output, padding included.
struct Range {
  DeviceAddress begin = 0;
  DeviceAddress end = 0;
};
Range RangeOf(const Tensor& y) {
  const auto padded = std::bit_ceil(static_cast<uint64_t>(y.element_count()));
  return {y.data, y.data + AlignUp(static_cast<int64_t>(padded * sizeof(float)), kBufferAlignment)};
}

bool Overlap(const Tensor& a, const Tensor& b) {
  return RangeOf(a).begin < RangeOf(b).end && RangeOf(b).begin < RangeOf(a).end;
}

bool OverlapAny(const Tensor& a, const std::vector<Tensor>& others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const Tensor& other) { return Overlap(a, other); });
}

class StalePatternsTest : public testing::Test, protected SketchDevice {
 protected:
  static constexpr int kInputs = 61;  // More than a round uses.

  StalePatternsTest() : random_(TestSeed()) {
    for (int i = 0; i < 3; ++i)
      streams_.push_back(*Stream::Create(device_.driver()));
    for (int i = 0; i < kInputs; ++i)
      inputs_.push_back(SketchDevice::Upload(Below(Sketch::kLargest) + 1, 1000 * i));
    too_large_ = SketchDevice::Upload(Sketch::kLargest + 1, 0);
  }

  int64_t Below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(random_); }
  bool Maybe() { return Below(2) == 0; }
  CuStream AnyStream() { return streams_[static_cast<size_t>(Below(3))].handle(); }
  const Input& NextInput() { return inputs_[next_input_++ % inputs_.size()]; }
  // The same, in the largest bucket.
  const Input& NextFullInput() {
    const Input* x = &NextInput();
    while (2 * x->tensor.element_count() <= Sketch::kLargest)
      x = &NextInput();
    return *x;
  }

  // Two lanes, and programs of one to three outputs, all buckets of both recorded.
  void Open(const SessionOptions& options = {.lanes = 2}) {
    programs_.clear();
    session_ = MakeSession(options);
    std::vector<std::vector<int64_t>> buckets;
    for (int64_t n = 1; n <= Sketch::kLargest; n *= 2)
      buckets.push_back({n});
    programs_.reserve(3);
    for (int outputs = 1; outputs <= 3; ++outputs) {
      programs_.push_back(
          Draw(*session_, {.name = fmt::format("of{}", outputs),
                           .steps = std::vector<SketchStep>(static_cast<size_t>(outputs), Output()),
                           .number = 100 * outputs}));
      for (int lane = 0; lane < options.lanes; ++lane)
        ASSERT_OK(session_->Warm(*programs_.back().program, nullptr, buckets, {}, {.lane = lane}));
    }
  }

  const Sketched& AnyProgram() { return programs_[static_cast<size_t>(Below(3))]; }

  Made Make(const Sketched& sketched, const Input& x, int lane = 0) {
    absl::StatusOr<Made> made = RunSketch(sketched, x, [&](coppice::Call& call) {
      call.stream = AnyStream();
      call.lane = lane;
    });
    EXPECT_OK(made);
    return made.ok() ? *std::move(made) : Made{};
  }
  Made MakeAny() { return Make(AnyProgram(), NextInput()); }
  // A root that covers all that any root can: nothing borrowed outlives it.
  Made MakeLargest() { return Make(programs_[2], NextFullInput()); }

  // What may happen between any two calls and must change nothing.
  void Interleave() {
    for (int64_t i = Below(3); i > 0; --i) {
      switch (Below(4)) {
        case 0:
          EXPECT_EQ(Make(AnyProgram(), too_large_).lease.kind(), RunKind::kEager);
          break;
        case 1:
          (void)Make(AnyProgram(), NextInput(), /*lane=*/1);
          break;
        case 2:
          EXPECT_EQ(session_->Explain({.program = AnyProgram().program, .stream = AnyStream()})
                        .status.code(),
                    absl::StatusCode::kInvalidArgument);
          break;
        default:
          EXPECT_OK(streams_[0].Synchronize());
      }
    }
  }

  // Reading `made` says which call wrote over which of its outputs.
  void ExpectStale(const Made& made, const Made& by) {
    const absl::Status read = made.lease.Read(AnyStream()).status();
    ASSERT_THAT(read, StatusIs(kRefused));
    ExpectNamed(read, made, by);
    bool named = false;
    for (size_t i = 0; i < made.outputs.size(); ++i) {
      if (MessageOf(read).find(fmt::format("output 'y{}' ", i)) == std::string::npos) continue;
      named = OverlapAny(made.outputs[i], by.outputs);
    }
    EXPECT_TRUE(named) << read;
  }

  static void ExpectNamed(const absl::Status& status, const Made& made, const Made& by) {
    for (const std::string& part :
         {fmt::format("program '{}' (call {} on lane 0)", made.sketched->sketch.name,
                      made.lease.call_number()),
          fmt::format("call {} (program '{}')", by.lease.call_number(), by.sketched->sketch.name)})
      EXPECT_THAT(MessageOf(status), testing::HasSubstr(part));
  }

  // No call takes an output of `made` as an input.
  absl::Status TryAsInput(const Made& made, size_t index) {
    return RunSketch(AnyProgram(), InputFrom(made, index),
                     [&](coppice::Call& call) { call.stream = AnyStream(); })
        .status();
  }

  // Fresh, or refused; never other data.
  void ExpectSound(const Made& made) {
    const absl::StatusOr<std::vector<Values>> read = ReadAll(made.lease);
    if (read.ok()) {
      EXPECT_EQ(*read, made.values);
    } else {
      EXPECT_THAT(read, StatusIs(kRefused));
    }
  }

  template <typename Body>
  void Rounds(Body body) {
    const int rounds = std::max(1, 1000 / static_cast<int>(TestShare()));
    for (int round = 0; round < rounds && !HasFailure(); ++round) {
      SCOPED_TRACE(testing::Message() << "round " << round);
      body(round);
    }
  }

  template <typename Body>
  void OnAnotherThread(Body body) {
    std::thread([&] {
      ASSERT_OK(device_.context().MakeCurrent());
      body();
    }).join();
  }

  std::mt19937_64 random_;
  std::vector<Stream> streams_;
  std::vector<Input> inputs_;
  Input too_large_;
  size_t next_input_ = 0;
  std::unique_ptr<Session> session_;
  std::vector<Sketched> programs_;
};

TEST_F(StalePatternsTest, NextRootOverlaps) {
  Open();
  Rounds([&](int) {
    const Made made = MakeAny();
    ExpectFresh(made);
    Interleave();
    const Made root = MakeAny();
    ExpectFresh(root);
    ExpectStale(made, root);
    EXPECT_THAT(TryAsInput(made, 0), StatusIs(kRefused));
  });
}

TEST_F(StalePatternsTest, SameNodeAgain) {
  Open();
  Rounds([&](int) {
    const Sketched& program = AnyProgram();
    const Input& x = NextInput();
    const Made made = Make(program, x);
    Interleave();
    ExpectFresh(made);
    const Made again = Make(program, {.tensor = x.tensor, .values = x.values});
    ExpectStale(made, again);
    ExpectFresh(again);
  });
}

TEST_F(StalePatternsTest, AfterEvict) {
  Open();
  Rounds([&](int) {
    Made made = MakeAny();
    const Made kept = Maybe() ? Make(AnyProgram(), InputFrom(made)) : Made{};
    ASSERT_OK(session_->Evict(Maybe() ? made.sketched->program : nullptr));
    ExpectFresh(made);
    const Input gone = InputFrom(made);
    if (Maybe()) {
      made.lease.Release();
      ASSERT_OK(session_->Evict(nullptr));
      EXPECT_THAT(RunSketch(AnyProgram(), gone), StatusIs(kRefused));
      (void)MakeAny();
      EXPECT_THAT(RunSketch(AnyProgram(), gone), StatusIs(kRefused))
          << "somebody else's bytes by then";
    } else {
      const Made root = MakeAny();
      ASSERT_OK(session_->Evict(nullptr));
      ExpectStale(made, root);
      ExpectFresh(root);
      const absl::Status input = TryAsInput(made, 0);
      EXPECT_THAT(input, StatusIs(kRefused));
      ExpectNamed(input, made, root);
    }
    if (kept.sketched != nullptr) ExpectSound(kept);
  });
}

TEST_F(StalePatternsTest, AfterSessionClose) {
  const DeviceMemory target = *DeviceMemory::Create(device_.driver(), 4 * kKiB);
  Rounds([&](int) {
    const bool copies_out = Below(4) == 0;
    session_ = MakeSession({.memory = {.copy_out_bytes = copies_out ? 8 * kKiB : 0}});
    const Sketched one = Draw(*session_, {.name = "one", .steps = {Output()}});
    const Input& x = NextInput();
    std::vector<Made> made;
    for (int64_t calls = Below(4) + 1; calls > 0; --calls)
      made.push_back(Make(one, Below(4) == 0 ? too_large_ : x));
    if (copies_out) {
      made.push_back(*RunSketch(
          one, x, [&](coppice::Call& call) { call.output_mode = OutputMode::kCopyOut; }));
    }
    const Tensor into = Vector(target.address(), x.tensor.element_count());
    made.push_back(*RunSketch(one, x, [&](coppice::Call& call) {
      call.output_mode = OutputMode::kWriteInto;
      call.targets = {&into, 1};
    }));
    session_.reset();
    for (Made& each : made) {
      EXPECT_EQ(each.lease.output_count(), 0);
      EXPECT_THAT(each.lease.Read(AnyStream()), StatusIs(kRefused));
    }
    if (Maybe()) OnAnotherThread([&] { made.clear(); });
  });
}

TEST_F(StalePatternsTest, ChildAfterItsParentsExpiry) {
  Open();
  Rounds([&](int) {
    const Made parent = MakeAny();
    const auto index = static_cast<size_t>(Below(static_cast<int64_t>(parent.outputs.size())));
    const Made child = Make(AnyProgram(), InputFrom(parent, index));
    ExpectFresh(child);
    ExpectFresh(parent);
    Interleave();
    const Made root = MakeLargest();
    ExpectStale(parent, root);
    ExpectSound(child);
    const int64_t calls = session_->stats().calls;
    const absl::Status late = TryAsInput(parent, index);
    EXPECT_THAT(late, StatusIs(kRefused));
    ExpectNamed(late, parent, root);
    EXPECT_EQ(session_->stats().calls, calls);
    ExpectFresh(root);
  });
}

TEST_F(StalePatternsTest, OtherThread) {
  Open();
  Rounds([&](int) {
    const Made made = MakeAny();
    std::optional<Made> root;
    if (Maybe()) {
      OnAnotherThread([&] { root = MakeAny(); });
      ExpectStale(made, *root);
    } else {
      root = MakeAny();
      OnAnotherThread([&] { ExpectStale(made, *root); });
    }
    ExpectFresh(*root);
    EXPECT_THAT(TryAsInput(made, 0), StatusIs(kRefused));
  });
}

TEST_F(StalePatternsTest, AliasOfAnExpiredOutput) {
  Open();
  // y0 is x itself, y1 a buffer, and y2 is y1 again.
  ProgramSpec spec = SpecOf({.name = "echo", .steps = {Output(), Output(), Output()}});
  Sketched echo{.session = session_.get(), .sketch = {.name = "echo"}};
  echo.program = *session_->Register(spec, [this](CallContext& context) -> absl::Status {
    COPPICE_RETURN_IF_ERROR(context.AliasOutput(0, context.input(0).data));
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(1));
    COPPICE_RETURN_IF_ERROR(FillBuffer(context, context.input(0), y, 7));
    return context.AliasOutput(2, y.data);
  });
  int in_place = 0;
  Rounds([&](int) {
    Made parent = MakeAny();
    const auto index = static_cast<size_t>(Below(static_cast<int64_t>(parent.outputs.size())));
    Made alias = Make(echo, InputFrom(parent, index));
    Values sum = parent.values[index];
    for (float& value : sum)
      value += 7;
    alias.values = {parent.values[index], sum, sum};
    ExpectFresh(alias);
    in_place += alias.outputs[0].data == parent.outputs[index].data ? 1 : 0;
    EXPECT_EQ(alias.outputs[1].data, alias.outputs[2].data);
    const bool released = Maybe();
    if (released) parent.lease.Release();
    Interleave();
    ExpectFresh(alias);
    const Made root = MakeLargest();
    if (!released) ExpectStale(parent, root);
    if (alias.lease.kind() != RunKind::kWarmUp) {
      ExpectStale(alias, root);
      EXPECT_THAT(TryAsInput(alias, static_cast<size_t>(Below(3))), StatusIs(kRefused));
    } else {
      ExpectFresh(alias);
    }
  });
  EXPECT_GT(in_place, 0);
}

TEST_F(StalePatternsTest, ScopeHeldWhileACallWouldReuse) {
  Open();
  Rounds([&](int) {
    const Made made = MakeAny();
    Interleave();
    {
      const CuStream stream = AnyStream();
      COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, made.lease.Read(stream));
      const int64_t calls = session_->stats().calls;
      const Sketched& program = AnyProgram();
      const absl::Status refused = RunSketch(program, NextInput(), [&](coppice::Call& call) {
                                     call.stream = AnyStream();
                                   }).status();
      ASSERT_THAT(refused, StatusIs(kRefused));
      EXPECT_THAT(MessageOf(refused), testing::HasSubstr(fmt::format(
                                          "program '{}' (call {} on lane 0)",
                                          made.sketched->sketch.name, made.lease.call_number())));
      EXPECT_EQ(session_->stats().calls, calls);
      Interleave();
      if (Maybe()) ExpectFresh(Make(program, InputFrom(made)));
      ExpectFresh(made);
    }
    const Made root = MakeLargest();
    ExpectStale(made, root);
    ExpectFresh(root);
  });
}

TEST_F(StalePatternsTest, LeaseKeptOverAThousandSteadyReplays) {
  constexpr size_t kKept = 1000;
  Open();
  const Sketched& program = AnyProgram();
  const Input& x = NextFullInput();
  std::deque<Made> kept;
  const auto step = [&] {
    kept.push_back(Make(program, x));
    ASSERT_EQ(kept.back().lease.kind(), RunKind::kReplay);
  };
  while (kept.size() <= kKept)
    step();
  Rounds([&](int) {
    step();
    ExpectStale(kept[0], kept[1]);
    EXPECT_THAT(TryAsInput(kept[0], 0), StatusIs(kRefused));
    ExpectFresh(kept.back());
    kept.pop_front();
  });
}

// Programs with a static input: y = x + w and, if `mutates`, w = w + x behind it. A static input
// that is mutated is never copied instead, however often it moves.
class StaleStaticsTest : public StalePatternsTest {
 protected:
  static constexpr int64_t kStaticElements = Sketch::kLargest + 1;
  static constexpr int64_t kStaticBytes = kStaticElements * kFloat;

  // Memory of a static input and its values.
  struct Static {
    DeviceAddress address = 0;
    Values values;
    const Binding* binding = nullptr;
  };

  Sketched Biased(Session& session, bool mutates) const {
    Sketched biased{.session = &session,
                    .sketch = {.name = mutates ? "mutating" : "biased", .steps = {Output()}}};
    ProgramSpec spec = SpecOf(biased.sketch);
    if (mutates) spec.inputs[0].fill = Fill::Zero();  // Padding is added to the weight.
    spec.inputs.push_back({.name = "w",
                           .dims = {Dim::Fixed(kStaticElements)},
                           .role = InputRole::kStatic,
                           .mutated = mutates});
    biased.program = *session.Register(
        spec, [this, mutates](CallContext& context) { return Bias(context, mutates); });
    return biased;
  }

  absl::Status Bias(CallContext& context, bool mutates) const {
    const int64_t n = context.extent(0);
    const DeviceAddress x = context.input(0).data;
    const DeviceAddress w = context.input(1).data;
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(AddOnto(context, x, w, y.data, n));
    return mutates ? AddOnto(context, w, x, w, n) : absl::OkStatus();
  }

  static absl::StatusOr<const Binding*> Bind(const Sketched& biased, DeviceAddress address) {
    const Tensor w = Vector(address, kStaticElements);
    return biased.session->Bind(*biased.program, {&w, 1});
  }

  // Fills the memory with values of its own and binds it.
  Static Fill(const Sketched& biased, DeviceAddress address) {
    Static made{.address = address,
                .values = Values(static_cast<size_t>(kStaticElements),
                                 static_cast<float>(100000 + ++statics_))};
    EXPECT_OK(device_.Write(address, made.values));
    made.binding = *Bind(biased, address);
    return made;
  }

  absl::StatusOr<Made> TryCall(const Sketched& biased, Static& w, const Input& x) {
    absl::StatusOr<Made> made = RunSketch(biased, x, [&](coppice::Call& call) {
      call.binding = w.binding;
      call.stream = AnyStream();
    });
    if (!made.ok()) return made;
    made->values = {x.values};
    for (size_t i = 0; i < x.values.size(); ++i) {
      made->values[0][i] += w.values[i];
      if (biased.program == mutating_) w.values[i] += x.values[i];
    }
    return made;
  }

  void ExpectRight(const Sketched& biased, Static& w, const Input& x) {
    const absl::StatusOr<Made> made = TryCall(biased, w, x);
    ASSERT_OK(made);
    ExpectFresh(*made);
  }

  void ExpectRefused(const Sketched& biased, Static& w, const Input& x) {
    const int64_t calls = biased.session->stats().calls;
    const absl::Status refused = TryCall(biased, w, x).status();
    ASSERT_THAT(refused, StatusIs(kRefused));
    EXPECT_THAT(MessageOf(refused),
                testing::HasSubstr(fmt::format("program '{}'", biased.sketch.name)));
    EXPECT_EQ(biased.session->stats().calls, calls);
  }

  const Program* mutating_ = nullptr;
  int statics_ = 0;
};

TEST_F(StaleStaticsTest, MovedStatic) {
  constexpr int kRoundsPerSession = 20;
  std::vector<Sketched> biased;
  std::array<std::optional<DeviceMemory>, 2> memory;
  std::array<Static, 2> bound;
  Rounds([&](int round) {
    if (round % kRoundsPerSession == 0) {
      session_ = MakeSession();
      biased = {Biased(*session_, false), Biased(*session_, true)};
      mutating_ = biased[1].program;
      for (size_t i = 0; i < 2; ++i) {
        memory[i].emplace(*DeviceMemory::Create(device_.driver(), kStaticBytes));
        bound[i] = Fill(biased[i], memory[i]->address());
      }
    }
    const auto which = static_cast<size_t>(Below(2));
    const Sketched& program = biased[which];
    const Input& x = NextInput();
    for (int64_t calls = Below(4); calls > 0; --calls)
      ExpectRight(program, bound[which], x);
    auto moved = *DeviceMemory::Create(device_.driver(), kStaticBytes);
    Static there = Fill(program, moved.address());
    ExpectRight(program, there, x);
    ExpectRight(program, bound[which], x);
    ASSERT_OK(session_->Unbind(*bound[which].binding));
    memory[which].emplace(std::move(moved));
    ExpectRefused(program, bound[which], x);
    bound[which] = std::move(there);
    ExpectRight(program, bound[which], Maybe() ? x : NextInput());
  });
}

TEST_F(StaleStaticsTest, FreedStatic) {
  session_ = MakeSession({.checks = {.addresses = true}});
  // An arena, because what is freed there is followed by something else at the same address.
  const std::unique_ptr<Arena> arena =
      *Arena::Create(device_.driver(), device_.context().device(), {.window_bytes = kStaticBytes});
  ASSERT_OK(arena->Grow(0, kStaticBytes));
  const std::vector<Sketched> biased = {Biased(*session_, false), Biased(*session_, true)};
  mutating_ = biased[1].program;
  Rounds([&](int) {
    const Sketched& program = biased[static_cast<size_t>(Below(2))];
    Static w = Fill(program, arena->base(0));
    const Input& x = Below(4) == 0 ? too_large_ : NextInput();
    for (int64_t calls = Below(3); calls > 0; --calls)
      ExpectRight(program, w, x);
    for (const Stream& stream : streams_)
      ASSERT_OK(stream.Synchronize());
    ASSERT_OK(arena->Trim(0, 0));
    ASSERT_OK(arena->ReleaseSpares());
    if (Maybe()) ExpectRefused(program, w, x);
    ASSERT_OK(arena->Grow(0, kStaticBytes));
    ExpectRefused(program, w, x);
    Static again = Fill(program, arena->base(0));
    ExpectRight(program, again, x);
  });
}

TEST_F(StaleStaticsTest, WriteIntoTargetFreed) {
  Open({.lanes = 2, .checks = {.addresses = true}});
  Rounds([&](int) {
    const Sketched& program = AnyProgram();
    const Input& x = Below(4) == 0 ? too_large_ : NextInput();
    std::vector<std::optional<DeviceMemory>> memory(program.sketch.steps.size());
    std::vector<Tensor> targets;
    for (std::optional<DeviceMemory>& each : memory) {
      each.emplace(*DeviceMemory::Create(device_.driver(), 4 * kKiB));
      targets.push_back(Vector(each->address(), x.tensor.element_count()));
    }
    const auto into = [&](coppice::Call& call) {
      call.output_mode = OutputMode::kWriteInto;
      call.targets = targets;
      call.stream = AnyStream();
    };
    for (int64_t calls = Below(3); calls > 0; --calls)
      ExpectFresh(*RunSketch(program, x, into));
    const auto freed = static_cast<size_t>(Below(static_cast<int64_t>(memory.size())));
    memory[freed].reset();
    const int64_t calls = session_->stats().calls;
    const absl::Status refused = RunSketch(program, x, into).status();
    ASSERT_THAT(refused, StatusIs(kRefused));
    EXPECT_THAT(MessageOf(refused), testing::HasSubstr(fmt::format("output 'y{}' of program '{}'",
                                                                   freed, program.sketch.name)));
    EXPECT_EQ(session_->stats().calls, calls);
  });
}

}  // namespace
}  // namespace coppice
