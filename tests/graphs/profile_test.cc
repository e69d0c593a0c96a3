// Goal: profile.h and the two methods of session.h: what traffic recorded is recorded again before
// the next traffic, in its order, within limits, and a file that is wrong changes nothing.
// Method: two sessions on an emulator, and the file between them read and changed as JSON by
// nlohmann-json, with none of the library's own readers; files cut at every byte and with bytes
// changed by a seeded generator.

#include <tuple>

#include "nlohmann/json.hpp"

#include "coppice/graphs/session.h"
#include "coppice/runtime/loaded_package.h"

#include "tests/graphs/package_fixture.h"
#include "tests/graphs/profile_fixture.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::LoadedPackage;

using ProfileTest = ProfileFixture;

TEST_F(ProfileTest, SaysWhatWasLaunchedHowOften) {
  const Affine affine = Served({{4, 2}, {64, 3}});
  ASSERT_OK(affine.session->warming().SaveProfile(path_));
  const json saved = Saved();
  EXPECT_EQ(saved["schema"], "coppice-profile");
  EXPECT_EQ(saved["schema_version"], json({1, 0}));
  EXPECT_EQ(saved["device"]["driver"], "emulator");
  EXPECT_EQ(saved["device"]["name"], device_.context().DeviceName());
  ASSERT_EQ(saved["programs"].size(), 1U);
  const json& program = saved["programs"][0];
  EXPECT_EQ(program["name"], "affine");
  EXPECT_EQ(program["variant"], "");
  EXPECT_EQ(program["policies"], json({{{"symbol", "n"}, {"buckets", "pow2"}, {"max", kLargest}}}));
  const std::vector<NodeInfo> nodes = affine.session->nodes();
  ASSERT_EQ(program["buckets"].size(), 2U);
  for (const size_t i : {0, 1}) {
    const json& bucket = program["buckets"][i];
    EXPECT_EQ(bucket["extents"], json(nodes[i].bucket));
    EXPECT_EQ(bucket["scalars"], json({std::bit_cast<int64_t>(2.0)}));
    EXPECT_EQ(bucket["launches"], i == 0 ? 2 : 3);
    EXPECT_EQ(bucket["graph_nodes"], nodes[i].graph_nodes);
    EXPECT_EQ(bucket["plan_height"], nodes[i].plan_height);
    EXPECT_EQ(bucket["live_bytes"], nodes[i].live_bytes);
    EXPECT_EQ(bucket["graph_bytes"], nodes[i].exec_bytes);
  }
}

TEST_F(ProfileTest, EqualProfilesAreEqualCanonicalFiles) {
  Save({{4, 2}, {64, 3}});
  const std::string first = package::ReadBytes(path_);
  EXPECT_EQ(first, package::CanonicalJson(json::parse(first)));
  Save({{64, 3}, {4, 2}});
  EXPECT_EQ(package::ReadBytes(path_), first);
}

TEST_F(ProfileTest, TheNextSessionReplaysFromItsFirstCallOn) {
  Save({{4, 2}, {16, 1}, {64, 3}});
  const Affine next = MakeAffine();
  const int executions = Executions();
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded, Load(next));
  EXPECT_EQ(loaded.recorded, 3);
  EXPECT_THAT(loaded.skipped, IsEmpty());
  EXPECT_EQ(Executions(), executions) << "warm-ups write to the scratch binding";
  EXPECT_EQ(next.session->memory().usage().of(MemoryKind::kEager), 0);
  for (const int64_t n : {4, 13, 64})
    ExpectRun(next, n, RunKind::kReplay);
  EXPECT_EQ(next.session->stats().runs[static_cast<size_t>(RunKind::kReplay)], 3);
}

TEST_F(ProfileTest, RecordsFirstWhatSavesMost) {
  Save({{4, 2}, {8, 5}, {16, 1}, {64, 3}});
  const Affine next = MakeAffine();
  ASSERT_OK(Load(next));
  EXPECT_THAT(Recorded(*next.session), ElementsAre(8, 64, 4, 16));
  // A bucket of as many nodes more weighs as much as one of as many launches more.
  json profile = Saved();
  profile["programs"][0]["buckets"][2]["graph_nodes"] = 1000;
  Write(profile);
  const Affine weighed = MakeAffine();
  ASSERT_OK(Load(weighed));
  EXPECT_THAT(Recorded(*weighed.session), ElementsAre(16, 8, 64, 4));
}

