// Goal: a session does on a GPU what session.h says. Method: the affine program on every path, on
// the emulator and on CUDA; values are checked after every call, memory and calls in the ledger.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/gpu/gpu_fixture.h"
#include "tests/graphs/session_fixture.h"
#include "tests/graphs/variants_fixture.h"

namespace coppice {
namespace {

class SessionGpuTest : public GpuFixture, protected AffineDevice {
 protected:
  SessionGpuTest() : AffineDevice({}, Kind()) {}

  // Affine for buckets that need more memory than one granule of the device.
  Affine MakeWideAffine(const SessionOptions& options = {}) const {
    ProgramSpec spec = AffineSpec();
    spec.symbols[0].policy = *PaddingPolicy::Pow2(kWide);
    return MakeAffine(options, nullptr, std::move(spec));
  }

  // Calls of entries that wait for all work of the device.
  int64_t DeviceWideWaits() {
    return device_.ledger().calls(&DriverTable::CtxSynchronize) +
           device_.ledger().calls(&DriverTable::MemFree);
  }

  static constexpr int64_t kWide = int64_t{1} << 20;
};
COPPICE_GPU_SUITE(SessionGpuTest);

TEST_P(SessionGpuTest, EveryPathComputesTheSameAndExecutesOnce) {
  const Affine affine = MakeAffine();
  ExpectRun(affine, 5, RunKind::kWarmUp);
  ExpectRun(affine, 6, RunKind::kRecord);
  for (const int64_t n : {7, 8, 5})
    ExpectRun(affine, n, RunKind::kReplay);
  ExpectRun(affine, kLargest + 1, RunKind::kEager);
  ExpectRun(affine, 1000, RunKind::kEager);
  ExpectRun(affine, 8, RunKind::kReplay);
  EXPECT_EQ(Executions(), 8);
}

TEST_P(SessionGpuTest, KeyScalarChoosesItsOwnGraph) {
  const Affine affine = MakeAffine();
  for (const RunKind path :
       {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay, RunKind::kReplay}) {
    for (const double factor : {2.0, -0.5})
      ExpectRun(affine, 40, path, factor);
  }
}

TEST_P(SessionGpuTest, EachBucketLaunchesTheVariantThatWasFastest) {
  package::PackageBuilder builder = VariantKernels();
  builder.manifest["programs"]["main"] = ScaleProgram();
  const std::string zip = builder.Zip();
  COPPICE_ASSERT_OK_AND_ASSIGN(
      package::Package opened,
      package::Package::FromMemory(package::BytesOf(zip), "variants.zip", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const auto loaded,
      package::LoadedPackage::Load(device_.context(), std::move(opened), {.allow_ptx = true}));
  SessionOptions options;
  options.variant_timing = VariantTiming::kAlways;
  const std::unique_ptr<Session> session = *Session::Create(device_.context(), options);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(*loaded, "main", {}));
  const DeviceMemory memory = *device_.Upload(std::vector<float>(1000, 3));
  const int64_t dims[] = {1000};
  const Tensor x = Tensor::Dense(memory.address(), DType::kFloat32, dims);
  for (const RunKind kind : {RunKind::kRecord, RunKind::kReplay}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const Lease lease,
        session->Run({.program = program, .inputs = {&x, 1}, .stream = device_.stream()}));
    EXPECT_EQ(lease.kind(), kind);
    ASSERT_EQ(session->variants().size(), 1U);
    const KernelVariant chosen = session->variants()[0];
    ASSERT_EQ(chosen.times_us.size(), 3U);
    const auto fastest = std::ranges::min_element(chosen.times_us, {},
                                                  [](const auto& timed) { return timed.second; });
    EXPECT_EQ(chosen.variant, fastest->first);
    EXPECT_GT(fastest->second, 0);
    EXPECT_EQ(Read(lease), std::vector<float>(1000, chosen.variant == "shifted" ? 7.F : 6.F));
  }
}

TEST_P(SessionGpuTest, RecordsWithoutADeviceWideWait) {
  const Affine affine = MakeWideAffine();
  for (const int64_t n : {int64_t{8}, kWide}) {
    ExpectRun(affine, n, RunKind::kWarmUp);
    const int64_t captures = device_.ledger().calls(&DriverTable::StreamBeginCapture);
    const int64_t waits = DeviceWideWaits();
    ExpectRun(affine, n, RunKind::kRecord);
    EXPECT_EQ(device_.ledger().calls(&DriverTable::StreamBeginCapture), captures + 1);
    EXPECT_EQ(DeviceWideWaits(), waits) << "for n = " << n;
  }
}

TEST_P(SessionGpuTest, GrowingPoolLeavesEarlierGraphsRight) {
  const Affine affine = MakeWideAffine();
  int64_t mapped = 0;
  for (int64_t n = kWide / 4; n <= kWide; n *= 2) {
    ExpectRun(affine, n, RunKind::kWarmUp);
    ExpectRun(affine, n - 1, RunKind::kRecord);
    const int64_t grown = affine.session->memory().usage().of(MemoryKind::kPlan);
    EXPECT_GT(grown, mapped) << "for n = " << n;
    mapped = grown;
    for (int64_t earlier = kWide / 4; earlier <= n; earlier *= 2)
      ExpectRun(affine, earlier - 2, RunKind::kReplay);
  }
  const DeviceAddress window = affine.session->memory().window(0, MemoryKind::kPlan).base;
  EXPECT_EQ(device_.ledger().MappedBytes(
                window, affine.session->memory().window(0, MemoryKind::kPlan).window_bytes),
            mapped);
}

// Lane 1 replays on a stream of its own between the calls of lane 0, each on its own counter.
TEST_P(SessionGpuTest, LanesOnTheirOwnStreamsDoNotDisturbEachOther) {
  constexpr int kRounds = 50;
  const Stream other = *Stream::Create(device_.driver());
  const DeviceMemory second_counter = *device_.Upload(std::vector<float>{0});
  const Affine affine = MakeAffine({.lanes = 2});
  const Binding* second =
      *affine.session->Bind(*affine.program, AffineStatics(second_counter.address()));
  const auto beside = [&](coppice::Call& call) {
    call.lane = 1;
    call.stream = other.handle();
    call.binding = second;
  };
  for (int round = 0; round < kRounds; ++round) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease left, Call(affine, 64 - round % 30));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease right, Call(affine, 33 + round % 30, 2, beside));
    EXPECT_EQ(Read(left), Expected(64 - round % 30)) << "round " << round;
    EXPECT_EQ(Read(right), Expected(33 + round % 30)) << "round " << round;
  }
  ASSERT_OK(other.Synchronize());
  EXPECT_EQ(Executions(), kRounds);
  EXPECT_EQ(device_.Download<float>(second_counter.address(), 1)[0], kRounds);
  EXPECT_EQ(affine.session->nodes().size(), 2U);
}

