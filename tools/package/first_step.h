// The step of a program in which padding first changes, or reaches, what is not padding.
//
// The program runs with its temporaries as outputs: once at a call's own sizes, and once at the
// padded ones, on inputs that are padded here. Which elements of a temporary are not padding
// follows from its sizes: an axis of `4 * n` has them in one of the places that an axis of n has
// within it. Padding changes an element if its value differs; it reaches an element as
// padding_reach.h says, whatever the values are.
//
// Units: elements. Threads: one at a time.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "coppice/base/padding_claim.h"
#include "coppice/graphs/poison.h"
#include "coppice/runtime/padding_reach.h"

#include "tools/package/claim_trial.h"

namespace coppice {

struct StepQuestion {
  const SizePair& sizes;
  const CallSet& set;
  Poison poison = Poison::kOff;
  PaddingContents contents = PaddingContents::kFill;
  Equality equal;
  bool follows = false;  // Also asks how padding reaches the step that differs; takes several times
                         // as long.
};

struct DifferingStep {
  int step = 0;        // Of the program.
  std::string kernel;  // Empty: it launches none itself.
  std::string buffer;  // That it writes.
  std::string text;    // "step 3 (kernel Softmax), which writes buf2, by way of kernel ..."
  std::optional<PaddingReach> reach;  // How padding got there, if that can be told.
};

// Where padding gets to.
struct PaddingPath {
  // The first step that writes a buffer with an element that padding reaches and that is none.
  int step = -1;                    // -1: none does.
  std::string buffer;               // That it writes ...
  bool is_output = false;           // ... an output of the program.
  std::vector<int64_t> element;     // In there, at the padded sizes.
  std::vector<std::string> inputs;  // Whose padding; the seventh stands for later ones, too.
  PaddingReach reach;
  bool reaches_output = false;    // By that, or by a later step.
  std::vector<std::string> gaps;  // As Emulator::PaddingGaps.
};

// Of program `index` of the device's package. Errors: kUnimplemented  the program reads real sizes,
// or nothing that can be told apart differs; otherwise as PackWith and ProgramRunner.
absl::StatusOr<DifferingStep> FirstDifferingStep(const PackageDevice& device,
                                                 int index,
                                                 const StepQuestion& question,
                                                 const std::vector<HostArray>& statics);

// Follows the padding of the call's inputs through program `index` of the device's package.
// Errors: kUnimplemented  the device is no emulator, or the program reads real sizes, whose masks
// depend on them; otherwise as PackWith and ProgramRunner.
absl::StatusOr<PaddingPath> FollowPadding(const PackageDevice& device,
                                          int index,
                                          const StepQuestion& question,
                                          const std::vector<HostArray>& statics);

// "padding of x reaches y[3] by kernel Mean, PTX line 41 (mean.py:12), thread (3, 0, 0) of block
// (0, 0, 0)", or that it reaches no output, and what could not be followed.
std::string TextOf(const PaddingPath& path);
// "kernel Mean, PTX line 41 (mean.py:12), thread (3, 0, 0) of block (0, 0, 0)"
std::string TextOf(const PaddingReach& reach);

// Makes outputs of the program's temporaries whose elements are known, and, with `raw`, of those of
// which only the number of bytes is.
void ShowTemporaries(const std::string& program, nlohmann::json& manifest, bool raw = false);

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
