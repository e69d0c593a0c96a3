// Goal: a chain that was run once is planned as a whole: its window is hardly higher than the most
// bytes live in any of its calls, although outputs are dropped along the way; a chain that then
// does otherwise is planned call by call, and computes the same.
// Method: random programs in a row, each on output 0 of the one before, on the emulator; leases are
// dropped a given number of calls later. The bound is worked out from sizes alone.

#include "graphs/lane/chain_planner.h"

#include <deque>

#include "tests/graphs/sketch.h"

namespace coppice {
namespace {

class ChainPlannerTest : public testing::Test, protected SketchDevice {
 protected:
  static constexpr int64_t kElements = 256;
  static constexpr int64_t kFloatBytes = sizeof(float);

  // Programs named p0, p1, ...: one output, temporaries before it and behind it.
  void Open(const std::vector<std::vector<SketchStep>>& programs) {
    programs_.clear();
    session_ = MakeSession();
    int64_t input = kElements;
    for (const std::vector<SketchStep>& steps : programs) {
      programs_.push_back(Draw(*session_, {.name = "p" + std::to_string(programs_.size()),
                                           .input = input,
                                           .steps = steps,
                                           .number = 100}));
      input = OutputOf(steps);
    }
  }

  static int64_t OutputOf(const std::vector<SketchStep>& steps) {
    return std::ranges::find(steps, SketchStep::Kind::kOutput, &SketchStep::kind)->elements;
  }

  // Runs the chain; a lease is dropped once `levels` calls have followed. Checks every value.
  void RunChain(size_t levels) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const ChainScope chain, session_->Chain());
    std::deque<Made> held;
    for (const Sketched& program : programs_) {
      absl::StatusOr<Made> made = RunSketch(program, held.empty() ? x_ : InputFrom(held.back()));
      ASSERT_OK(made);
      held.push_back(*std::move(made));
      if (held.size() > levels) held.pop_front();
      for (const Made& each : held)
        ExpectFresh(each);
    }
  }

  // The most bytes live in any call: its own, and the outputs leased while it runs.
  static int64_t MaxLive(const std::vector<std::vector<SketchStep>>& programs, size_t levels) {
    const auto bytes = [](int64_t elements) {
      return AlignUp(elements * kFloatBytes, kBufferAlignment);
    };
    int64_t most = 0;
    for (size_t i = 0; i < programs.size(); ++i) {
      int64_t live = 0;
      for (size_t earlier = i - std::min(i, levels); earlier < i; ++earlier)
        live += bytes(OutputOf(programs[earlier]));
      std::vector<int64_t> temporaries;
      for (const SketchStep& step : programs[i]) {
        if (step.kind == SketchStep::Kind::kFree) {
          live -= temporaries[static_cast<size_t>(step.elements)];
          continue;
        }
        live += bytes(step.elements);
        if (step.kind == SketchStep::Kind::kTemporary) temporaries.push_back(bytes(step.elements));
        most = std::max(most, live);
      }
    }
    return most;
  }

  std::vector<std::vector<SketchStep>> DrawPrograms(int count) {
    const auto size = [this] { return std::uniform_int_distribution<int64_t>(64, 4096)(random_); };
    std::vector<std::vector<SketchStep>> programs;
    for (int i = 0; i < count; ++i) {
      programs.push_back({Temporary(size()), Temporary(size()), Free(0), Output(size()),
                          Temporary(size()), Free(1), Free(2)});
    }
    return programs;
  }

  int64_t height() const { return session_->memory().usage().height; }

  const Input x_ = Upload(kElements, 1);
  std::mt19937_64 random_{TestSeed()};
  std::vector<Sketched> programs_;
  std::unique_ptr<Session> session_;
};

TEST_F(ChainPlannerTest, AChainIsHardlyHigherThanItsLiveBytes) {
  constexpr int kChains = 30;
  for (const size_t levels : {size_t{1}, size_t{2}, size_t{3}}) {
    double sum = 0;
    for (int chain = 0; chain < kChains && !HasFailure(); ++chain) {
      const std::vector<std::vector<SketchStep>> programs = DrawPrograms(8);
      Open(programs);
      for (int pass = 0; pass < 3; ++pass)
        RunChain(levels);
      sum += static_cast<double>(height()) / static_cast<double>(MaxLive(programs, levels));
    }
    std::printf("outputs dropped after %zu calls: height %.4f times the live bytes, mean of %d\n",
                levels, sum / kChains, kChains);
    EXPECT_LE(sum / kChains, 1.01);
  }
}

// The plan of the whole puts the large output of the second call where that of the first is not,
// which planning call by call cannot know.
TEST_F(ChainPlannerTest, LooksAheadOfTheCallThatIsRecorded) {
  const std::vector<std::vector<SketchStep>> programs = {
      {Output(512)}, {Output(1024)}, {Output(3072)}, {Output(512)}};
  Open(programs);
  for (int pass = 0; pass < 3; ++pass)
    RunChain(1);
  EXPECT_EQ(height(), MaxLive(programs, 1));
  bool planned = false;
  for (const NodeInfo& node : session_->nodes())
    planned |= std::string(node.plan_method) == "chain";
  EXPECT_TRUE(planned);
  for (const NodeInfo& node : session_->nodes())
    EXPECT_EQ(node.replays, 2) << node.program;
}

TEST_F(ChainPlannerTest, AChainThatDoesOtherwiseThanBeforeIsPlannedCallByCall) {
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    Open(DrawPrograms(5));
    RunChain(1);
    RunChain(3);
    RunChain(1);
    RunChain(2);
    programs_.pop_back();
    RunChain(1);
  }
}

TEST_F(ChainPlannerTest, AChainOfOneCallIsARoot) {
  Open({{Temporary(512), Output(512), Free(0)}});
  for (int pass = 0; pass < 3; ++pass)
    RunChain(1);
  EXPECT_STRNE(session_->nodes().at(0).plan_method, "chain");
}

}  // namespace
}  // namespace coppice