// The next replay overwrites what is being copied, unless the end of the scope holds it back. Its
// input is on the device beforehand and the copies take a while, so that it would come too early.
TEST_P(SessionGpuTest, NextCallWaitsForTheReaderOnAnotherStream) {
  constexpr int kRounds = 5;
  constexpr int kCopies = 16;
  constexpr int64_t kNext = kWide / 2 + 1;  // Of the same bucket; zeros lie behind.
  const Stream reader = *Stream::Create(device_.driver());
  const DeviceMemory copy = *device_.Upload(std::vector<float>(kWide));
  const DeviceMemory input = *device_.Upload(Ramp(kNext));
  const Tensor x = Tensor::Dense(input.address(), DType::kFloat32, std::vector{kNext});
  const int64_t scalar = std::bit_cast<int64_t>(2.0);
  const Affine affine = MakeWideAffine();
  for (int i = 0; i < 2; ++i)
    ASSERT_OK(Call(affine, kWide).status());
  for (int round = 0; round < kRounds; ++round) {
    const int64_t n = kWide - round;
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Call(affine, n));
    EXPECT_EQ(lease.kind(), RunKind::kReplay);
    {
      COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(reader.handle()));
      for (int i = 0; i < kCopies; ++i) {
        ASSERT_OK(device_.driver().Call<&DriverTable::MemcpyDtoDAsync>(
            copy.address(), scope.output(0).data, static_cast<size_t>(n) * sizeof(float),
            reader.handle()));
      }
    }
    ASSERT_OK(affine.session->Run({.program = affine.program,
                                   .binding = affine.binding,
                                   .inputs = {&x, 1},
                                   .scalars = {&scalar, 1},
                                   .stream = device_.stream()}));
    ASSERT_OK(reader.Synchronize());
    EXPECT_EQ(device_.Download<float>(copy.address(), n), Expected(n)) << "round " << round;
    uploads_.clear();
  }
}

TEST_P(SessionGpuTest, TrimReturnsTheEagerBytesAndReplaysGoOn) {
  const Affine affine = MakeAffine();
  for (const RunKind path : {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay})
    ExpectRun(affine, 64, path);
  ExpectRun(affine, kWide, RunKind::kEager);
  const int64_t created = device_.ledger().created_bytes();
  const int64_t eager = affine.session->memory().usage().of(MemoryKind::kEager);
  EXPECT_GE(eager, 2 * kWide * static_cast<int64_t>(sizeof(float)));
  ASSERT_OK(affine.session->memory().Trim());
  EXPECT_EQ(affine.session->memory().usage().of(MemoryKind::kEager), 0);
  EXPECT_EQ(device_.ledger().created_bytes(), created - eager);
  ExpectRun(affine, 64, RunKind::kReplay);
  ExpectRun(affine, kWide, RunKind::kEager);
}

TEST_P(SessionGpuTest, CloseReturnsEveryByteWithWorkInFlight) {
  for (int round = 0; round < 3; ++round) {
    Affine affine = MakeWideAffine({.lanes = 2});
    for (const int64_t n : {kWide, kWide, int64_t{8}, int64_t{8}, 2 * kWide, kWide})
      ASSERT_OK(Call(affine, n).status());
    EXPECT_GT(device_.ledger().created_bytes(), 0);
    affine.session.reset();
    EXPECT_EQ(device_.ledger().created_bytes(), 0) << "round " << round;
    uploads_.clear();
    EXPECT_EQ(Executions(), 6 * (round + 1));
  }
}

}  // namespace
}  // namespace coppice
