// How much of a long test runs: everything, or one case in so many under a sanitizer.
//
// COPPICE_TEST_SHARE=N in the environment overrides the build's own choice.
//
// Threads: any.

#pragma once

#include <cstdint>

namespace coppice {

// Cases that there are for one that runs: 60 under a sanitizer, otherwise 1.
int64_t TestShare();

// Changed copies that a fuzz tries: COPPICE_MUTATIONS of the environment, a whole number, or else
// the share of `all`.
int64_t Mutations(int64_t all);

}  // namespace coppice
