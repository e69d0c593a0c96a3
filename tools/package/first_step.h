// The step of a program in which padding first changes what is not padding.
//
// The program runs with its temporaries as outputs: once at a call's own sizes, and once at the
// padded ones, on inputs that are padded here. Which elements of a temporary are not padding
// follows from its sizes: an axis of `4 * n` has them in one of the places that an axis of n has
// within it.
//
// Units: elements. Threads: one at a time.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "coppice/base/padding_claim.h"
#include "coppice/graphs/poison.h"

#include "tools/package/claim_trial.h"

namespace coppice {

struct StepQuestion {
  const SizePair& sizes;
  const CallSet& set;
  Poison poison = Poison::kOff;
  PaddingContents contents = PaddingContents::kFill;
  Equality equal;
};

struct DifferingStep {
  int step = 0;        // Of the program.
  std::string kernel;  // Empty: it launches none itself.
  std::string buffer;  // That it writes.
  std::string text;    // "step 3 (kernel Softmax), which writes buf2"
};

// Of program `index` of the device's package. Errors: kUnimplemented  the program reads real sizes,
// or nothing that can be told apart differs; otherwise as PackWith and ProgramRunner.
absl::StatusOr<DifferingStep> FirstDifferingStep(const PackageDevice& device,
                                                 int index,
                                                 const StepQuestion& question,
                                                 const std::vector<HostArray>& statics);

// Makes outputs of the program's temporaries whose elements are known.
void ShowTemporaries(const std::string& program, nlohmann::json& manifest);

// `array` at larger sizes: what lies beyond its own is the fill, or poison where `contents` allows.
HostArray PadArray(const HostArray& array,
                   std::span<const int64_t> dims,
                   const package::Buffer& buffer,
                   Poison poison,
                   PaddingContents contents);

// Whether every element of `expected` agrees with the one of `actual` that has its place, if axes
// that are k times `real` there are k times `padded` here; nothing: sizes do not tell places.
std::optional<bool> LiveAgrees(const HostArray& expected,
                               const HostArray& actual,
                               int64_t real,
                               int64_t padded,
                               const Equality& equal);

}  // namespace coppice
