// The kernels of a package's program of which several variants fit the device. Private to graphs/.
//
// Threads: a pure function.

#pragma once

#include <memory>
#include <vector>

#include "coppice/graphs/program.h"
#include "coppice/runtime/loaded_package.h"

#include "graphs/program/variant_choices.h"

namespace coppice::internal {

struct ListedVariants {
  std::unique_ptr<VariantChoices> choices;
  std::vector<int> choice_of_kernel;  // Per kernel of the manifest; -1: it has one variant.
};

// Those of `program` and of the programs inside it. `spec` says which scalars are of the key.
ListedVariants ListVariants(const package::LoadedPackage& package,
                            int program,
                            const ProgramSpec& spec);

}  // namespace coppice::internal
