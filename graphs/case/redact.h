// Values that a case may not show. Private to graphs/.
//
// Threads: pure functions.

#pragma once

#include <cstdint>

#include "coppice/graphs/case_file.h"

namespace coppice::internal {

// Replaces the elements as `values` says; equal seeds give equal noise.
void Redact(CaseValues values, uint64_t seed, CaseTensor& tensor);

}  // namespace coppice::internal
