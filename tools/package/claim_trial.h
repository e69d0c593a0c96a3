// Sizes and inputs of a program that are tried, and what comes of it at its own and padded sizes.
//
// Units: elements. Threads: one at a time.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/padding_claim.h"
#include "coppice/graphs/poison.h"

#include "tools/package/compare_runs.h"
#include "tools/package/program_runner.h"

namespace coppice {

// The extents of a call, and those that it is padded to.
struct SizePair {
  std::vector<int64_t> real;
  std::vector<int64_t> padded;
};

// Draws sizes that the symbols and guards of a program allow.
class SizeDrawer {
 public:
  // Errors: kInvalidArgument a guard that does not parse.
  static absl::StatusOr<SizeDrawer> Create(const package::Program& program,
                                           int64_t size_max,
                                           uint64_t seed);

  // Sizes of which those in `padded` are padded. `scalars` are all of the program's, of which those
  // that symbols are bound to are overwritten. Errors: kInvalidArgument 10,000 draws found none.
  absl::StatusOr<SizePair> Draw(std::span<const int> padded, std::vector<int64_t> scalars);

 private:
  SizeDrawer(const package::Program& program, int64_t size_max, uint64_t seed)
      : program_(program), size_max_(size_max), random_(seed) {}

  int64_t DrawSize(const package::Symbol& symbol);
  bool Allowed(const std::vector<int64_t>& extents, std::vector<int64_t> scalars) const;

  const package::Program& program_;
  int64_t size_max_;
  std::mt19937_64 random_;
  std::vector<Expression> guards_;
};

// One trial: a call and its result at its own size.
struct Trial {
  SizePair sizes;
  CallSet set;
  RunOutcome expected;
};

// The first comparison that failed.
struct TrialFailure {
  SizePair sizes;
  Poison poison = Poison::kOff;
  std::string text;
  bool fault = false;  // Of the device.
};

// What came of one kind of padding.
struct KindOutcome {
  int64_t runs = 0;
  std::optional<TrialFailure> bits;       // Nothing: all were equal bit for bit.
  std::optional<TrialFailure> tolerance;  // Nothing: all were within the tolerance.
};

// Where programs of a package are tried. A kernel that does what it may not ends its device, and
// another takes its place.
class ClaimTrials {
 public:
  struct Options {
    std::string package;
    int program = 0;
    std::string constants;  // As PackageDevice::TakeConstants.
    PackageDeviceOptions device;
  };

  // `program` is that of the package; it and `statics` outlive the result. Errors: as
  // PackageDevice.
  static absl::StatusOr<std::unique_ptr<ClaimTrials>> Create(const Options& options,
                                                             const package::Program& program,
                                                             const std::vector<HostArray>& statics);

  // Runs a call at its own size. Errors: as ProgramRunner.
  absl::StatusOr<Trial> Begin(SizePair sizes, CallSet set) const;

  // Runs the trials padded, `claims` saying what the padding of each symbol may hold, until neither
  // equal bits nor the tolerance is left. Errors: as ProgramRunner, but for faults of the device,
  // which are failures of the trial.
  absl::StatusOr<KindOutcome> Try(const std::vector<Trial>& trials,
                                  const std::map<std::string, PaddingClaim>& claims,
                                  const Equality& tolerance);

  const PackageDevice& device() const { return *device_; }

 private:
  ClaimTrials(Options options,
              const package::Program& program,
              const std::vector<HostArray>& statics)
      : options_(std::move(options)), program_(program), statics_(statics) {}

  absl::Status OpenDevice();
  absl::StatusOr<std::map<std::string, PaddingPolicy>> PoliciesFor(const SizePair& sizes) const;
  absl::Status TryOne(const Trial& trial,
                      const std::map<std::string, PaddingClaim>& claims,
                      const Equality& tolerance,
                      KindOutcome& outcome);

  const Options options_;
  const package::Program& program_;
  const std::vector<HostArray>& statics_;
  std::unique_ptr<PackageDevice> device_;
};

// "n=5 padded to 8, m=3"
std::string PairText(const package::Program& program, const SizePair& sizes);

}  // namespace coppice
