// Constants of kernel packages that say how they are drawn, instead of having data.
//
// The package names in `x-random` of a constant a `seed` (an integer), a `mean` and a `deviation`
// (texts of fractions). With SplitMix64 from the state `seed`, element i of the tensor, row-major,
// is
//
//   float32(float32(mean) + float32(deviation * sqrt(12) * ((word i >> 11) * 2^-53 - 0.5)))
//
// Threads: pure functions.

#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "coppice/runtime/manifest.h"

namespace coppice {

// The elements of `constant`, which `described` (/constants/NAME of the manifest) says how to draw.
// Errors: kInvalidArgument with the place in the manifest: no `x-random`, one of other fields, or a
// constant that is not of dense f32.
absl::StatusOr<std::vector<float>> DrawConstant(const package::Constant& constant,
                                                const nlohmann::json& described);

}  // namespace coppice