TEST_F(ProfileTest, EqualWorthGoesInTheOrderOfTheFile) {
  Save({{64, 1}, {4, 1}, {16, 1}});
  const Affine next = MakeAffine();
  ASSERT_OK(Load(next));
  EXPECT_THAT(Recorded(*next.session), ElementsAre(4, 16, 64));
}

TEST_F(ProfileTest, WhatIsThereStays) {
  Save({{4, 1}, {16, 1}});
  const Affine next = MakeAffine();
  ASSERT_OK(Load(next));
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile again, Load(next));
  EXPECT_EQ(again.recorded, 0);
  EXPECT_EQ(again.present, 2);
  EXPECT_THAT(again.skipped, IsEmpty());
  EXPECT_EQ(next.session->stats().recordings, 2);
}

TEST_F(ProfileTest, CountsAreCarriedOnOnce) {
  Save({{4, 2}, {16, 1}});
  const Affine next = MakeAffine();
  ASSERT_OK(Load(next));
  ASSERT_OK(Load(next));
  ExpectRun(next, 4, RunKind::kReplay);
  ASSERT_OK(next.session->warming().SaveProfile(path_));
  const json buckets = Saved()["programs"][0]["buckets"];
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_EQ(buckets[0]["launches"], 3);
  EXPECT_EQ(buckets[1]["launches"], 1);
}

TEST_F(ProfileTest, LaunchesOfEvictedGraphsCount) {
  const Affine affine = Served({{4, 2}});
  ASSERT_OK(affine.session->Evict(nullptr));
  EXPECT_OK(Call(affine, 4));
  ASSERT_OK(affine.session->Evict(nullptr));
  ASSERT_OK(affine.session->warming().SaveProfile(path_));
  const json bucket = Saved()["programs"][0]["buckets"][0];
  EXPECT_EQ(bucket["launches"], 3);
  EXPECT_GT(bucket["graph_nodes"], 0);
}

TEST_F(ProfileTest, ResetForgetsCountsAndUnregisterThePrograms) {
  Save({{4, 2}});
  const Affine next = MakeAffine();
  ASSERT_OK(Load(next));
  ASSERT_OK(next.session->Reset(*next.program));
  ASSERT_OK(next.session->warming().SaveProfile(path_));
  EXPECT_THAT(Saved()["programs"][0]["buckets"], IsEmpty());
  ASSERT_OK(next.session->Unregister(*next.program));
  ASSERT_OK(next.session->warming().SaveProfile(path_));
  EXPECT_THAT(Saved()["programs"], IsEmpty());
}

TEST_F(ProfileTest, LanesAddUpAndAreLoadedOneByOne) {
  const Affine affine = MakeAffine({.lanes = 2});
  for (const int lane : {0, 1, 1, 0, 1})
    EXPECT_OK(Call(affine, 4, 2, [lane](coppice::Call& call) { call.lane = lane; }));
  ASSERT_OK(affine.session->warming().SaveProfile(path_));
  EXPECT_EQ(Saved()["programs"][0]["buckets"][0]["launches"], 3);
  const Affine next = MakeAffine({.lanes = 2});
  LoadProfileOptions options = Bound(next);
  options.lane = 1;
  ASSERT_OK(next.session->warming().LoadProfile(path_, options));
  ASSERT_EQ(next.session->nodes().size(), 1U);
  EXPECT_EQ(next.session->nodes()[0].lane, 1);
}

TEST_F(ProfileTest, ProgressIsToldOfEachBucketWithNoLockHeld) {
  Save({{4, 1}, {16, 1}});
  const Affine next = MakeAffine();
  LoadProfileOptions options = Bound(next);
  std::vector<std::pair<int64_t, int64_t>> told;
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(static_cast<int64_t>(next.session->nodes().size()), done);
    told.emplace_back(done, total);
  };
  ASSERT_OK(next.session->warming().LoadProfile(path_, options));
  EXPECT_THAT(told, ElementsAre(std::pair(1, 2), std::pair(2, 2)));
}

