// Goal: every sentence of generator.h, and what session.h and program.h say of random numbers.
// Method: programs whose kernel draws by Philox from the state in their parameter block, against a
// Philox on the host that is held to the vectors of its authors and to numbers that PyTorch draws.

#include "coppice/graphs/generator.h"

#include "tests/graphs/torch_fixture.h"

namespace coppice {
namespace {

using testing::Ge;
using Numbers = std::vector<uint32_t>;
using State = Generator::State;

// One round of Philox4x32-10 as its paper has it: a product's halves cross over, keys grow by Weyl.
std::array<uint32_t, 4> HostPhilox(std::array<uint32_t, 4> x, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t left = 0xD2511F53ULL * x[0];
    const uint64_t right = 0xCD9E8D57ULL * x[2];
    x = {static_cast<uint32_t>(right >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(right),
         static_cast<uint32_t>(left >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(left)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return x;
}

// Number `index` of sequence `sequence`.
uint32_t HostNumber(uint64_t seed, uint64_t sequence, int64_t index) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto at = static_cast<uint64_t>(index) / 4;
  return HostPhilox({low(at), low(at >> 32), low(sequence), low(sequence >> 32)},
                    {low(seed), low(seed >> 32)})[static_cast<size_t>(index % 4)];
}

TEST(HostPhiloxTest, GivesTheVectorsOfItsAuthors) {
  EXPECT_THAT(HostPhilox({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8));
  constexpr uint32_t kOnes = 0xFFFFFFFF;
  EXPECT_THAT(HostPhilox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              ElementsAre(0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD));
}

TEST(GeneratorTest, TakesWholeRoundsOneBehindTheOther) {
  Generator generator(7);
  EXPECT_EQ(generator.Take(1), (State{7, 0}));
  EXPECT_EQ(generator.Take(4), (State{7, 4}));
  EXPECT_EQ(generator.Take(5), (State{7, 8}));
  EXPECT_EQ(generator.GetState(), (State{7, 16}));
}

TEST(GeneratorTest, GivesBackTheLastNumbersOnly) {
  Generator generator;
  const State first = generator.Take(6);
  const State second = generator.Take(3);
  generator.GiveBack(first, 6);
  EXPECT_EQ(generator.GetState().offset, 12);
  generator.GiveBack(second, 3);
  EXPECT_EQ(generator.GetState().offset, 8);
}

TEST(GeneratorTest, SetStateTakesWholeRoundsAlone) {
  Generator generator;
  EXPECT_OK(generator.SetState({.seed = 3, .offset = 40}));
  for (const int64_t offset : {-4, 1, 42})
    EXPECT_THAT(generator.SetState({.offset = offset}), StatusIs(kWrongArgument));
  EXPECT_EQ(generator.GetState(), (State{3, 40}));
  generator.Seed(5);
  EXPECT_EQ(generator.GetState(), (State{5, 0}));
}

TEST(GeneratorTest, CloneGoesOnByItself) {
  Generator generator(9);
  (void)generator.Take(8);
  const std::unique_ptr<Generator> clone = generator.Clone();
  (void)generator.Take(4);
  EXPECT_EQ(clone->Take(4), (State{9, 8}));
  EXPECT_EQ(generator.GetState().offset, 12);
}

class GeneratorCallTest : public TorchFixture {
 protected:
  // y are so many numbers behind the call's state; of one sequence, or the first of as many.
  const Program* AddPhilox(const std::string& name,
                           int64_t count,
                           Generator* generator = nullptr,
                           bool sequences = false) {
    ProgramSpec spec{.name = name};
    spec.inputs = {{.name = "x", .dims = {Dim::Fixed(1)}}};
    spec.outputs = {{.name = "y", .dtype = DType::kUInt32, .dims = {Dim::Fixed(count)}}};
    spec.random_numbers_per_call = sequences ? 4 : count;
    spec.generator = generator;
    const int word = RandomWord(spec);
    return Add(spec, [this, word, count, sequences](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      return Launch(context.driver(), kernels_.philox, context.stream(),
                    PhiloxParams{.y = PointerAt<uint32_t>(y.data),
                                 .words = PointerAt<const int64_t>(context.parameters()),
                                 .count = count,
                                 .word = word,
                                 .sequences = sequences ? 1 : 0},
                    GridFor(count));
    });
  }

  // The next numbers of the one sequence of `seed`.
  static Numbers HostNumbers(uint64_t seed, int64_t offset, int64_t count) {
    Numbers numbers;
    for (int64_t i = 0; i < count; ++i)
      numbers.push_back(HostNumber(seed, 0, offset + i));
    return numbers;
  }

  Generator shared_{3};
  const Tensor x_ = Upload(Constant(1, 1));
};

TEST_F(GeneratorCallTest, ProgramsOfOneGeneratorNeverDrawTheSameNumbers) {
  session_->SetSeed(7);
  const Program* first = AddPhilox("dropout of layer 1", 64);
  const Program* second = AddPhilox("dropout of layer 2", 32);
  int64_t offset = 0;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ValuesOf<uint32_t>(Run(first, {x_})), HostNumbers(7, offset, 64));
    EXPECT_EQ(ValuesOf<uint32_t>(Run(second, {x_})), HostNumbers(7, offset + 64, 32));
    offset += 96;
  }
  EXPECT_EQ(session_->generator().GetState(), (State{7, offset}));
}

TEST_F(GeneratorCallTest, GeneratorsOfTheirOwnAreAdvancedByThoseWhoNameThem) {
  const Program* f = AddPhilox("f", 8, &shared_);
  const Program* g = AddPhilox("g", 8, &shared_);
  const Program* other = AddPhilox("other", 8);
  (void)Run(f, {x_});
  (void)Run(other, {x_});
  EXPECT_EQ(ValuesOf<uint32_t>(Run(g, {x_})), HostNumbers(3, 8, 8));
  EXPECT_EQ(shared_.GetState().offset, 16);
  EXPECT_EQ(session_->generator().GetState().offset, 8);
}

TEST_F(GeneratorCallTest, StateSetAgainRepeatsTheNumbers) {
  const Program* f = AddPhilox("f", 8);
  (void)Run(f, {x_});
  const State state = session_->generator().GetState();
  const Numbers numbers = ValuesOf<uint32_t>(Run(f, {x_}));
  (void)Run(f, {x_});
  EXPECT_OK(session_->generator().SetState(state));
  EXPECT_EQ(ValuesOf<uint32_t>(Run(f, {x_})), numbers);
}

// What torch.rand(n, device="cuda") draws after torch.manual_seed(0), to the digits it prints.
TEST_F(GeneratorCallTest, FirstNumbersOfSequencesAreThoseOfTorchRand) {
  const std::vector<double> printed = {0.3990, 0.5167, 0.0249, 0.9401, 0.9459};
  const Program* rand = AddPhilox("rand", std::ssize(printed), nullptr, /*sequences=*/true);
  const Numbers numbers = ValuesOf<uint32_t>(Run(rand, {x_}));
  for (size_t i = 0; i < printed.size(); ++i) {
    EXPECT_NEAR((numbers[i] + 0.5) * 0x1p-32, printed[i], 5e-5) << i;
    EXPECT_EQ(numbers[i], HostNumber(0, i, 0));
  }
  EXPECT_EQ(session_->generator().GetState().offset, 4) << "as PyTorch's, per thread";
}

TEST_F(GeneratorCallTest, RefusedAndFailedCallsGiveBackWhatTheyTook) {
  const Program* f = AddPhilox("f", 8);
  for (const RunKind path : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay}) {
    const State before = session_->generator().GetState();
    Tensor wrong = x_;
    wrong.dtype = DType::kInt32;
    EXPECT_FALSE(TryRun(f, {wrong}).ok());
    EXPECT_EQ(session_->generator().GetState(), before);
    if (path != RunKind::kRecord) {
      // The launch behind that of staging.
      const int entry = path == RunKind::kReplay
                            ? DriverLedger::IndexOf(&DriverTable::GraphLaunch)
                            : DriverLedger::IndexOf(&DriverTable::LaunchKernel);
      device_.ledger().Inject({.entry = entry,
                               .nth = path == RunKind::kReplay ? 1 : 2,
                               .result = CuResult::kInvalidHandle});
      EXPECT_FALSE(TryRun(f, {x_}).ok());
      device_.ledger().ClearFaults();
      EXPECT_EQ(session_->generator().GetState(), before);
    }
    const Lease lease = Run(f, {x_});
    EXPECT_EQ(lease.kind(), path);
    EXPECT_EQ(ValuesOf<uint32_t>(lease), HostNumbers(before.seed, before.offset, 8));
  }
}

// A backward that recomputes its forward has a generator of its own, set to where that one began.
TEST_F(GeneratorCallTest, RecomputationDrawsTheNumbersOfItsForwardInAnyOrderAndTwice) {
  const Program* forward = AddPhilox("forward", 12);
  const Program* backward = AddPhilox("backward", 12, &shared_);
  std::vector<size_t> order = {0, 1, 2};
  do {
    std::vector<State> states;
    std::vector<Numbers> drawn;
    for (size_t i = 0; i < order.size(); ++i) {
      states.push_back(session_->generator().GetState());
      drawn.push_back(ValuesOf<uint32_t>(Run(forward, {x_})));
    }
    for (const size_t which : order) {
      for (int again = 0; again < 2; ++again) {
        ASSERT_OK(shared_.SetState(states[which]));
        EXPECT_EQ(ValuesOf<uint32_t>(Run(backward, {x_})), drawn[which]);
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(session_->generator().GetState().offset, 6 * 3 * 12) << "nobody else moved it";
}

TEST_F(GeneratorCallTest, CloneAndOriginalEachGoOnByThemselvesInGraphs) {
  (void)shared_.Take(8);
  const std::unique_ptr<Generator> clone = shared_.Clone();
  Open();
  const Program* of_clone = AddPhilox("of clone", 5, clone.get());
  const Program* of_original = AddPhilox("of original", 5, &shared_);
  for (int64_t round = 0; round < 4; ++round) {
    EXPECT_EQ(ValuesOf<uint32_t>(Run(of_clone, {x_})), HostNumbers(3, 8 + 8 * round, 5));
    for (int64_t draw = 0; draw < 2; ++draw)
      EXPECT_EQ(ValuesOf<uint32_t>(Run(of_original, {x_})),
                HostNumbers(3, 8 + 8 * (2 * round + draw), 5));
    EXPECT_EQ(clone->GetState().offset, 8 + 8 * (round + 1));
    EXPECT_EQ(shared_.GetState().offset, 8 + 16 * (round + 1));
  }
  Close();  // Before the clone.
}

TEST_F(GeneratorCallTest, ProgramInPiecesDrawsWhatItsEagerRunsDo) {
  ProgramSpec spec{.name = "pieces"};
  spec.inputs = {{.name = "x", .dims = {Dim::Fixed(1)}}};
  spec.outputs = {{.name = "before", .dtype = DType::kUInt32, .dims = {Dim::Fixed(8)}},
                  {.name = "behind", .dtype = DType::kUInt32, .dims = {Dim::Fixed(8)}}};
  spec.random_numbers_per_call = 8;
  const int word = RandomWord(spec);
  const Program* f = Add(spec, [this, word](CallContext& context) -> absl::Status {
    for (const int output : {0, 1}) {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(output));
      COPPICE_RETURN_IF_ERROR(
          Launch(context.driver(), kernels_.philox, context.stream(),
                 PhiloxParams{.y = PointerAt<uint32_t>(y.data),
                              .words = PointerAt<const int64_t>(context.parameters()),
                              .count = 8,
                              .word = word},
                 GridFor(8)));
      if (output == 0)
        COPPICE_RETURN_IF_ERROR(context.Break([](CuStream) { return absl::OkStatus(); }));
    }
    return absl::OkStatus();
  });
  session_->SetSeed(17);
  for (int64_t call = 0; call < 8; ++call) {
    if (call == 6) session_->SetStance(Stance::kEager);
    const Lease lease = Run(f, {x_});
    for (const int output : {0, 1})
      EXPECT_EQ(ValuesOf<uint32_t>(lease, output), HostNumbers(17, 8 * call, 8)) << call;
  }
  EXPECT_EQ(session_->stats().runs[static_cast<size_t>(RunKind::kReplay)], 4);
}

TEST_F(GeneratorCallTest, GeneratorsTakeNoDeviceMemoryHoweverManyGraphsDrawFromThem) {
  for (const size_t graphs : {1, 3, 10}) {
    std::vector<MemoryUsage> usages;
    for (const size_t count : {1, 20}) {
      const int64_t calls = device_.ledger().calls();
      std::vector<std::unique_ptr<Generator>> generators;
      for (size_t i = 0; i < count; ++i)
        generators.push_back(shared_.Clone());
      EXPECT_EQ(device_.ledger().calls(), calls);
      Open();
      for (size_t i = 0; i < graphs; ++i) {
        const Program* f = AddPhilox(fmt::format("f{}", i), 4, generators[i % count].get());
        for (int call = 0; call < 3; ++call)
          Run(f, {x_}).Release();
      }
      usages.push_back(session_->memory().usage());
      Close();
    }
    EXPECT_EQ(usages[0], usages[1]) << graphs << " graphs";
  }
}

TEST_F(GeneratorCallTest, EveryNumberIsDrawnOnceInCallOrderWhateverBecomesOfCalls) {
  Open({.limits = {.graphs_per_program_max = 1}});
  session_->SetSeed(11);
  const std::vector<const Program*> programs = {AddPhilox("a", 4), AddPhilox("b", 8),
                                                AddPhilox("c", 12), AddPhilox("d", 20)};
  const std::vector<int64_t> counts = {4, 8, 12, 20};
  std::mt19937 random(3);
  int64_t offset = 0;
  int64_t failed = 0;
  for (int64_t i = 0; i < 100'000 / TestShare(); ++i) {
    const auto draw = random() % 1000;
    if (draw == 0) {
      session_->SetStance(random() % 3 == 0 ? Stance::kEager : Stance::kRecord);
    } else if (draw == 1) {
      ASSERT_OK(session_->Evict(nullptr));
    } else if (draw == 2) {
      ASSERT_OK(session_->memory().Suspend({}));
      EXPECT_FALSE(TryRun(programs[0], {x_}).ok());
      ASSERT_OK(session_->memory().Resume());
    } else if (draw < 20) {
      device_.ledger().Inject(
          {.nth = 1 + static_cast<int64_t>(random() % 6), .result = CuResult::kInvalidHandle});
    }
    const size_t which = random() % programs.size();
    const absl::StatusOr<Lease> lease = TryRun(programs[which], {x_});
    device_.ledger().ClearFaults();
    if (!lease.ok()) {
      ++failed;
      continue;
    }
    ASSERT_EQ(ValuesOf<uint32_t>(*lease), HostNumbers(11, offset, counts[which])) << "call " << i;
    offset += counts[which];
  }
  EXPECT_EQ(session_->generator().GetState(), (State{11, offset}));
  EXPECT_GT(failed, 0);
  EXPECT_THAT(session_->stats().runs[static_cast<size_t>(RunKind::kReplay)],
              Ge(1000 / TestShare()));
}

}  // namespace
}  // namespace coppice
