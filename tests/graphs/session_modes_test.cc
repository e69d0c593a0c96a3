// Goal: strict stance, the gate, the audit of keys and the check of addresses do what session.h
// says. Method: affine on the emulator; time comes from the latency model.

#include "tests/graphs/session_fixture.h"
#include "tools/ledger/latency_model.h"

namespace coppice {
namespace {

class SessionModesTest : public SessionFixture {
 protected:
  // Expects the audit to refuse affine with a Fill whose shape depends on how often it has run.
  void ExpectFillIsNamed(LaunchShape (*shape_of)(unsigned runs)) {
    unsigned runs = 0;
    const Affine affine = MakeAffine(
        {.checks = {.audit_keys = true}}, AffineCallable([&](CallContext& context) {
          return Launch(
              context.driver(), kernels_.fill, context.stream(),
              FillParams{.target = PointerAt<float>(one_.address()), .count = 1, .value = 1},
              shape_of(++runs));
        }));
    ASSERT_OK(Call(affine, 4).status());
    const absl::Status refused = Call(affine, 4).status();
    EXPECT_THAT(refused, StatusIs(kWrongArgument, HasSubstr("Fill")));
    EXPECT_EQ(Call(affine, 4).status(), refused);
  }
};

TEST_F(SessionModesTest, StrictStanceRefusesEverythingButAReplay) {
  const Affine affine = MakeAffine();
  CallTimes(2, affine, 4);
  affine.session->SetStance(Stance::kStrict);
  ExpectRun(affine, 4, RunKind::kReplay);
  EXPECT_THAT(Call(affine, 7),
              StatusIs(kRefused, HasSubstr("on lane 0 at extents [7] in bucket [8]: new_bucket")));
  EXPECT_EQ(Executions(), 3);
  affine.session->SetStance(Stance::kRecord);
  ExpectRun(affine, 8, RunKind::kWarmUp);
}

TEST_F(SessionModesTest, ProgramThatIsAlwaysEagerIsNeverRecorded) {
  ProgramSpec spec = AffineSpec();
  spec.gate = GateMode::kAlwaysEager;
  const Affine affine = MakeAffine({}, nullptr, spec);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(Call(affine, 4)->reason(), Reason::kUserDisabled);
}

// A device on which a launch of a graph takes as many microseconds as the parameter says, and every
// other call one.
class SessionGateTest : public testing::TestWithParam<double>, protected AffineDevice {
 protected:
  SessionGateTest() : AffineDevice({.latency = &ModelOf(GetParam())}) {}

  static const LatencyModel& ModelOf(double launch_us) {
    static std::map<double, LatencyModel> models;
    const std::string table =
        "entry\tcall_us\tnode_us\tmib_us\tsource\ndefault\t1\t0\t0\tthe test\n" +
        fmt::format("cuGraphLaunch\t{}\t0\t0\tthe test\n", launch_us);
    return models.try_emplace(launch_us, *LatencyModel::Parse(table, "test")).first->second;
  }