TEST_F(ProfileTest, StopsAtTheGraphsThatItMayRecord) {
  Save({{4, 2}, {8, 5}, {16, 1}, {64, 3}});
  const Affine next = MakeAffine();
  LoadProfileOptions options = Bound(next);
  options.graphs_max = 2;
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded,
                               next.session->warming().LoadProfile(path_, options));
  EXPECT_EQ(loaded.recorded, 2);
  EXPECT_THAT(Recorded(*next.session), ElementsAre(8, 64));
  ExpectSkipped(loaded, ProfileSkip::kLimit, 2);
}

TEST_F(ProfileTest, LeavesOutWhatPassesTheBytesButNotSmallerOnesAfterIt) {
  Save({{4, 2}, {8, 5}, {16, 1}});
  json profile = Saved();
  profile["programs"][0]["buckets"][1]["graph_bytes"] = int64_t{1} << 40;
  Write(profile);
  const Affine next = MakeAffine();
  LoadProfileOptions options = Bound(next);
  options.bytes_max = 16 * kMiB;
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded,
                               next.session->warming().LoadProfile(path_, options));
  EXPECT_THAT(Recorded(*next.session), ElementsAre(4, 16));
  ExpectSkipped(loaded, ProfileSkip::kLimit, 1);
  EXPECT_EQ(loaded.skipped[0].bucket, Buckets{8});
}

TEST_F(ProfileTest, HoldsTheBytesToTheBooksOfWhatItRecorded) {
  Save({{4, 2}, {8, 5}, {16, 1}});
  json profile = Saved();
  for (json& bucket : profile["programs"][0]["buckets"])
    bucket["plan_height"] = bucket["graph_bytes"] = 0;
  Write(profile);
  const Affine next = MakeAffine();
  LoadProfileOptions options = Bound(next);
  options.bytes_max = 1;
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded,
                               next.session->warming().LoadProfile(path_, options));
  EXPECT_THAT(Recorded(*next.session), ElementsAre(8)) << "the profile said that it takes nothing";
  ExpectSkipped(loaded, ProfileSkip::kLimit, 2);
}

TEST_F(ProfileTest, KeepsTheSessionsOwnLimits) {
  Save({{4, 2}, {8, 5}, {16, 1}, {64, 3}});
  const int64_t granule = MakeSession()->memory().window(0, MemoryKind::kPlan).granularity;
  // Staging, one window more, and two graphs.
  const SessionOptions limits[] = {
      {.limits = {.graphs_per_program_max = 2, .on_limit = OnLimit::kEvict}},
      {.memory = {.budget_bytes = 2 * granule + 70 * kKiB}}};
  for (const SessionOptions& options : limits) {
    const Affine next = MakeAffine(options);
    COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded, Load(next));
    EXPECT_EQ(loaded.recorded, 2);
    EXPECT_THAT(Recorded(*next.session), ElementsAre(8, 64));
    ExpectSkipped(loaded, ProfileSkip::kLimit, 2);
    EXPECT_EQ(next.session->stats().evictions, 0);
  }
}

TEST_F(ProfileTest, TheFirstGraphThatGoesForAnotherEndsTheRecording) {
  Save({{4, 2}, {8, 5}, {16, 1}, {64, 3}});
  json profile = Saved();
  for (json& bucket : profile["programs"][0]["buckets"])
    bucket["plan_height"] = bucket["graph_bytes"] = 0;
  Write(profile);
  const int64_t granule = MakeSession()->memory().window(0, MemoryKind::kPlan).granularity;
  const Affine next = MakeAffine({.memory = {.budget_bytes = 2 * granule + 70 * kKiB}});
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded, Load(next));
  EXPECT_EQ(next.session->stats().evictions, 1);
  EXPECT_EQ(loaded.recorded, 2) << "of three";
  ExpectSkipped(loaded, ProfileSkip::kLimit, 2);
}

TEST_F(ProfileTest, AnotherDeviceIsLeftOut) {
  Save({{4, 1}});
  const json saved = Saved();
  for (const auto& [field, value] : std::vector<std::pair<std::string, json>>{
           {"name", "another"}, {"capability", {1, 0}}, {"driver", "cuda"}}) {
    json profile = saved;
    profile["device"][field] = value;
    Write(profile);
    const Affine next = MakeAffine();
    COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded, Load(next));
    ExpectSkipped(loaded, ProfileSkip::kDevice, 1);
    EXPECT_THAT(next.session->nodes(), IsEmpty());
  }
}

