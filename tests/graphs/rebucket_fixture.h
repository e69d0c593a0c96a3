// What tests of learned buckets stand on: affine, observed, on the emulator.

#pragma once

#include <initializer_list>

#include "coppice/graphs/rebucket.h"

#include "tests/graphs/session_fixture.h"

namespace coppice {

class RebucketFixture : public SessionFixture {
 protected:
  RebucketFixture() : scratch_counter_(*device_.Upload(std::vector<float>{0})) {}

  static ProgramSpec ObservedSpec() {
    ProgramSpec spec = AffineSpec();
    spec.symbols[0].observe_half_life = std::numeric_limits<double>::infinity();
    return spec;
  }
  Affine MakeObserved(const SessionOptions& options = {}, ProgramSpec spec = ObservedSpec()) {
    Affine affine = MakeAffine(options, nullptr, std::move(spec));
    scratch_ = *affine.session->Bind(*affine.program, AffineStatics(scratch_counter_.address()));
    return affine;
  }
  // What swaps in a bucket as soon as there is one call of it.
  RebucketOptions Eager(const Affine& affine) const {
    return {.relearn = RelearnOptions{.learn = {.limit = kLargest, .count = 7, .prior = 0.02}},
            .period = 1,
            .binding = affine.binding,
            .scratch = scratch_};
  }
  // Calls of these extents, each until it replays.
  void Serve(const Affine& affine, std::initializer_list<int64_t> extents, int lane = 0) {
    for (const int64_t n : extents) {
      for (int call = 0; call < 3; ++call)
        ExpectOutput(affine, n, lane);
    }
  }
  // Runs a call and expects its values; returns how it ran.
  RunKind ExpectOutput(const Affine& affine, int64_t n, int lane = 0) {
    const absl::StatusOr<Lease> lease =
        Call(affine, n, 2, [lane](coppice::Call& call) { call.lane = lane; });
    EXPECT_OK(lease);
    if (!lease.ok()) return RunKind::kEager;
    EXPECT_EQ(Read(*lease), Expected(n));
    return lease->kind();
  }
  static std::vector<int64_t> BucketsOf(const Affine& affine) {
    return affine.session->policies().GetPolicy(*affine.program, 0)->buckets();
  }
  static std::vector<int64_t> Recorded(const Affine& affine) {
    std::vector<int64_t> buckets;
    for (const NodeInfo& node : affine.session->nodes())
      if (node.number > 0) buckets.push_back(node.bucket[0]);
    return buckets;
  }
  static absl::Status SetBuckets(const Affine& affine, std::vector<int64_t> buckets) {
    return affine.session->policies().SetPolicy(*affine.program, 0,
                                                *PaddingPolicy::List(buckets, buckets.back()));
  }

  DeviceMemory scratch_counter_;
  const Binding* scratch_ = nullptr;
};

}  // namespace coppice
