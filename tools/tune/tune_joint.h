// `coppice tune` of two columns: joint policies, learned and scored.
//
// Threads: one at a time per process.

#pragma once

#include "tools/support/console.h"
#include "tools/tune/tune.h"

namespace coppice {

// As TuneLearn and TuneScore. Requires: two columns.
ExitCode TuneLearnJoint(const TuneLearnOptions& options, const Console& console);
ExitCode TuneScoreJoint(const TuneScoreOptions& options, const Console& console);

}  // namespace coppice