TEST_F(ProfileTest, OneThatWasMadeAheadIsOfAnyDevice) {
  Save({{4, 1}});
  json profile = Saved();
  profile.erase("device");
  Write(profile);
  const Affine next = MakeAffine();
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded, Load(next));
  EXPECT_EQ(loaded.recorded, 1);
  EXPECT_THAT(next.session->nodes(), SizeIs(1));
}

TEST_F(ProfileTest, ProgramsThatAreNotThereOrAreOthersAreLeftOut) {
  Save({{4, 1}});
  const Affine other = MakeAffine({}, nullptr, AffineSpec("other"));
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile absent, Load(other));
  ExpectSkipped(absent, ProfileSkip::kProgram, 1);
  ProgramSpec spec = AffineSpec();
  spec.inputs[0].fill = Fill::Value(1);
  const Affine changed = MakeAffine({}, nullptr, std::move(spec));
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile differs, Load(changed));
  ExpectSkipped(differs, ProfileSkip::kDigest, 1);
  EXPECT_EQ(differs.skipped[0].program, "affine");
  EXPECT_THAT(changed.session->nodes(), IsEmpty());
}

TEST_F(ProfileTest, WithoutABindingAProgramIsLeftOutAndItsCountsAreCarried) {
  Save({{4, 2}});
  const Affine next = MakeAffine();
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded,
                               next.session->warming().LoadProfile(path_, {}));
  ExpectSkipped(loaded, ProfileSkip::kBinding, 1);
  const std::string before = package::ReadBytes(path_);
  ASSERT_OK(next.session->warming().SaveProfile(path_));
  EXPECT_EQ(package::ReadBytes(path_), before);
}

TEST_F(ProfileTest, APolicyWithoutTheBucketLeavesOutThatBucket) {
  Save({{4, 1}, {64, 1}});
  ProgramSpec spec = AffineSpec();
  spec.symbols[0].policy = *PaddingPolicy::Linear(64, kLargest);
  const Affine next = MakeAffine({}, nullptr, std::move(spec));
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded, Load(next));
  EXPECT_THAT(Recorded(*next.session), ElementsAre(64));
  ExpectSkipped(loaded, ProfileSkip::kBucket, 1);
  EXPECT_EQ(loaded.skipped[0].bucket, Buckets{4});
}

TEST_F(ProfileTest, WhatCannotBeWarmedIsLeftOut) {
  Save({{4, 1}, {64, 1}});
  const Affine next = MakeAffine();
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const LoadedProfile unscratched,
      next.session->warming().LoadProfile(path_, {.bindings = {{.binding = next.binding}}}));
  ExpectSkipped(unscratched, ProfileSkip::kFailed, 2);
  const Affine failing = MakeAffine(
      {}, AffineCallable([](CallContext& context) {
        return context.extent(0) == 64 ? absl::InternalError("not at 64") : absl::OkStatus();
      }));
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded, Load(failing));
  EXPECT_EQ(loaded.recorded, 1);
  ExpectSkipped(loaded, ProfileSkip::kFailed, 1);
  EXPECT_EQ(loaded.skipped[0].why.code(), absl::StatusCode::kInternal);
}

TEST_F(ProfileTest, WrongOptionsAreRefused) {
  Save({{4, 1}});
  const Affine next = MakeAffine();
  const Affine other = MakeAffine();
  const LoadProfileOptions wrong[] = {{.lane = 1},
                                      {.graphs_max = -1},
                                      {.bytes_max = -1},
                                      {.bindings = {{}}},
                                      {.bindings = {{.binding = other.binding}}}};
  for (const LoadProfileOptions& options : wrong)
    EXPECT_THAT(next.session->warming().LoadProfile(path_, options), StatusIs(kWrongArgument));
}

TEST_F(ProfileTest, ASuspendedSessionLoadsNothing) {
  Save({{4, 1}});
  const Affine next = MakeAffine();
  ASSERT_OK(next.session->memory().Suspend({}));
  EXPECT_THAT(Load(next), StatusIs(kRefused));
}

