// A spec as JSON, for digests and traces. Private to graphs/.
//
// Threads: pure functions.

#pragma once

#include "nlohmann/json.hpp"

#include "coppice/graphs/program.h"

namespace coppice::internal {

// All of a spec that says what the program takes, gives and promises, but its name, variant,
// policies and generator. Enumerators are numbers, dims [size, symbol]; no two specs have one text,
// because JSON quotes names. Allocates.
nlohmann::json SpecDocument(const ProgramSpec& spec);

}  // namespace coppice::internal
