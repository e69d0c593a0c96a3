// Chooses the target of a package's kernel that a device uses, and says why others do not fit.
//
// The best target is code for exactly the device (sm_90a). Next best are code for its family
// (sm_100f), code for its major version with a minor version that is not greater (sm_80 on 8.9),
// and PTX of the greatest architecture that can be compiled for it. The best target of each variant
// is used.
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

// The features that the code of an architecture may use besides those of all later architectures.
enum class Features : uint8_t {
  kPortable,  // "sm_90"
  kFamily,    // "sm_100f": those that all devices of its family have.
  kExact,     // "sm_90a": those that only this device has.
};

struct Architecture {
  int capability = 0;
  Features features = Features::kPortable;
  friend bool operator==(const Architecture&, const Architecture&) = default;
};

// Parses a text such as "sm_90a"; nullopt for any other text.
std::optional<Architecture> ParseArchitecture(const std::string& text);
// "sm_90a".
std::string NameOf(Architecture architecture);

// The device that runs the code. A GPU runs cubins for its architecture, and compiles PTX if the
// caller allows that. The emulator executes PTX.
struct TargetDevice {
  int capability = 0;
  bool cubins = true;
  int ptx_capability_max = 0;  // The greatest architecture whose PTX may be used; 0: none.

  static constexpr TargetDevice Gpu(int capability, bool allow_ptx) {
    return {capability, true, allow_ptx ? capability : 0};
  }
  // The emulator knows no instruction that is newer than 8.9.
  static constexpr TargetDevice Emulator(int capability) {
    return {capability, false, capability < 89 ? capability : 89};
  }
};

// How well a target fits. The best comes first.
enum class Fit : uint8_t { kExact, kFamily, kMajor, kPtx, kNone };

// A name for people: "exact", "family", "major", "PTX", "none".
const char* NameOf(Fit fit);

struct TargetFit {
  int target = 0;  // Index into Kernel::targets.
  Fit fit = Fit::kNone;
  std::string why;  // "sm_80 runs on 8.9" or "sm_90a runs on 9.0 only, but this device is 8.9".
};

// How well `module`'s code fits `device`; `target` stays 0. A fatbin counts as the cubin of its
// architecture, or as its PTX if the cubin does not fit.
TargetFit FitOf(const Module& module, const TargetDevice& device);

// All targets of `kernel`. Those that fit come first, from best to worst; equally good ones are in
// the manifest's order. Those that do not fit follow. Requires: `manifest` is that of `kernel`.
std::vector<TargetFit> OrderTargets(const Manifest& manifest,
                                    const Kernel& kernel,
                                    const TargetDevice& device);

// The best target of each variant. Variants are in the order of their first target in the manifest.
// Errors: kNotFound if no target fits; the message names the device, and says why each target does
// not fit.
absl::StatusOr<std::vector<TargetFit>> ChooseTargets(const Manifest& manifest,
                                                     const Kernel& kernel,
                                                     const TargetDevice& device);

}  // namespace coppice::package
