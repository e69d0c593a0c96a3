// The definition of a node, as a trace has it. Private to tools/prof.
//
// Threads: plain values.

#pragma once

#include "tools/prof/pool_trace.h"
#include "tools/prof/trace_tokens.h"

namespace coppice {

// Sets all of `node` but its number, line and bucket; what is wrong `fields` keeps.
void ReadNode(Fields& fields, TracedNode& node);

}  // namespace coppice
