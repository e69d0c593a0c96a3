// Goal: a program that feeds itself, and three that feed each other with one left out now and then,
// settle on few graphs: memory, handles and host memory stay as they are after twenty steps, and
// every value is what a run without graphs gives.
// Method: ten thousand steps of each loop, read after every step and compared with the model on the
// host; sums of whole numbers, so that one wrong step shows in every value after it.

#include "tests/graphs/sketch.h"
#include "tests/sim/failing_world.h"
#include "tests/support/host_allocations.h"

namespace coppice {
namespace {

constexpr int kSettled = 20;  // Steps after which nothing may grow.

struct Loop {
  std::string name;
  std::vector<std::vector<SketchStep>> programs;  // What each does; output 0 is the next x.
  int held = 1;        // Leases that the loop keeps, the last one included.
  int graphs_max = 3;  // Per program. More if more is held, or if sizes fit several holes.
};

void PrintTo(const Loop& loop, std::ostream* out) {
  *out << loop.name;
}

class LoopsTest : public testing::TestWithParam<Loop>, protected SketchDevice {
 protected:
  static constexpr int64_t kElements = 200;

  LoopsTest()
      : driver_(UncountedTable::Around(device_.driver().table()), DriverKind::kEmulator),
        context_(*Context::Create(driver_)),
        session_(*Session::Create(context_, {})) {
    // Powers of two, so that a program left out is not made up for by another.
    for (const std::vector<SketchStep>& steps : GetParam().programs) {
      const auto index = static_cast<int>(programs_.size());
      programs_.push_back(Draw(*session_, {.name = "f" + std::to_string(index),
                                           .input = kElements,
                                           .steps = steps,
                                           .number = 1 << index}));
    }
  }

  // Runs a program on the last lease's output 0, or on the first x, and reads all outputs.
  void Advance(const Sketched& program, int64_t step) {
    const Input x = held_.empty() ? Upload(kElements, 0) : InputFrom(held_.back());
    const coppice::Call call{
        .program = program.program, .inputs = {&x.tensor, 1}, .stream = device_.stream()};
    const int64_t before = host_allocations.count;
    absl::StatusOr<Lease> lease = [&] {
      const CountingScope counting(true);
      return session_->Run(call);
    }();
    if (step >= kSettled) {
      ASSERT_EQ(host_allocations.count, before) << "host allocations";
    }
    ASSERT_OK(lease);
    Made made{.sketched = &program,
              .lease = *std::move(lease),
              .values = ModelOf(program.sketch, x.values)};
    {
      COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, made.lease.Read(device_.stream()));
      for (int i = 0; i < made.lease.output_count(); ++i)
        made.outputs.push_back(scope.output(i));
    }
    ExpectFresh(made);
    held_.push_back(std::move(made));
    if (held_.size() > static_cast<size_t>(GetParam().held)) held_.erase(held_.begin());
    for (const Made& each : held_)
      ExpectFresh(each);
  }

  // What must not grow.
  struct Footprint {
    MemoryUsage pool;
    Emulator::Live live;
    size_t nodes = 0;
    friend bool operator==(const Footprint&, const Footprint&) = default;
  };
  Footprint Measure() {
    Footprint footprint{.pool = session_->memory().usage(),
                        .live = device_.emulator().live(),
                        .nodes = session_->nodes().size()};
    footprint.live.nodes_executed = 0;
    return footprint;
  }

  const Driver driver_;
  const Context context_;
  const std::unique_ptr<Session> session_;
  std::vector<Sketched> programs_;
  std::vector<Made> held_;
};

TEST_P(LoopsTest, SettlesOnAFewGraphsAndStaysRight) {
  const int64_t steps = std::max<int64_t>(10000 / TestShare(), 2 * kSettled);
  Footprint settled;
  for (int64_t step = 0; step < steps; ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    for (size_t i = 0; i < programs_.size(); ++i) {
      if (programs_.size() > 1 && i == 1 && step % 7 == 6) continue;
      Advance(programs_[i], step);
      if (HasFailure()) return;
    }
    if (step == kSettled) settled = Measure();
  }
  EXPECT_EQ(Measure(), settled);
  std::map<std::string, int> graphs;
  for (const NodeInfo& node : session_->nodes())
    graphs[node.program] += node.recorded ? 1 : 0;
  for (const auto& [program, count] : graphs) {
    std::printf("%s of %s: %d graphs\n", program.c_str(), GetParam().name.c_str(), count);
    EXPECT_LE(count, GetParam().graphs_max) << program;
  }
}

const Loop kLoops[] = {
    {"Self", {{Output()}}},
    {"SelfWithTemporaries", {{Temporary(), Temporary(), Free(0), Output(), Free(1)}}},
    {"SelfWithASecondOutput", {{Temporary(), Output(), Output(), Free(0)}}},
    {"SelfWithALargeTemporary", {{Temporary(3 * kKiB), Free(0), Output()}}},
    {"Three", {{Output()}, {Output()}, {Output()}}},
    {"ThreeWithTemporaries",
     {{Temporary(), Output(), Free(0)},
      {Temporary(3 * kKiB), Free(0), Output()},
      {Output(), Temporary(), Free(0)}}},
    {"ThreeOfDifferentSizes",
     {{Output(), Output()}, {Temporary(), Output(), Free(0)}, {Output(), Output(), Output()}},
     1,
     4},
    {"SelfWithTheLeaseBeforeHeld", {{Temporary(), Output(), Free(0)}}, 2, 5},
};

INSTANTIATE_TEST_SUITE_P(,
                         LoopsTest,
                         testing::ValuesIn(kLoops),
                         [](const testing::TestParamInfo<Loop>& loop) { return loop.param.name; });

}  // namespace
}  // namespace coppice
