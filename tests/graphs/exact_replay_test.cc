// Goal: replays at the sizes of their calls give what eager runs give, by one executable, and write
// nothing else. Method: packages of small PTX kernels on the emulator, at sizes of several buckets
// in any order, against sums computed here; the ledger counts driver calls.

#include "coppice/graphs/exact_replay.h"

#include "tests/graphs/dropping_driver.h"
#include "tests/graphs/package_fixture.h"
#include "tests/graphs/session_fixture.h"
#include "tests/support/host_allocations.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::ScaleStep;
using testing::Not;

class ExactReplayTest : public PackageFixture {
 protected:
  const Program* Open(const json& program, ExactReplay exact, const SessionOptions& options = {}) {
    session_ = MakeSession(options);
    absl::StatusOr<const Program*> registered =
        session_->Register(LoadProgram(program), "main", {.exact = exact});
    EXPECT_OK(registered);
    return registered.value_or(nullptr);
  }

  std::unique_ptr<Session> session_;
};

TEST_F(ExactReplayTest, CallsOfAllSizesShareOneExecutable) {
  const Program* program = Open(DiamondProgram(), ExactReplay::kAlways);
  for (const int64_t n : {100, 128, 65, 5, 1, 64, 100, 5, 127, 2}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *program, {Upload(Ramp(n))}));
    EXPECT_EQ(Read(lease), Times(Ramp(n), 5)) << n;
  }
  int64_t executables = 0;
  for (const NodeInfo& node : session_->nodes()) {
    executables += node.exec_bytes > 0 ? 1 : 0;
    EXPECT_EQ(node.family, 1);
  }
  EXPECT_GT(session_->nodes().size(), 2U);
  EXPECT_EQ(executables, 1);
  EXPECT_EQ(session_->stats().exact_replays, 10);
  EXPECT_EQ(session_->stats().real_elements, session_->stats().padded_elements);
}

TEST_F(ExactReplayTest, ASizeThatTheExecutableHasIsOneLaunch) {
  const Program* program = Open(DiamondProgram(), ExactReplay::kAlways);
  const auto call = [&](int64_t n) {
    const Tensor x = Upload(Ramp(n));
    const DriverLedger& ledger = device_.ledger();
    const int64_t before = ledger.calls(&DriverTable::GraphExecKernelNodeSetParams);
    EXPECT_OK(Run(*session_, *program, {x}));
    return ledger.calls(&DriverTable::GraphExecKernelNodeSetParams) - before;
  };
  EXPECT_GT(call(100), 0);
  EXPECT_EQ(call(100), 0);
  EXPECT_GT(call(101), 0);
  EXPECT_EQ(call(101), 0);
}

TEST_F(ExactReplayTest, KnownSizesAreSetWithoutAllocation) {
  const Driver driver = DroppingDriver(device_.driver());
  const Context context = *Context::Create(driver);
  const std::unique_ptr<Session> session = *Session::Create(context, {});
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Program* const program,
      session->Register(LoadProgram(DiamondProgram()), "main", {.exact = ExactReplay::kAlways}));
  const std::vector<int64_t> sizes = {100, 101, 101, 7, 300, 100, 100, 7};
  std::vector<Tensor> inputs;
  for (const int64_t n : sizes)
    inputs.push_back(Upload(Ramp(n)));
  for (int round = 0; round < 2; ++round) {
    for (const Tensor& x : inputs)
      ASSERT_OK(Run(*session, *program, {x}));
  }
  ASSERT_OK(device_.Synchronize());
  const int64_t patched = session->stats().patched_nodes;
  nodes_set = 0;
  work_is_dropped = true;
  host_allocations.count = 0;
  for (const Tensor& x : inputs) {
    const CountingScope counting(true);
    const absl::StatusOr<Lease> lease =
        session->Run({.program = program, .inputs = std::span(&x, 1), .stream = device_.stream()});
    if (!lease.ok() || lease->kind() != RunKind::kReplay) break;
  }
  work_is_dropped = false;
  EXPECT_EQ(host_allocations.count, 0);
  EXPECT_EQ(session->stats().exact_replays, std::ssize(sizes) * 3);
  EXPECT_EQ(nodes_set, 6 * 3) << "three launches at each size that is another than the one before";
  EXPECT_EQ(session->stats().patched_nodes - patched, nodes_set);
}

TEST_F(ExactReplayTest, AnOutputThatCopiesAnInputIsOfTheSizeOfTheCall) {
  const Program* main = Open(AliasedOutputsProgram(), ExactReplay::kAlways);
  for (const int64_t n : {100, 65, 65, 5, 300, 2, 128}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(n))}));
    const std::vector<float> y = Times(Ramp(n), 5);
    EXPECT_EQ(Read(lease, 0), y) << n;
    EXPECT_EQ(Read(lease, 1), Ramp(n)) << n;
    EXPECT_EQ(Read(lease, 2), std::vector<float>(y.begin() + 1, y.end())) << n;
  }
  EXPECT_EQ(session_->stats().exact_replays, 7);
}