  // Runs calls until the gate has all it asked for; the device runs them between.
  void RunCalls(const Affine& affine, int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(Read(*Call(affine, 4)), Expected(4));
    }
  }
};

TEST_P(SessionGateTest, KeepsTheFasterWayOfEachBucket) {
  const Affine affine = MakeAffine({.gate = true});
  RunCalls(affine, 60);
  const bool graph_is_faster = GetParam() < 3;
  const absl::StatusOr<Lease> lease = Call(affine, 4);
  ASSERT_OK(lease);
  EXPECT_EQ(lease->kind(), graph_is_faster ? RunKind::kReplay : RunKind::kEager);
  EXPECT_EQ(lease->reason(), graph_is_faster ? Reason::kNone : Reason::kGateSaysEager);
  EXPECT_EQ(Executions(), 61);
}

TEST_P(SessionGateTest, StartsOverAfterAnEviction) {
  const Affine affine = MakeAffine({.gate = true});
  RunCalls(affine, 60);
  ASSERT_OK(affine.session->Evict(nullptr).status());
  EXPECT_EQ(Call(affine, 4)->kind(), RunKind::kRecord);
  const SessionStats before = affine.session->stats();
  RunCalls(affine, 10);
  const SessionStats after = affine.session->stats();
  for (const RunKind path : {RunKind::kEager, RunKind::kReplay})
    EXPECT_GT(after.runs[static_cast<size_t>(path)], before.runs[static_cast<size_t>(path)]);
}

TEST_P(SessionGateTest, ProgramMayBeForcedOneWay) {
  ProgramSpec off = AffineSpec("off");
  off.gate = GateMode::kOff;
  const Affine affine = MakeAffine({.gate = true}, nullptr, off);
  RunCalls(affine, 60);
  EXPECT_EQ(affine.session->stats().runs[static_cast<size_t>(RunKind::kReplay)], 58);
  ProgramSpec on = AffineSpec("on");
  on.gate = GateMode::kOn;
  const Affine gated = MakeAffine({}, nullptr, on);
  RunCalls(gated, 20);
  EXPECT_GT(gated.session->stats().runs[static_cast<size_t>(RunKind::kEager)], 0);
}

INSTANTIATE_TEST_SUITE_P(Launches, SessionGateTest, testing::Values(0.5, 50.0));

TEST_F(SessionModesTest, AuditPassesAProgramWhoseGraphDependsOnItsKeyAlone) {
  const Affine affine = MakeAffine({.checks = {.audit_keys = true}});
  for (const RunKind path :
       {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay, RunKind::kReplay})
    ExpectRun(affine, 4, path);
}

TEST_F(SessionModesTest, AuditNamesAKernelThatCountsItsRuns) {
  ExpectFillIsNamed([](unsigned runs) -> LaunchShape { return {.grid = {runs}}; });
}

TEST_F(SessionModesTest, AuditNamesAKernelWhoseAttributesChange) {
  ExpectFillIsNamed([](unsigned runs) -> LaunchShape { return {.cooperative = runs % 2 == 0}; });
}

TEST_F(SessionModesTest, AuditNamesTheParameterThatAHostVariableChangedBetweenCalls) {
  float value = 1;
  const Affine affine =
      MakeAffine({.checks = {.audit_keys = true}}, AffineCallable([&](CallContext& context) {
                   return LaunchFill(context, one_.address(), 1, value);
                 }));
  ASSERT_OK(Call(affine, 4).status());
  ASSERT_OK(Call(affine, 4).status());
  value = 3;
  EXPECT_THAT(
      Call(affine, 4),
      StatusIs(kWrongArgument, HasSubstr("parameter 0 of kernel 'Fill' differs in bytes [1")));
}

TEST_F(SessionModesTest, CheckedAddressOfAFreedStaticInputIsRefused) {
  const Affine affine = MakeAffine({.checks = {.addresses = true}});
  auto counter = *device_.Upload(std::vector<float>{0});
  const Binding* binding = *affine.session->Bind(*affine.program, AffineStatics(counter.address()));
  const auto with_binding = [&](coppice::Call& call) { call.binding = binding; };
  ASSERT_OK(Call(affine, 4, 2, with_binding).status());
  { const DeviceMemory gone = std::move(counter); }
  EXPECT_THAT(Call(affine, 4, 2, with_binding), StatusIs(kRefused, HasSubstr("freed")));
  ExpectRun(affine, 4, RunKind::kRecord);
}

TEST_F(SessionModesTest, CheckedAddressOfAFreedTargetIsRefused) {
  const Affine affine = MakeAffine({.checks = {.addresses = true}});
  auto y = *device_.Upload(Ramp(4));
  const Tensor target = FloatsAt(y.address(), 4);
  const auto into = [&](coppice::Call& call) {
    call.output_mode = OutputMode::kWriteInto;
    call.targets = {&target, 1};
  };
  ASSERT_OK(Call(affine, 4, 2, into).status());
  const int64_t calls = affine.session->stats().calls;
  { const DeviceMemory gone = std::move(y); }
  EXPECT_THAT(Call(affine, 4, 2, into),
              StatusIs(kRefused, HasSubstr("output 'y' of program 'affine'")));
  EXPECT_EQ(affine.session->stats().calls, calls);
}

TEST_F(SessionModesTest, CheckedAddressOfAnInputThatIsTheHostsOrWasFreedIsRefused) {
  const Affine affine = MakeAffine({.checks = {.addresses = true}});
  std::vector<float> host = Ramp(4);
  DeviceAddress freed = 0;
  {
    const DeviceMemory gone = *device_.Upload(Ramp(4));
    freed = gone.address();
  }
  for (const RunKind path : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay}) {
    for (const DeviceAddress address : {reinterpret_cast<DeviceAddress>(host.data()), freed}) {
      const Tensor x = FloatsAt(address, 4);
      const absl::Status refused = Call(affine, 4, 2, [&](coppice::Call& call) {
                                     call.inputs = {&x, 1};
                                   }).status();
      EXPECT_THAT(refused, StatusIs(kRefused, HasSubstr("input 'x' of program 'affine'")));
    }
    ExpectRun(affine, 4, path);
  }
  const Tensor empty = FloatsAt(0, 0);
  EXPECT_OK(Call(affine, 4, 2, [&](coppice::Call& call) { call.inputs = {&empty, 1}; }));
  EXPECT_EQ(Executions(), 4);
}

TEST_F(SessionModesTest, EndedBindingIsRefusedUntilItIsBoundAgain) {
  const Affine affine = MakeAffine();
  CallTimes(2, affine, 4);
  EXPECT_OK(affine.session->Unbind(*affine.binding));
  EXPECT_FALSE(affine.session->nodes()[0].recorded);
  EXPECT_THAT(Call(affine, 4), StatusIs(kRefused));
  EXPECT_EQ(*affine.session->Bind(*affine.program, AffineStatics(counter_.address())),
            affine.binding);
  ExpectRun(affine, 4, RunKind::kRecord);
}

}  // namespace
}  // namespace coppice