TEST_F(ProfileTest, WrongFieldsAreRefusedWithTheirPointer) {
  Save({{4, 1}});
  const json saved = Saved();
  const std::vector<std::tuple<std::string, json, std::string>> wrong = {
      {"/schema", "kernel-package", "the root"},
      {"/schema_version", {1}, "/schema_version"},
      {"/unknown", 1, "/unknown"},
      {"/device/capability", "8.9", "/device/capability"},
      {"/programs", json::object(), "/programs"},
      {"/programs/0/name", 1, "/programs/0/name"},
      {"/programs/0/policies/0/max", 0, "/programs/0/policies/0/max"},
      {"/programs/0/buckets/0/extents", {-1}, "/programs/0/buckets/0/extents/0"},
      {"/programs/0/buckets/0/extents", Buckets(9, 1), "/programs/0/buckets/0/extents"},
      {"/programs/0/buckets/0/launches", -1, "/programs/0/buckets/0/launches"},
      {"/programs/0/buckets/0/launches", INT64_MAX, "/programs/0/buckets/0/launches"},
      {"/programs/0/buckets/0/variants", {{"k", 1}}, "/programs/0/buckets/0/variants/k"},
      {"/programs/1", saved["programs"][0], "/programs/1"},
      {"/programs/0/buckets/1", saved["programs"][0]["buckets"][0], "/programs/0/buckets/1"}};
  for (const auto& [at, value, pointer] : wrong) {
    json profile = saved;
    profile[json::json_pointer(at)] = value;
    Write(profile);
    ExpectRefused(kWrongArgument, pointer);
  }
  for (const char* const field : {"schema", "library", "programs"}) {
    json profile = saved;
    profile.erase(field);
    Write(profile);
    ExpectRefused(kWrongArgument, "the root");
  }
}

TEST_F(ProfileTest, AnotherMajorVersionIsRefusedAndALaterMinorOneIsRead) {
  Save({{4, 1}});
  json profile = Saved();
  profile["schema_version"] = {2, 0};
  Write(profile);
  ExpectRefused(absl::StatusCode::kUnimplemented, "/schema_version");
  profile["schema_version"] = {1, 1};
  profile["programs"][0]["buckets"][0]["later"] = {1, 2};
  Write(profile);
  const Affine next = MakeAffine();
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile loaded, Load(next));
  EXPECT_EQ(loaded.recorded, 1);
}

TEST_F(ProfileTest, ACutFileChangesNothing) {
  Save({{4, 1}});
  const std::string whole = package::ReadBytes(path_);
  const Affine next = MakeAffine();
  const LoadProfileOptions options = Bound(next);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    package::WriteBytes(path_, std::string_view(whole).substr(0, bytes));
    EXPECT_THAT(next.session->warming().LoadProfile(path_, options), StatusIs(kWrongArgument))
        << bytes;
  }
  EXPECT_THAT(next.session->nodes(), IsEmpty());
  EXPECT_EQ(next.session->memory().usage().of(MemoryKind::kPlan), 0);
}

TEST_F(ProfileTest, AChangedByteIsReadRightOrChangesNothing) {
  Save({{4, 1}});
  const std::string whole = package::ReadBytes(path_);
  std::mt19937_64 random(TestSeed());
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string changed = whole;
    changed[random() % changed.size()] = static_cast<char>(random() % 256);
    package::WriteBytes(path_, changed);
    const Affine next = MakeAffine();
    const absl::StatusOr<LoadedProfile> loaded = Load(next);
    if (loaded.ok()) {
      EXPECT_LE(loaded->recorded, 1);
      continue;
    }
    ++refused;
    EXPECT_THAT(next.session->nodes(), IsEmpty()) << changed;
  }
  EXPECT_GT(refused, 0);
}

TEST_F(ProfileTest, HostileSizesAreRefused) {
  package::WriteBytes(path_, "");
  std::filesystem::resize_file(path_, (uint64_t{64} << 20) + 1);
  ExpectRefused(kWrongArgument, "67108865 bytes");
  package::WriteBytes(path_, std::string(size_t{1} << 20, '['));
  ExpectRefused(kWrongArgument, "nested lists and objects");
}

