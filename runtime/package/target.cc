// Compares architectures by NVIDIA's rules of which binary runs where.

#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/runtime/package_target.h"

namespace coppice::package {
namespace {

// "8.9".
std::string Dotted(int capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

// Processors with a GPU inside: their binaries and those of cards do not run on each other.
bool IsIntegrated(int capability) {
  return capability == 53 || capability == 62 || capability == 72 || capability == 87 ||
         capability == 101 || capability == 110;
}

// Whether code for the family of `built` has all it needs on `device`. 10.1 became 11.0, and was
// never of the family of 10.0.
bool IsOfFamily(int built, int device) {
  return built / 10 == device / 10 && built <= device && (built == device || device != 101);
}

TargetFit FitOfCubin(Architecture built, const TargetDevice& device) {
  const std::string name = NameOf(built);
  const std::string here = Dotted(device.capability);
  const auto no = [&](std::string why) {
    return TargetFit{.fit = Fit::kNone, .why = std::move(why)};
  };
  if (!device.cubins)
    return no(fmt::format("the emulator executes only PTX, but {} is a cubin", name));
  if (built.features == Features::kExact)
    return built.capability == device.capability
               ? TargetFit{.fit = Fit::kExact, .why = fmt::format("{} is built for {}", name, here)}
               : no(fmt::format("{} runs on {} only, but this device is {}", name,
                                Dotted(built.capability), here));
  if (built.features == Features::kFamily)
    return IsOfFamily(built.capability, device.capability)
               ? TargetFit{.fit = Fit::kFamily,
                           .why = fmt::format("{} is built for the family of {}", name, here)}
               : no(fmt::format(
                     "{} runs on its family from {} on, but this device, {}, is not in the family",
                     name, Dotted(built.capability), here));
  if (built.capability / 10 != device.capability / 10)
    return no(fmt::format("{} runs on {}.x only, but this device is {}", name,
                          built.capability / 10, here));
  if (built.capability > device.capability)
    return no(
        fmt::format("{} needs {}, but this device is {}", name, Dotted(built.capability), here));
  if (built.capability != device.capability &&
      (IsIntegrated(built.capability) || IsIntegrated(device.capability)))
    return no(
        fmt::format("one of {} and {} is a discrete GPU and the other an integrated one, and their "
                    "binaries are not interchangeable",
                    name, here));
  return {.fit = Fit::kMajor, .why = fmt::format("{} runs on {}", name, here)};
}

TargetFit FitOfPtx(Architecture built, const TargetDevice& device) {
  const std::string name = NameOf(built);
  const std::string here = Dotted(device.capability);
  const auto no = [&](std::string why) {
    return TargetFit{.fit = Fit::kNone, .why = std::move(why)};
  };
  if (device.ptx_capability_max == 0)
    return no(
        fmt::format("PTX of {} would be compiled on the device, but allow_ptx is not set", name));
  if (built.features == Features::kExact && built.capability != device.capability)
    return no(fmt::format("PTX of {} is for {} only, but this device is {}", name,
                          Dotted(built.capability), here));
  if (built.features == Features::kFamily && !IsOfFamily(built.capability, device.capability))
    return no(fmt::format(
        "PTX of {} is for its family from {} on, but this device, {}, is not in the family", name,
        Dotted(built.capability), here));
  if (built.capability > device.ptx_capability_max)
    return no(fmt::format("PTX of {} is newer than {}, the newest that is accepted here", name,
                          Dotted(device.ptx_capability_max)));
  return {.fit = Fit::kPtx, .why = fmt::format("PTX of {} can be compiled for {}", name, here)};
}

}  // namespace

std::optional<Architecture> ParseArchitecture(const std::string& text) {
  std::string_view rest = text;
  if (!rest.starts_with("sm_")) return std::nullopt;
  rest.remove_prefix(3);
  Architecture architecture;
  if (rest.ends_with('a')) architecture.features = Features::kExact;
  if (rest.ends_with('f')) architecture.features = Features::kFamily;
  if (architecture.features != Features::kPortable) rest.remove_suffix(1);
  if (rest.size() < 2 || rest.size() > 3 || rest[0] == '0') return std::nullopt;
  const auto [end, error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), architecture.capability);
  if (error != std::errc() || end != rest.data() + rest.size() || architecture.capability < 10)
    return std::nullopt;
  return architecture;
}

std::string NameOf(Architecture architecture) {
  const char* const suffix = architecture.features == Features::kExact    ? "a"
                             : architecture.features == Features::kFamily ? "f"
                                                                          : "";
  return fmt::format("sm_{}{}", architecture.capability, suffix);
}

const char* NameOf(Fit fit) {
  switch (fit) {
    case Fit::kExact:
      return "exact";
    case Fit::kFamily:
      return "family";
    case Fit::kMajor:
      return "major";
    case Fit::kPtx:
      return "PTX";
    case Fit::kNone:
      return "none";
  }
  return "";
}

TargetFit FitOf(const Module& module, const TargetDevice& device) {
  const std::optional<Architecture> built = ParseArchitecture(module.arch);
  if (!built)
    return {.fit = Fit::kNone,
            .why = fmt::format("'{}' of module {} is not an architecture such as sm_90a",
                               module.arch, module.name)};
  if (module.format == ImageFormat::kPtx) return FitOfPtx(*built, device);
  const TargetFit cubin = FitOfCubin(*built, device);
  if (module.format == ImageFormat::kCubin || cubin.fit != Fit::kNone) return cubin;
  const TargetFit ptx = FitOfPtx(*built, device);
  return ptx.fit != Fit::kNone ? ptx : cubin;
}

std::vector<TargetFit> OrderTargets(const Manifest& manifest,
                                    const Kernel& kernel,
                                    const TargetDevice& device) {
  std::vector<std::pair<int, TargetFit>> fits;  // With the capability that each was built for.
  for (size_t i = 0; i < kernel.targets.size(); ++i) {
    const Module& module = manifest.modules[static_cast<size_t>(kernel.targets[i].module)];
    TargetFit fit = FitOf(module, device);
    fit.target = static_cast<int>(i);
    const auto built = ParseArchitecture(module.arch);
    fits.emplace_back(built ? built->capability : 0, std::move(fit));
  }
  // Among equals the nearest architecture comes first.
  std::stable_sort(fits.begin(), fits.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.second.fit, -a.first) < std::tuple(b.second.fit, -b.first);
  });
  std::vector<TargetFit> ordered;
  for (auto& [capability, fit] : fits)
    ordered.push_back(std::move(fit));
  return ordered;
}