TEST_F(ExactReplayTest, WorkOfALibraryKeepsAProgramAtItsBuckets) {
  json program = DiamondProgram();
  const auto view = [](const char* buffer) {
    return json{{"buffer", buffer}, {"dtype", "f32"}, {"shape", {"n", 1}}, {"strides", {1, 1}}};
  };
  const json one = {{"buffer", "x"}, {"dtype", "f32"}, {"shape", {1, 1}}, {"strides", {1, 1}}};
  program["steps"] = {ScaleStep("x", "twice", "n", "2"),
                      {{"op", "call"},
                       {"function", "gemm"},
                       {"inputs", {view("twice"), one, view("x")}},
                       {"outputs", json::array({view("y")})},
                       {"options", {{"alpha", "2"}, {"beta", "1"}}}}};
  program["buffers"].erase("thrice");
  const Program* main = Open(program, ExactReplay::kAlways);
  for (const int64_t n : {100, 65, 65, 5, 300, 100}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *main, {Upload(Ramp(n))}));
    EXPECT_EQ(Read(lease), Times(Ramp(n), 5)) << n;
  }
  EXPECT_EQ(session_->stats().exact_replays, 0);
  EXPECT_EQ(session_->stats().patched_nodes, 0);
}

TEST_F(ExactReplayTest, AnErrorOfTheDriverLeavesWhatLeasesShow) {
  const Program* program = Open(DiamondProgram(), ExactReplay::kAlways);
  for (const int64_t n : {100, 90, 100})
    ASSERT_OK(Run(*session_, *program, {Upload(Ramp(n))}));
  for (const auto entry : {DriverLedger::IndexOf(&DriverTable::GraphExecKernelNodeSetParams),
                           DriverLedger::IndexOf(&DriverTable::GraphLaunch)}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease shown, Run(*session_, *program, {Upload(Ramp(100))}));
    const Tensor x = Upload(Ramp(90));
    device_.ledger().Inject({.entry = entry, .result = CuResult::kOutOfMemory});
    EXPECT_THAT(Run(*session_, *program, {x}), Not(IsOk()));
    device_.ledger().ClearFaults();
    EXPECT_EQ(Read(shown), Times(Ramp(100), 5));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *program, {x}));
    EXPECT_EQ(Read(lease), Times(Ramp(90), 5));
  }
}

TEST_F(ExactReplayTest, AutoSetsASizeThatComesAgain) {
  const Program* program = Open(DiamondProgram(), ExactReplay::kAuto);
  const std::vector<std::pair<int64_t, int64_t>> calls = {{100, 0}, {100, 1}, {100, 2}, {99, 2},
                                                          {98, 2},  {98, 3},  {98, 4}};
  for (const auto& [n, exact] : calls) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session_, *program, {Upload(Ramp(n))}));
    EXPECT_EQ(Read(lease), Times(Ramp(n), 5)) << n;
    EXPECT_EQ(session_->stats().exact_replays, exact) << n;
  }
}

TEST_F(ExactReplayTest, RoomThatIsMadeForABucketTakesNoExecutableThatItShares) {
  // Two programs, of which each has an executable, with bytes for one or two beside the windows.
  const package::LoadedPackage& loaded = LoadProgram(DiamondProgram());
  int64_t evictions = 0;
  for (int64_t bytes = 8 * kKiB; bytes <= 96 * kKiB; bytes += 8 * kKiB) {
    session_ = MakeSession({.memory = {.budget_bytes = 4 * kMiB + bytes}});
    std::vector<const Program*> programs;
    for (const char* const name : {"first", "second"}) {
      COPPICE_ASSERT_OK_AND_ASSIGN(
          programs.emplace_back(),
          session_->Register(loaded, "main", {.name = name, .exact = ExactReplay::kAlways}));
    }
    for (const int64_t n : {3, 7, 20, 90, 5, 300, 50, 1000, 2, 100}) {
      for (const Program* const program : programs) {
        COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease,
                                     Run(*session_, *program, {Upload(Ramp(n))}));
        EXPECT_EQ(Read(lease), Times(Ramp(n), 5)) << n << " with " << bytes << " bytes";
      }
    }
    evictions += session_->stats().evictions;
  }
  EXPECT_GT(evictions, 0);
}

TEST_F(ExactReplayTest, ACallableCannotReplayAtExactSizes) {
  session_ = MakeSession();
  ProgramSpec spec{.name = "callable", .exact = ExactReplay::kAlways};
  EXPECT_THAT(session_->Register(spec, [](CallContext&) { return absl::OkStatus(); }),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace coppice
