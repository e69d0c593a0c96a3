// Claims about padding: what a spec has to say of them. Private to graphs/.
//
// Threads: pure functions.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "coppice/base/expression.h"
#include "coppice/graphs/program.h"

namespace coppice::internal {

// The symbols that a size is or reads, a bit each. `extents` are the spec's.
uint32_t SymbolsOf(const ProgramSpec& spec, const std::vector<Expression>& extents, const Dim& dim);

// Whether there may be padding along a symbol's axes: it may be padded, or it is the rows of ragged
// sequences, of which the device may find fewer, or a side of their rectangle.
bool HasPadding(const ProgramSpec& spec, int symbol);

// Checks that symbol `index` has a claim if it is padded, and that the claim says one thing.
// Errors: kInvalidArgument as ValidateSpec.
absl::Status CheckClaim(const ProgramSpec& spec, int index);

// Checks that an input whose padding stays as it was is one whose padding may be anything. Errors:
// the same.
absl::Status CheckFills(const ProgramSpec& spec, const std::vector<Expression>& extents);

}  // namespace coppice::internal
