// Goal: every sentence of generator.h, and what session.h and program.h say of random numbers.
// Method: programs whose kernel draws by Philox from the state in their parameter block, against a
// Philox on the host that is held to the vectors of its authors and to numbers that PyTorch draws.

#include "coppice/graphs/generator.h"

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/graphs/torch_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_share.h"

namespace coppice {
namespace {

using testing::ElementsAre;
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
    EXPECT_THAT(generator.SetState({.offset = offset}),
                StatusIs(absl::StatusCode::kInvalidArgument));
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
