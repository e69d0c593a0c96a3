// Which target of a package's kernel a device takes, and why it takes none of the others.
//
// Best first: what was compiled for exactly the device (sm_90a), for its family (sm_100f), for its
// major version and no greater minor one (sm_80 on 8.9), and PTX of the greatest architecture that
// may be compiled for it. Targets of one variant compete; variants do not.
//
// Units: a capability is 10 * major + minor: 89 for 8.9. Threads: stateless.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/runtime/manifest.h"

namespace coppice::package {

// What an architecture's code may use, beside what every later one has.
enum class Features : uint8_t {
  kPortable,  // "sm_90"
  kFamily,    // "sm_100f": what devices of its family have.
  kExact,     // "sm_90a": what only this device has.
};

struct Architecture {
  int capability = 0;
  Features features = Features::kPortable;
  friend bool operator==(const Architecture&, const Architecture&) = default;
};

// Reads "sm_90a"; nothing for any other text.
std::optional<Architecture> ParseArchitecture(const std::string& text);
// "sm_90a".
std::string NameOf(Architecture architecture);

// What runs code: a GPU runs cubins of its own, and compiles PTX if its caller allows that; the
// emulator executes PTX.
struct TargetDevice {
  int capability = 0;
  bool cubins = true;
  int ptx_capability_max = 0;  // The greatest architecture whose PTX may be taken; 0: none.

  static constexpr TargetDevice Gpu(int capability, bool allow_ptx) {
    return {capability, true, allow_ptx ? capability : 0};
  }
  // It knows no instruction that came after 8.9.
  static constexpr TargetDevice Emulator(int capability) {
    return {capability, false, capability < 89 ? capability : 89};
  }
};

// How well a target fits, the best first.
enum class Fit : uint8_t { kExact, kFamily, kMajor, kPtx, kNone };

// What people read: "exact", "family", "major", "PTX", "none".
const char* NameOf(Fit fit);

struct TargetFit {
  int target = 0;  // Of Kernel::targets.
  Fit fit = Fit::kNone;
  std::string why;  // In words: "sm_80 runs on 8.9", "sm_90a runs on 9.0 only, and this is 8.9".
};

// How well `module`'s code fits `device`; `target` is left at 0. A fatbin is as good as the cubin
// of its architecture, or where that does not fit, its PTX.
TargetFit FitOf(const Module& module, const TargetDevice& device);

// All targets of `kernel`: those that fit first, best first, in the manifest's order among equals;
// then those that do not. Requires: the manifest that `kernel` is from (its modules).
std::vector<TargetFit> OrderTargets(const Manifest& manifest,
                                    const Kernel& kernel,
                                    const TargetDevice& device);

// The best target of each variant, the variants in the order of their first target in the manifest.
// Errors: kNotFound if no target fits: what the device is, and of each target why not.
absl::StatusOr<std::vector<TargetFit>> ChooseTargets(const Manifest& manifest,
                                                     const Kernel& kernel,
                                                     const TargetDevice& device);

}  // namespace coppice::package