TEST_F(ProfileTest, FilesThatCannotBeReadOrWrittenAreErrorsOfTheirErrno) {
  const Affine next = MakeAffine();
  EXPECT_THAT(Load(next), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(next.session->warming().SaveProfile(folder_ / "absent/session.profile"),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ProfileTest, AFailedWriteLeavesWhatWasThereAndNothingElse) {
  const Affine next = MakeAffine();
  std::filesystem::create_directory(path_);
  package::WriteBytes(path_ + "/kept", "kept");
  EXPECT_FALSE(next.session->warming().SaveProfile(path_).ok());
  EXPECT_EQ(package::ReadBytes(path_ + "/kept"), "kept");
  const std::filesystem::directory_iterator files(folder_.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(ProfileTest, ProgramsOfAPackageAreKnownByIt) {
  const LoadedPackage& loaded = LoadProgram(DiamondProgram("3", "pow2"));
  const std::unique_ptr<Session> first = MakeSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, first->Register(loaded, "main", {}));
  for (const int64_t n : {60, 60, 7})
    ASSERT_OK(CallPackage(*first, *program, n));
  ASSERT_OK(first->warming().SaveProfile(path_));
  EXPECT_EQ(Saved()["programs"][0]["digest"], "package:" + loaded.manifest().sha256 + ":main");

  const std::unique_ptr<Session> next = MakeSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(program, next->Register(loaded, "main", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile same, next->warming().LoadProfile(path_, {}));
  EXPECT_EQ(same.recorded, 2);
  EXPECT_THAT(Recorded(*next), ElementsAre(64, 8));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, CallPackage(*next, *program, 60));
  EXPECT_EQ(lease.kind(), RunKind::kReplay);
  EXPECT_EQ(Read(lease), Expected(60, 4));

  const std::unique_ptr<Session> other = MakeSession();
  ASSERT_OK(other->Register(LoadProgram(DiamondProgram("5", "pow2")), "main", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const LoadedProfile differs,
                               other->warming().LoadProfile(path_, {}));
  ExpectSkipped(differs, ProfileSkip::kDigest, 1);
}

TEST_F(ProfileTest, CallsGoOnBesideALoading) {
  const LoadedPackage& loaded = LoadProgram(DiamondProgram());
  const std::unique_ptr<Session> first = MakeSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, first->Register(loaded, "main", {}));
  for (const int64_t n : {1, 2, 4, 8, 16, 32, 64})
    for (int call = 0; call < 2; ++call)
      ASSERT_OK(CallPackage(*first, *program, n));
  ASSERT_OK(first->warming().SaveProfile(path_));
  constexpr int kLanes = 2;
  const DeviceMemory input = *device_.Upload(Ramp(64));
  const int rounds = std::max(2, 40 / static_cast<int>(TestShare()));
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const std::unique_ptr<Session> next = MakeSession({.lanes = kLanes});
    COPPICE_ASSERT_OK_AND_ASSIGN(program, next->Register(loaded, "main", {}));
    const Stream streams[kLanes] = {*Stream::Create(device_.driver()),
                                    *Stream::Create(device_.driver())};
    const auto call = [&](int lane) {
      ASSERT_OK(device_.context().MakeCurrent());
      const Stream& stream = streams[lane];
      for (const int64_t n : {64, 3, 20, 7, 2, 33}) {
        const Tensor x = Tensor::Dense(input.address(), DType::kFloat32, {&n, 1});
        const absl::StatusOr<Lease> lease = next->Run(
            {.program = program, .inputs = {&x, 1}, .stream = stream.handle(), .lane = lane});
        ASSERT_OK(lease);
        const absl::StatusOr<ReadScope> scope = lease->Read(stream.handle());
        ASSERT_OK(scope);
        EXPECT_EQ(DownloadOn(stream, scope->output(0), n), Expected(n, 4));
      }
    };
    std::vector<std::thread> threads;
    for (int lane = 0; lane < kLanes; ++lane)
      threads.emplace_back(call, lane);
    for (int lane = 0; lane < kLanes; ++lane) {
      const absl::StatusOr<LoadedProfile> done = next->warming().LoadProfile(path_, {.lane = lane});
      EXPECT_OK(done);
      if (!done.ok()) continue;
      for (const SkippedBucket& skipped : done->skipped)
        ADD_FAILURE() << NameOf(skipped.reason) << ": " << skipped.why;
      EXPECT_EQ(done->recorded + done->present, 7);
    }
    for (std::thread& thread : threads)
      thread.join();
  }
}

}  // namespace
}  // namespace coppice
