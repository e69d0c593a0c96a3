// One program of a package in a session of its own, with static inputs of its own.
//
// Whoever compares ways of running a program has a runner for each, and gives all the same calls.
//
// Units: elements. Threads: one at a time.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/padding_claim.h"
#include "coppice/graphs/exact_replay.h"
#include "coppice/graphs/poison.h"
#include "coppice/graphs/session.h"

#include "tools/package/call_set.h"
#include "tools/package/package_device.h"

namespace coppice {

struct RunnerOptions {
  // In place of the device's package: one whose constants have the same names.
  const package::LoadedPackage* loaded = nullptr;
  int program = 0;
  Stance stance = Stance::kRecord;
  // Runs that are compared with others launch the same variants as those.
  VariantTiming variant_timing = VariantTiming::kOnDevice;
  std::map<std::string, PaddingPolicy> policies;
  std::map<std::string, std::optional<PaddingClaim>> claims;  // In place of the package's.
  ExactReplay exact = ExactReplay::kNever;
  bool check_addresses = true;
  RecorderOptions recorder;
};

// What one call did.
struct RunOutcome {
  RunKind kind = RunKind::kReplay;
  Reason reason = Reason::kNone;
  std::vector<int64_t> bucket;     // Empty: it ran without a graph.
  std::vector<HostArray> outputs;  // In the program's order, at real extents.
  std::vector<HostArray> mutated;  // Copied inputs that the program mutates, the same.
};

// Looks at a call of a runner.
struct CallWatch {
  // The copied inputs are on the device.
  std::function<void(const std::vector<Tensor>& inputs)> placed;
  // The call has run; these are its outputs, which nobody has read yet.
  std::function<void(const std::vector<Tensor>& outputs)> ran;
};

class ProgramRunner {
 public:
  // Registers the program and binds `statics`. `device` outlives the runner. Errors: as
  // Session::Create, Register and Bind.
  static absl::StatusOr<std::unique_ptr<ProgramRunner>> Create(
      const PackageDevice& device,
      const RunnerOptions& options,
      const std::vector<HostArray>& statics);

  // Runs the program on a set and waits for it. Errors: as Session::Run.
  absl::StatusOr<RunOutcome> Run(const CallSet& set,
                                 Poison poison = Poison::kOff,
                                 const CallWatch& watch = {});

  // Runs each set by `time`, which calls what it is given once: Session::Run and nothing else, with
  // the device idle before. Errors: as Session::Run, and those of `time`.
  using Timer = std::function<absl::Status(const std::function<absl::Status()>& call)>;
  absl::Status TimeCalls(const std::vector<CallSet>& sets, const Timer& time);
  // Runs the sets in turn, this many times, all of it by `time`.
  absl::Status TimeRounds(const std::vector<CallSet>& sets, int64_t rounds, const Timer& time);

  // Plans, or records, the program at these buckets, one extent per symbol, and calls nothing.
  // Errors: as SessionWarming::Plan and SessionWarming::Warm.
  absl::Status Plan(std::span<const std::vector<int64_t>> buckets,
                    std::span<const int64_t> scalars) const;
  absl::Status Record(const std::vector<int64_t>& bucket, std::span<const int64_t> scalars);

  // Makes the next run like the first: writes the static inputs anew, and draws the same random
  // numbers again. Errors: the driver's.
  absl::Status Rewind(const std::vector<HostArray>& statics);
  // What the static inputs hold. Errors: the driver's.
  absl::StatusOr<std::vector<HostArray>> ReadStatics() const;

  const Session& session() const { return *session_; }
  const package::Program& program() const { return program_; }

 private:
  ProgramRunner(const PackageDevice& device, const package::Program& program)
      : device_(device), program_(program) {}

  // A set on the device.
  struct PlacedSet {
    std::vector<PackageDevice::Placed> memory;
    std::vector<Tensor> inputs;
  };

  absl::StatusOr<PlacedSet> PlaceSet(const CallSet& set) const;
  // `placed` and `set` outlive the call.
  Call CallOf(const PlacedSet& placed, const CallSet& set, Poison poison) const;
  absl::Status BindStatics(const std::vector<HostArray>& statics);
  const PackageDevice& device_;
  const package::Program& program_;
  std::vector<PackageDevice::Placed> statics_;
  std::unique_ptr<Session> session_;
  const Program* registered_ = nullptr;
  const Binding* binding_ = nullptr;
  Generator::State first_numbers_;
};

// Waits for a call of `program` with these copied inputs, and reads its outputs and what it has
// mutated. Errors: the driver's.
absl::Status ReadOutcome(const PackageDevice& device,
                         const package::Program& program,
                         const Lease& lease,
                         const std::vector<Tensor>& inputs,
                         RunOutcome& outcome);

// The strides of a buffer whose sizes are fixed, in elements.
std::vector<int64_t> FixedStrides(const package::Buffer& buffer);

// The names of the program's inputs of which `static_ones` says which, in its order.
std::vector<std::string> InputNames(const package::Program& program, bool static_ones);
// Of the copied inputs that it mutates.
std::vector<std::string> MutatedNames(const package::Program& program);

}  // namespace coppice
