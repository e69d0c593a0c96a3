// From the targets that were loaded to what can be chosen.

#include "graphs/package/listed_variants.h"

#include <span>
#include <utility>
#include <variant>

#include "coppice/runtime/package_uses.h"

namespace coppice::internal {

ListedVariants ListVariants(const package::LoadedPackage& package,
                            int program,
                            const ProgramSpec& spec) {
  const package::Manifest& manifest = package.package().manifest();
  ListedVariants listed;
  listed.choice_of_kernel.assign(manifest.kernels.size(), -1);
  std::vector<KernelChoices> choices;
  for (const int within : package::ProgramsWithin(manifest, program)) {
    for (const package::Step& step : manifest.programs[static_cast<size_t>(within)].steps) {
      const auto* const launch = std::get_if<package::KernelStep>(&step.action);
      if (launch == nullptr) continue;
      const std::span<const package::LoadedKernel> loaded = package.kernel(launch->kernel);
      int& choice = listed.choice_of_kernel[static_cast<size_t>(launch->kernel)];
      if (loaded.size() == 1 || choice >= 0) continue;
      choice = static_cast<int>(choices.size());
      const package::Kernel& kernel = manifest.kernels[static_cast<size_t>(launch->kernel)];
      KernelChoices& named = choices.emplace_back(kernel.name);
      for (const package::LoadedKernel& variant : loaded)
        named.variants.push_back(kernel.targets[static_cast<size_t>(variant.fit.target)].variant);
    }
  }
  std::vector<bool> key_scalars;
  for (const ScalarSpec& scalar : spec.scalars)
    key_scalars.push_back(!scalar.device_resident);
  for (const SymbolSpec& symbol : spec.symbols)
    if (symbol.scalar >= 0) key_scalars[static_cast<size_t>(symbol.scalar)] = false;
  listed.choices = std::make_unique<VariantChoices>(std::move(choices), spec.symbols.size(),
                                                    std::move(key_scalars));
  return listed;
}

}  // namespace coppice::internal
