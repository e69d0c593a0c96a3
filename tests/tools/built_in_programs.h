// Takes one of the built-in families or programs by its name.
//
// Threads: any, at the same time too.

#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tools/plan/program_families.h"

namespace coppice {

// The buckets of a family, or a single program; none, and a failure of the test, if there is no
// such name.
inline std::vector<std::vector<Buffer>> UnpackBuiltIn(const std::string& name) {
  for (const auto& list : {BuiltInFamilies(), BuiltInPrograms()}) {
    for (const PackedPrograms& packed : list)
      if (packed.name == name) return packed.Unpack();
  }
  ADD_FAILURE() << name << " is not built in";
  return {};
}

}  // namespace coppice
