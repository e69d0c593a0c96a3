// Goal: calls behind a loaded profile cost what replays cost, and a loading no more than recording.
// Method: driver calls, and their time by published figures, which the ledger counts.

#include <iostream>

#include "coppice/graphs/session.h"
#include "coppice/runtime/loaded_package.h"

#include "tests/graphs/package_fixture.h"
#include "tests/graphs/profile_fixture.h"

namespace coppice {
namespace {

using package::LoadedPackage;

// What a phase cost the host: driver calls, and microseconds by published figures.
struct Cost {
  int64_t calls = 0;
  double us = 0;
};

class ProfileCostTest : public ProfileFixture {
 protected:
  template <typename Phase>
  Cost CostOf(const Phase& phase) {
    const Cost before = {device_.ledger().calls(), device_.ledger().modelled_us()};
    phase();
    return {device_.ledger().calls() - before.calls, device_.ledger().modelled_us() - before.us};
  }
  // Calls the program once in each bucket, always on one input, so that all that it costs is the
  // session's.
  void Serve(Session& session,
             const Program& program,
             const Binding* binding,
             std::span<const int64_t> scalars,
             RunKind kind) {
    for (int64_t n = 1; n <= kBuckets; ++n) {
      const Tensor x = Tensor::Dense(input_.address(), DType::kFloat32, {&n, 1});
      const absl::StatusOr<Lease> lease = session.Run({.program = &program,
                                                       .binding = binding,
                                                       .inputs = {&x, 1},
                                                       .scalars = scalars,
                                                       .stream = device_.stream()});
      ASSERT_OK(lease);
      EXPECT_EQ(lease->kind(), kind);
    }
  }
  // Of the same calls: what they cost while they record, behind a loading, and once more, and the
  // loading. What they cost beyond a replay is what a loading can take from them.
  static void Compare(const Cost& recording,
                      const Cost& loading,
                      const Cost& behind,
                      const Cost& again) {
    const auto print = [&](const char* what, const Cost& cost) {
      std::cout << what << cost.calls << " driver calls, " << cost.us << " us modelled, "
                << 100 * cost.us / recording.us << " %\n";
    };
    const Cost beyond{.calls = behind.calls - again.calls, .us = behind.us - again.us};
    print("calls that record:      ", recording);
    print("loading:                ", loading);
    print("the calls behind it:    ", behind);
    print("the same once more:     ", again);
    print("beyond replays:         ", beyond);
    EXPECT_LE(10 * beyond.calls, recording.calls);
    EXPECT_LE(10 * beyond.us, recording.us);
    EXPECT_LT(behind.calls, recording.calls);
    EXPECT_LT(behind.us, recording.us);
    EXPECT_LE(loading.us, recording.us);
  }

  static constexpr int64_t kBuckets = 64;
  DeviceMemory input_ = *device_.Upload(Ramp(kBuckets));
};

TEST_F(ProfileCostTest, LoadingTakesTheCostOfRecordingFromTheCallsOfACallable) {
  const auto spec = [] {
    ProgramSpec made = AffineSpec();
    made.symbols[0].policy = *PaddingPolicy::Linear(1, kBuckets);
    return made;
  };
  const int64_t scalars[] = {std::bit_cast<int64_t>(2.0)};
  const auto serve = [&](const Affine& affine, RunKind kind) {
    Serve(*affine.session, *affine.program, affine.binding, scalars, kind);
  };
  const Affine first = MakeAffine({}, nullptr, spec());
  const Cost recording = CostOf([&] {
    serve(first, RunKind::kWarmUp);
    serve(first, RunKind::kRecord);
  });
  ASSERT_OK(first.session->warming().SaveProfile(path_));
  const Affine next = MakeAffine({}, nullptr, spec());
  const LoadProfileOptions options = Bound(next);
  const Cost loading =
      CostOf([&] { EXPECT_OK(next.session->warming().LoadProfile(path_, options)); });
  const auto replay = [&] {
    serve(next, RunKind::kReplay);
    serve(next, RunKind::kReplay);
  };
  const Cost behind = CostOf(replay);
  Compare(recording, loading, behind, CostOf(replay));
}

TEST_F(ProfileCostTest, LoadingTakesTheCostOfRecordingFromTheCallsOfAPackage) {
  Buckets all(kBuckets);
  for (int64_t i = 0; i < kBuckets; ++i)
    all[static_cast<size_t>(i)] = i + 1;
  const LoadedPackage& loaded = LoadProgram(DiamondProgram("3", all));
  const std::unique_ptr<Session> first = MakeSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, first->Register(loaded, "main", {}));
  const Cost recording = CostOf([&] { Serve(*first, *program, nullptr, {}, RunKind::kRecord); });
  ASSERT_OK(first->warming().SaveProfile(path_));
  const std::unique_ptr<Session> next = MakeSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(program, next->Register(loaded, "main", {}));
  const Cost loading = CostOf([&] { EXPECT_OK(next->warming().LoadProfile(path_, {})); });
  const auto replay = [&] { Serve(*next, *program, nullptr, {}, RunKind::kReplay); };
  const Cost behind = CostOf(replay);
  Compare(recording, loading, behind, CostOf(replay));
}

}  // namespace
}  // namespace coppice
