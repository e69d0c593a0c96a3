// What to do about calls that did not replay.
//
// Threads: pure functions.

#pragma once

#include "coppice/graphs/reason.h"

namespace coppice {

// One sentence for people, without a full stop; empty for Reason::kNone.
const char* RemedyOf(Reason reason);

}  // namespace coppice
