// Goal: a recording that breaks off anywhere, for a cause outside of the driver, gives its bytes
// back, leaves the stream usable, and succeeds when it is tried again; fault_sweep_test.cc has the
// driver's errors. Method: a program in small steps is broken off at each of them, many times in
// one session.

#include "tests/graphs/session_fixture.h"

namespace coppice {
namespace {

constexpr int kRounds = 50;
constexpr int kSteps = 13;
constexpr int64_t kExtent = 8;

class CaptureAbortTest : public SessionFixture {
 protected:
  // Affine in small steps; before each, and before it returns, `at_step` is called while it
  // records.
  Callable SteppedCallable(std::function<absl::Status(int step)> at_step) const {
    return [this, at_step = std::move(at_step)](CallContext& context) -> absl::Status {
      const int64_t n = context.extent(0);
      const int64_t bytes = n * static_cast<int64_t>(sizeof(float));
      const DeviceAddress x = context.input(0).data;
      const DeviceAddress counter = context.input(2).data;
      const auto factor = static_cast<float>(std::bit_cast<double>(context.scalar(0)));
      DeviceAddress a = 0;
      DeviceAddress b = 0;
      DeviceAddress c = 0;
      DeviceAddress y = 0;
      const std::function<absl::Status()> steps[] = {
          [&] { return AllocateInto(context, bytes, a); },
          [&] { return ScaleInto(context, x, factor, a); },
          [&] { return AllocateInto(context, bytes, b); },
          [&] { return ScaleInto(context, a, 1, b); },
          [&] { return context.Free(a); },
          [&] { return AllocateInto(context, bytes, c); },
          [&] { return ScaleInto(context, b, 1, c); },
          [&] { return context.Free(b); },
          [&]() -> absl::Status {
            COPPICE_ASSIGN_OR_RETURN(const Tensor output, context.AllocateOutput(0));
            y = output.data;
            return absl::OkStatus();
          },
          [&] { return AddOnto(context, c, x, y, n); },
          [&] { return context.Free(c); },
          [&] { return AddOnto(context, counter, context.input(1).data, counter, 1); },
          [] { return absl::OkStatus(); },
      };
      static_assert(std::size(steps) == kSteps);
      for (int step = 0; step < kSteps; ++step) {
        if (context.phase() == Phase::kRecord) COPPICE_RETURN_IF_ERROR(at_step(step));
        COPPICE_RETURN_IF_ERROR(steps[step]());
      }
      return absl::OkStatus();
    };
  }

  static absl::Status AllocateInto(CallContext& context, int64_t bytes, DeviceAddress& address) {
    COPPICE_ASSIGN_OR_RETURN(address, context.Allocate(bytes));
    return absl::OkStatus();
  }

  absl::Status ScaleInto(CallContext& context,
                         DeviceAddress x,
                         float factor,
                         DeviceAddress y) const {
    const int64_t n = context.extent(0);
    return LaunchScale(context, x, y, n, factor);
  }

  // Each round meets a new key, whose first recording `cause` breaks off at `step`; `retry` makes
  // the calls that record it, given the key's factor.
  void ExpectRecovery(int step,
                      const std::function<absl::Status()>& cause,
                      const std::function<void(const Affine&, double factor)>& retry) {
    SCOPED_TRACE(fmt::format("step {}", step));
    bool armed = false;
    const Affine affine = MakeAffine({}, SteppedCallable([&](int at) {
                                       if (at != step || !std::exchange(armed, false))
                                         return absl::OkStatus();
                                       return cause();
                                     }));
    // Grows every window as far as the rounds need.
    for (int call = 0; call < 2; ++call)
      ASSERT_OK(Call(affine, kExtent, 0.5).status());
    const int executed = Executions();
    for (int round = 0; round < kRounds && !HasFailure(); ++round) {
      SCOPED_TRACE(fmt::format("round {}", round));
      const double factor = round + 1;
      ExpectRun(affine, kExtent, RunKind::kWarmUp, factor);
      uploads_.clear();
      const Emulator::Live before = device_.emulator().live();
      armed = true;
      ExpectBrokenOff(affine, factor);
      uploads_.clear();
      ExpectSameBytes(before);
      EXPECT_EQ(affine.session->memory().usage().eager_live, 0);
      retry(affine, factor);
      uploads_.clear();
    }
    EXPECT_GE(Executions(), executed + 2 * kRounds);
  }

  // The call whose recording breaks off fails, or runs without a graph.
  void ExpectBrokenOff(const Affine& affine, double factor) {
    const absl::StatusOr<Lease> lease = Call(affine, kExtent, factor);
    if (!lease.ok()) return;
    EXPECT_EQ(lease->kind(), RunKind::kEager) << "the recording did not break off";
    EXPECT_EQ(Read(*lease), Expected(kExtent, factor));
  }

  void ExpectSameBytes(const Emulator::Live& before) {
    const Emulator::Live after = device_.emulator().live();
    EXPECT_EQ(after.physical_bytes, before.physical_bytes);
    EXPECT_EQ(after.mapped_bytes, before.mapped_bytes);
    EXPECT_EQ(after.handles, before.handles);
    EXPECT_EQ(after.graphs, before.graphs);
    EXPECT_EQ(after.execs, before.execs);
    EXPECT_EQ(after.captures, 0);
  }
};

TEST_F(CaptureAbortTest, InvalidationByAnotherThreadAtEveryStep) {
  for (int step = 0; step < kSteps; ++step) {
    ExpectRecovery(
        step,
        [this] {
          std::jthread([this] {
            EXPECT_OK(device_.context().MakeCurrent());
            EXPECT_EQ(device_.driver().table().CtxSynchronize(),
                      CuResult::kStreamCaptureUnsupported);
          }).join();
          return absl::OkStatus();
        },
        [this](const Affine& affine, double factor) {
          ExpectRun(affine, kExtent, RunKind::kRecord, factor);
        });
  }
}

// Such a program is taken not to be capturable, so that only Warm tries again.
TEST_F(CaptureAbortTest, ErrorOfTheCallableAtEveryStep) {
  const DeviceMemory scratch = *device_.Upload(std::vector<float>{0});
  for (int step = 0; step < kSteps; ++step) {
    ExpectRecovery(
        step, [] { return absl::InternalError("not this time"); },
        [&](const Affine& affine, double factor) {
          const std::vector<std::vector<int64_t>> buckets = {{kExtent}};
          const int64_t scalar = std::bit_cast<int64_t>(factor);
          const Binding* spare =
              *affine.session->Bind(*affine.program, AffineStatics(scratch.address()));
          EXPECT_OK(affine.session->warming().Warm(*affine.program, affine.binding, buckets,
                                                   {&scalar, 1}, {.scratch = spare}));
          ExpectRun(affine, kExtent, RunKind::kReplay, factor);
        });
  }
}

}  // namespace
}  // namespace coppice
