// Goal: a case has what the last calls were given, bit by bit, however they ran; recording takes
// the driver calls that the header says, and none when it is off. Method: programs of the session's
// fixture and of a package, whose cases are read again.

#include "coppice/graphs/flight_recorder.h"

#include <bit>
#include <cstring>
#include <malloc.h>

#include "coppice/graphs/case_file.h"

#include "tests/graphs/package_fixture.h"
#include "tests/graphs/session_fixture.h"
#include "tests/package/package_builder.h"
#include "tests/support/test.h"
#include "tests/support/test_share.h"

namespace coppice {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<float> FloatsOf(const Case& value, const std::string& tensor) {
  const auto found = value.tensors.find(tensor);
  if (found == value.tensors.end()) return {};
  std::vector<float> floats(found->second.bytes.size() / sizeof(float));
  std::memcpy(floats.data(), found->second.bytes.data(), found->second.bytes.size());
  return floats;
}

Case SavedBy(const Session& session, const SaveCaseOptions& options = {}) {
  const package::TemporaryFolder folder;
  const std::string path = folder / "x.coppice-case";
  EXPECT_OK(session.recorder().Save(path, "a test", options));
  absl::StatusOr<Case> read = ReadCase(path);
  EXPECT_OK(read);
  return read.ok() ? *std::move(read) : Case();
}

SessionOptions Recording(RecorderOptions recorder = {.ring_bytes = 1 << 20}) {
  SessionOptions options;
  options.recorder = recorder;
  return options;
}

class FlightRecorderTest : public SessionFixture {
 protected:
  FlightRecorderTest() : SessionFixture(DriverLedger::Options{}) {}
};

TEST_F(FlightRecorderTest, KeepsWhatCallsWereGivenHoweverTheyRan) {
  const Affine affine = MakeAffine(Recording());
  const std::vector<int64_t> sizes = {5, 7, 6, 100, 8, 1};
  for (const int64_t n : sizes)
    ASSERT_OK(Call(affine, n, /*factor=*/static_cast<double>(n)));
  const Case saved = SavedBy(*affine.session);
  ASSERT_THAT(saved.calls, SizeIs(sizes.size()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    const CaseCall& call = saved.calls[i];
    EXPECT_EQ(call.number, i + 1);
    EXPECT_TRUE(call.ran);
    EXPECT_TRUE(call.arrived);
    EXPECT_THAT(call.extents, ElementsAre(sizes[i]));
    EXPECT_THAT(call.scalars, ElementsAre(std::bit_cast<int64_t>(static_cast<double>(sizes[i]))));
    EXPECT_EQ(FloatsOf(saved, call.inputs[0].tensor), Ramp(sizes[i])) << "call " << i + 1;
  }
  EXPECT_EQ(saved.calls[0].kind, RunKind::kWarmUp);
  EXPECT_EQ(saved.calls[0].reason, Reason::kNewBucket);
  EXPECT_EQ(saved.calls[3].kind, RunKind::kEager);
  EXPECT_THAT(saved.calls[3].bucket, ElementsAre(100)) << "it ran at its own size";
  EXPECT_THAT(saved.calls[1].bucket, ElementsAre(8));
  ASSERT_THAT(saved.programs, SizeIs(1));
  EXPECT_EQ(saved.programs[0].name, "affine");
  EXPECT_THAT(saved.programs[0].package_program, IsEmpty());
  EXPECT_EQ(saved.programs[0].symbols[0].claim->padding, PaddingContents::kRowIndependent);
  EXPECT_EQ(saved.why, "a test");
  EXPECT_THAT(saved.error, IsEmpty());
  EXPECT_EQ(saved.driver, "emulator");
}

TEST_F(FlightRecorderTest, KeepsReplays) {
  const Affine affine = MakeAffine(Recording());
  CallTimes(4, affine, 6);
  const Case saved = SavedBy(*affine.session);
  ASSERT_THAT(saved.calls, SizeIs(4));
  EXPECT_EQ(saved.calls[3].kind, RunKind::kReplay);
  EXPECT_EQ(FloatsOf(saved, saved.calls[3].inputs[0].tensor), Ramp(6));
}

// A program of a fixed size and 0 to 13 scalars: nothing is staged.
class PlainRecorderTest : public FlightRecorderTest {
 protected:
  const Program* Open(const SessionOptions& options, size_t scalars, GateMode gate = {}) {
    session_ = MakeSession(options);
    ProgramSpec spec{.name = "plain"};
    spec.gate = gate;
    spec.outputs = {{.name = "y", .dtype = DType::kFloat32, .dims = {Dim::Fixed(8)}}};
    values_.clear();
    for (size_t i = 0; i < scalars; ++i) {
      spec.scalars.push_back({.name = "s" + std::to_string(i)});
      values_.push_back(static_cast<int64_t>(100 + i));
    }
    program_ = *session_->Register(spec, [this](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      return LaunchFill(context, y.data, 8, 1);
    });
    return program_;
  }
  absl::Status Run() {
    return session_->Run({.program = program_, .scalars = values_, .stream = device_.stream()})
        .status();
  }

  std::unique_ptr<Session> session_;
  const Program* program_ = nullptr;
  std::vector<int64_t> values_;
};

TEST_F(PlainRecorderTest, KeepsReplaysThatStageNothing) {
  for (const size_t scalars : {0, 1, 2, 3, 4, 7, 8, 13}) {
    SCOPED_TRACE(scalars);
    Open(Recording(), scalars);
    for (int i = 0; i < 4; ++i)
      ASSERT_OK(Run());
    const int64_t before = device_.ledger().calls();
    ASSERT_OK(Run());
    EXPECT_EQ(device_.ledger().calls() - before, 1) << "a launch, and no copy";
    // Calls that the driver refuses have their entry until another call has their number.
    device_.ledger().Inject(
        {.entry = DriverLedger::IndexOf(&DriverTable::GraphLaunch), .forever = true});
    for (int i = 0; i < 3; ++i)
      EXPECT_FALSE(Run().ok());
    device_.ledger().ClearFaults();
    const Case refused = SavedBy(*session_);
    ASSERT_THAT(refused.calls, SizeIs(6));
    EXPECT_FALSE(refused.calls[5].ran);
    ASSERT_OK(Run());
    const Case saved = SavedBy(*session_);
    ASSERT_THAT(saved.calls, SizeIs(6));
    for (size_t i = 0; i < saved.calls.size(); ++i) {
      const CaseCall& call = saved.calls[i];
      EXPECT_TRUE(call.ran) << i;
      EXPECT_EQ(call.number, i + 1);
      EXPECT_THAT(call.extents, IsEmpty());
      EXPECT_EQ(call.scalars, values_);
      EXPECT_EQ(call.kind, i == 0   ? RunKind::kWarmUp
                           : i == 1 ? RunKind::kRecord
                                    : RunKind::kReplay);
    }
  }
}

TEST_F(PlainRecorderTest, AFullRingLosesTheOldestReplays) {
  Open(Recording({.ring_bytes = 4 << 10}), 3);
  for (int i = 0; i < 200; ++i)
    ASSERT_OK(Run());
  const Case saved = SavedBy(*session_);
  ASSERT_GT(saved.calls.size(), 10U);
  for (size_t i = 0; i < saved.calls.size(); ++i)
    EXPECT_EQ(saved.calls[i].number, 200 - saved.calls.size() + 1 + i);
  EXPECT_EQ(saved.calls_dropped, 200 - std::ssize(saved.calls));
}

TEST_F(PlainRecorderTest, KeepsWhatTheRingOfARunningSessionIsGivenFirst) {
  Open({}, 2);
  for (int i = 0; i < 3; ++i)
    ASSERT_OK(Run());
  ASSERT_OK(session_->recorder().Start({.ring_bytes = 1 << 20}));
  device_.ledger().Inject({.entry = DriverLedger::IndexOf(&DriverTable::GraphLaunch)});
  EXPECT_FALSE(Run().ok());
  device_.ledger().ClearFaults();
  ASSERT_OK(Run());
  const Case saved = SavedBy(*session_);
  ASSERT_THAT(saved.calls, SizeIs(1));
  EXPECT_EQ(saved.calls[0].number, 4U);
  EXPECT_TRUE(saved.calls[0].ran);
}

// What a call is asked before it replays does not depend on the recorder.
TEST_F(PlainRecorderTest, RecordedCallsVoteAndAreGatedAsOthers) {
  std::vector<int64_t> votes;
  std::vector<int64_t> eager;
  for (const int64_t ring_bytes : {0, 1 << 20}) {
    SessionOptions options = Recording({.ring_bytes = ring_bytes});
    int64_t voted = 0;
    options.ranks.vote = [&voted](RankVote& /*vote*/) {
      ++voted;
      return absl::OkStatus();
    };
    Open(options, 2);
    for (int i = 0; i < 10; ++i)
      ASSERT_OK(Run());
    votes.push_back(voted);
    Open(Recording({.ring_bytes = ring_bytes}), 2, GateMode::kOn);
    for (int i = 0; i < 60; ++i) {
      ASSERT_OK(Run());
      ASSERT_OK(device_.Synchronize());
    }
    eager.push_back(session_->stats().runs[static_cast<size_t>(RunKind::kEager)]);
  }
  EXPECT_EQ(votes[0], votes[1]);
  EXPECT_GT(votes[0], 5);
  EXPECT_GT(eager[0], 5) << "the gate times both ways";
  EXPECT_GT(eager[1], 5);
}

TEST_F(FlightRecorderTest, NamesTheCallWhoseOutputIsReadInPlace) {
  ProgramSpec spec = AffineSpec();
  spec.claim = PaddingContents::kAny;
  const Affine affine = MakeAffine(Recording(), nullptr, spec);
  CallTimes(2, affine, 8);
  for (int i = 0; i < 3; ++i) {
    absl::StatusOr<Lease> first = Call(affine, 8);
    ASSERT_OK(first);
    const ReadScope scope = *first->Read(device_.stream());
    const Tensor y = scope.output(0);
    ASSERT_OK(Call(affine, 8, 2, [&](coppice::Call& call) { call.inputs = {&y, 1}; }));
  }
  const Case saved = SavedBy(*affine.session);
  const CaseCall& last = saved.calls.back();
  ASSERT_THAT(last.inputs, SizeIs(1));
  EXPECT_EQ(last.inputs[0].output, 0);
  EXPECT_EQ(last.inputs[0].call, last.number - 1);
  EXPECT_EQ(last.inputs[0].at, 0);
  EXPECT_THAT(last.inputs[0].tensor, IsEmpty());
}

TEST_F(FlightRecorderTest, KeepsOutputsIfItIsAskedTo) {
  const Affine affine = MakeAffine(Recording({.ring_bytes = 1 << 20, .outputs = true}));
  for (const int64_t n : {5, 6, 7, 100})
    ASSERT_OK(Call(affine, n));
  const Case saved = SavedBy(*affine.session);
  for (const CaseCall& call : saved.calls) {
    ASSERT_THAT(call.outputs, SizeIs(1));
    EXPECT_EQ(FloatsOf(saved, call.outputs[0]), Expected(call.extents[0])) << call.number;
  }
}

TEST_F(FlightRecorderTest, KeepsSmallStaticInputsAsTheyWereBeforeEachCall) {
  const Affine affine = MakeAffine(Recording({.ring_bytes = 1 << 20, .static_bytes_max = 4}));
  CallTimes(3, affine, 5);
  const Case saved = SavedBy(*affine.session);
  for (size_t i = 0; i < saved.calls.size(); ++i) {
    ASSERT_THAT(saved.calls[i].statics, SizeIs(2));
    EXPECT_THAT(FloatsOf(saved, saved.calls[i].statics[1].tensor),
                ElementsAre(static_cast<float>(i)))
        << "the counter before call " << i + 1;
  }
}

TEST_F(FlightRecorderTest, ReadsOtherStaticInputsWhenItSaves) {
  const Affine affine = MakeAffine(Recording());
  CallTimes(3, affine, 5);
  Case saved = SavedBy(*affine.session);
  ASSERT_THAT(saved.bindings, SizeIs(1));
  EXPECT_THAT(FloatsOf(saved, saved.bindings[0].statics[1].tensor), ElementsAre(3));
  saved = SavedBy(*affine.session, {.static_bytes_max = 0});
  EXPECT_THAT(saved.bindings[0].statics[1].tensor, IsEmpty());
}

TEST_F(FlightRecorderTest, SavesCallsWhoseBindingIsGone) {
  Affine affine = MakeAffine(Recording());
  CallTimes(2, affine, 5);
  constexpr int64_t kBindings = 1100;  // After 1,024 ends one that stayed ended is gone.
  constexpr int64_t kAlignment = 16;
  const DeviceMemory counters = *DeviceMemory::Create(device_.driver(), kBindings * kAlignment);
  ASSERT_OK(affine.session->Unbind(*affine.binding));
  const Binding* other = nullptr;
  for (DeviceAddress i = 0; i < kBindings; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(
        other,
        affine.session->Bind(*affine.program, AffineStatics(counters.address() + i * kAlignment)));
    ASSERT_OK(affine.session->Unbind(*other));
  }
  const Case saved = SavedBy(*affine.session);
  ASSERT_THAT(saved.calls, SizeIs(2));
  ASSERT_THAT(saved.bindings, SizeIs(1));
  EXPECT_THAT(saved.bindings[0].statics[1].tensor, IsEmpty());
}

TEST_F(FlightRecorderTest, BeginsAndEndsOnARunningSession) {
  const Affine affine = MakeAffine();
  EXPECT_FALSE(affine.session->recorder().running());
  CallTimes(3, affine, 5);
  EXPECT_EQ(affine.session->recorder().Save("x", "", {}).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(affine.session->recorder().Start({.ring_bytes = 1 << 16}));
  EXPECT_TRUE(affine.session->recorder().running());
  CallTimes(2, affine, 6);
  Case saved = SavedBy(*affine.session);
  ASSERT_THAT(saved.calls, SizeIs(2));
  EXPECT_EQ(saved.calls[0].number, 4U);
  ASSERT_OK(affine.session->recorder().Start({.ring_bytes = 1 << 16}));
  CallTimes(1, affine, 6);
  EXPECT_THAT(SavedBy(*affine.session).calls, SizeIs(1)) << "it begins with empty rings";
  affine.session->recorder().Stop();
  EXPECT_FALSE(affine.session->recorder().running());
  ExpectRun(affine, 6, RunKind::kReplay);
}

TEST_F(FlightRecorderTest, RefusesWrongOptions) {
  const Affine affine = MakeAffine();
  SessionRecorder& recorder = affine.session->recorder();
  for (const RecorderOptions& options :
       {RecorderOptions{}, RecorderOptions{.ring_bytes = -1},
        RecorderOptions{.ring_bytes = (int64_t{1} << 40) + 1},
        RecorderOptions{.ring_bytes = 64, .calls_max = 0},
        RecorderOptions{.ring_bytes = 64, .static_bytes_max = -1},
        RecorderOptions{.ring_bytes = 64, .copy_ns_max = -1},
        RecorderOptions{.ring_bytes = 64, .copy_ns_max = 1'000'000'001}})
    EXPECT_EQ(recorder.Start(options).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(recorder.running());
  ASSERT_OK(recorder.Start({.ring_bytes = 1 << 16}));
  CallTimes(1, affine, 5);
  EXPECT_FALSE(recorder.Start({.ring_bytes = -1}).ok());
  EXPECT_THAT(SavedBy(*affine.session).calls, SizeIs(1)) << "it goes on as before";
  for (const SaveCaseOptions& options :
       {SaveCaseOptions{.lane = 1}, SaveCaseOptions{.lane = -1},
        SaveCaseOptions{.package_bytes_max = -1}, SaveCaseOptions{.static_bytes_max = -1}})
    EXPECT_EQ(recorder.Save("x", "", options).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(recorder.Save("/nowhere/x", "", {}).code(), absl::StatusCode::kNotFound);
}

TEST_F(FlightRecorderTest, TakesOneMoreDriverCallIfSomethingIsStagedAndNoneWhenItIsOff) {
  const Affine affine = MakeAffine();
  CallTimes(3, affine, 5);
  const Tensor x = FloatsAt(uploads_.back().address(), 5);
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  const coppice::Call call{.program = affine.program,
                           .binding = affine.binding,
                           .inputs = {&x, 1},
                           .scalars = {&scalar, 1},
                           .stream = device_.stream()};
  const auto calls_of_a_run = [&] {
    EXPECT_OK(affine.session->Run(call));
    const int64_t before = device_.ledger().calls();
    EXPECT_OK(affine.session->Run(call));
    return device_.ledger().calls() - before;
  };
  EXPECT_EQ(calls_of_a_run(), 2);
  ASSERT_OK(affine.session->recorder().Start({.ring_bytes = 1 << 20}));
  EXPECT_EQ(calls_of_a_run(), 3);
  ASSERT_OK(affine.session->recorder().Start({.ring_bytes = 1 << 20, .outputs = true}));
  EXPECT_EQ(calls_of_a_run(), 5);
  affine.session->recorder().Stop();
  EXPECT_EQ(calls_of_a_run(), 2);
}

TEST_F(FlightRecorderTest, ReplacesValuesButKeepsSpecialOnes) {
  const Affine affine = MakeAffine(Recording());
  std::vector<float> values = Ramp(8);
  values[2] = 0;
  values[5] = std::numeric_limits<float>::infinity();
  const DeviceMemory memory = *device_.Upload(values);
  const Tensor x = FloatsAt(memory.address(), 8);
  ASSERT_OK(Call(affine, 8, 2, [&](coppice::Call& call) { call.inputs = {&x, 1}; }));
  const Case noise = SavedBy(*affine.session, {.values = CaseValues::kNoise});
  EXPECT_EQ(noise.values, CaseValues::kNoise);
  for (const float value : FloatsOf(noise, noise.calls[0].inputs[0].tensor)) {
    EXPECT_GE(std::abs(value), 0.5F);
    EXPECT_LT(std::abs(value), 1.0F);
  }
  const Case special = SavedBy(*affine.session, {.values = CaseValues::kSpecial});
  const std::vector<float> kept = FloatsOf(special, special.calls[0].inputs[0].tensor);
  EXPECT_EQ(kept[2], 0);
  EXPECT_EQ(kept[5], values[5]);
  EXPECT_LT(std::abs(kept[7]), 1.0F);
}

TEST_F(FlightRecorderTest, ASmallRingKeepsTheLastCalls) {
  const Affine affine = MakeAffine(Recording({.ring_bytes = 8 << 10}));
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(Call(affine, 1 + i % 8));
    ASSERT_OK(device_.Synchronize());
  }
  const Case saved = SavedBy(*affine.session);
  ASSERT_FALSE(saved.calls.empty());
  EXPECT_EQ(saved.calls.back().number, 50U);
  EXPECT_EQ(saved.calls.front().number, 50U - saved.calls.size() + 1);
  EXPECT_EQ(saved.calls_dropped, 50 - std::ssize(saved.calls));
  EXPECT_EQ(saved.calls_refused, 0);
}

TEST_F(FlightRecorderTest, ALimitOnTheTimeOfCopiesSkipsCalls) {
  for (const int64_t limit_ns : {1, 1'000'000'000}) {
    const Affine affine = MakeAffine(Recording({.ring_bytes = 1 << 20, .copy_ns_max = limit_ns}));
    for (int i = 0; i < 50; ++i)
      ASSERT_OK(Call(affine, 1 + i % 8));
    const Case saved = SavedBy(*affine.session);
    // One copy costs more than 1 ns per call, and less than a second.
    EXPECT_EQ(std::ssize(saved.calls), limit_ns == 1 ? 1 : 50);
    EXPECT_EQ(std::ssize(saved.calls) + saved.calls_skipped, 50);
    EXPECT_EQ(saved.calls.front().number, 1U);
  }
}

class PackageRecorderTest : public PackageSessionFixture {};

TEST_F(PackageRecorderTest, HasThePackageAndItsDigest) {
  const Program* const program = Open(DiamondProgram(), Recording());
  const Tensor x = Upload(Ramp(5));
  ASSERT_OK(Run(*session_, *program, {x}));
  const Case saved = SavedBy(*session_);
  EXPECT_EQ(saved.programs[0].package_program, "main");
  EXPECT_EQ(saved.programs[0].package_sha256, loaded_[0]->manifest().sha256);
  EXPECT_EQ(saved.package, *zips_[0]);
  EXPECT_THAT(SavedBy(*session_, {.package_bytes_max = 100}).package, IsEmpty());
}

// A million calls in a full run: the ring goes round, and nothing but it grows.
TEST_F(PackageRecorderTest, LongTrafficLosesTheOldestCallsOnly) {
  const int64_t calls = 1'000'000 / TestShare();
  const int64_t ring_bytes = (int64_t{256} << 20) / TestShare();
  json scale = DiamondProgram();
  scale["buffers"].erase("twice");
  scale["buffers"].erase("thrice");
  scale["steps"] = json::array({package::ScaleStep("x", "y", "n", "2")});
  const Program* const program = Open(scale, Recording({.ring_bytes = ring_bytes}));
  const Tensor whole = Upload(Ramp(32));
  int64_t heap_bytes = 0;
  for (int64_t i = 0; i < calls; ++i) {
    const Tensor x = FloatsAt(whole.data, 1 + i * 7 % 32);
    ASSERT_OK(Run(*session_, *program, {x}));
    if (i % 64 == 0 || i + 1 == calls) {
      ASSERT_OK(device_.Synchronize());  // Servers wait for their results, too.
    }
    if (i == calls / 10 / 64 * 64) heap_bytes = static_cast<int64_t>(mallinfo2().uordblks);
  }
  EXPECT_LE(static_cast<int64_t>(mallinfo2().uordblks), heap_bytes + (1 << 14));
  const Case saved = SavedBy(*session_);
  ASSERT_FALSE(saved.calls.empty());
  EXPECT_GT(saved.calls_dropped, 0);
  EXPECT_EQ(saved.calls_refused, 0);
  EXPECT_EQ(saved.calls_dropped + std::ssize(saved.calls), calls);
  for (size_t i = 0; i < saved.calls.size(); ++i) {
    const CaseCall& call = saved.calls[i];
    ASSERT_EQ(call.number, static_cast<uint64_t>(calls) - saved.calls.size() + 1 + i);
    ASSERT_TRUE(call.arrived);
    const auto n = 1 + static_cast<int64_t>(call.number - 1) * 7 % 32;
    ASSERT_THAT(call.extents, ElementsAre(n));
    ASSERT_EQ(FloatsOf(saved, call.inputs[0].tensor), Ramp(n));
  }
}

TEST(FlightRecorderFaultTest, IsSavedAfterAFault) {
  Emulator::Options options = TestEmulatorOptions();
  auto emulator = *Emulator::Create(options);
  const Context context = *Context::Create(emulator->driver());
  const Stream stream = *Stream::Create(emulator->driver());
  const std::string zip = [] {
    package::PackageBuilder builder = package::SmallKernels();
    builder.manifest["programs"]["main"] = DiamondProgram();
    return builder.Zip();
  }();
  const auto loaded = *package::LoadedPackage::Load(
      context, *package::Package::FromMemory(package::BytesOf(zip), "test.zip", {}), {});
  SessionOptions session_options = Recording();
  const auto session = *Session::Create(context, session_options);
  const Program* const program = *session->Register(*loaded, "main", {});
  const std::vector<float> values = {1, 2, 3, 4, 5};
  std::optional<DeviceMemory> memory(*DeviceMemory::Create(emulator->driver(), 20));
  ASSERT_OK(emulator->driver().Call<&DriverTable::MemcpyHtoDAsync>(memory->address(), values.data(),
                                                                   size_t{20}, stream.handle()));
  ASSERT_OK(stream.Synchronize());
  const Tensor x = FloatsAt(memory->address(), 5);
  const Call call{.program = program, .inputs = {&x, 1}, .stream = stream.handle()};
  ASSERT_OK(session->Run(call));
  ASSERT_OK(stream.Synchronize());
  memory.reset();
  // Nothing may have run yet: the fault shows when somebody waits.
  (void)session->Run(call);
  EXPECT_FALSE(stream.Synchronize().ok());
  const Case saved = SavedBy(*session);
  EXPECT_THAT(saved.error, HasSubstr("700"));
  ASSERT_THAT(saved.calls, SizeIs(2));
  EXPECT_TRUE(saved.calls[0].arrived);
  EXPECT_EQ(FloatsOf(saved, saved.calls[0].inputs[0].tensor), values);
  EXPECT_FALSE(saved.calls[1].arrived);
  EXPECT_THAT(saved.calls[1].inputs[0].tensor, IsEmpty());
}

}  // namespace
}  // namespace coppice