absl::StatusOr<std::vector<TargetFit>> ChooseTargets(const Manifest& manifest,
                                                     const Kernel& kernel,
                                                     const TargetDevice& device) {
  const std::vector<TargetFit> ordered = OrderTargets(manifest, kernel, device);
  const auto variant_of = [&](const TargetFit& fit) -> const std::string& {
    return kernel.targets[static_cast<size_t>(fit.target)].variant;
  };
  std::vector<TargetFit> chosen;
  for (const TargetFit& fit : ordered) {
    const bool has = std::any_of(chosen.begin(), chosen.end(), [&](const TargetFit& other) {
      return variant_of(other) == variant_of(fit);
    });
    if (fit.fit != Fit::kNone && !has) chosen.push_back(fit);
  }
  if (chosen.empty()) {
    std::string why;
    for (const TargetFit& fit : ordered)
      why += fmt::format("{}target {}: {}", why.empty() ? "" : "; ", fit.target, fit.why);
    return MakeError(
        absl::StatusCode::kNotFound,
        "kernel {}: no target runs on {} {}: {}; build the package for sm_{}", kernel.name,
        device.cubins ? "a GPU of compute capability" : "the emulator of compute capability",
        Dotted(device.capability), why, device.capability);
  }
  const auto first_of = [&](const TargetFit& fit) {
    return std::find_if(kernel.targets.begin(), kernel.targets.end(),
                        [&](const Target& target) { return target.variant == variant_of(fit); }) -
           kernel.targets.begin();
  };
  std::stable_sort(chosen.begin(), chosen.end(), [&](const TargetFit& a, const TargetFit& b) {
    return first_of(a) < first_of(b);
  });
  return chosen;
}

}  // namespace coppice::package
