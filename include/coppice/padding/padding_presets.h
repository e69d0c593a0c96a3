// Ladders that other systems pad to, by name, so that one can start from them and compare.
//
// PaddingPolicy::Parse reads the names. A preset is a rule that goes on up to any maximum, which is
// always its last bucket; `limit` is where its system ends it by default.
//
// Units: sizes count elements. Threads: any.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace coppice {

struct PaddingPreset {
  const char* name;    // As PaddingPolicy::Parse reads it, with arguments where it takes some.
  const char* rule;    // The ladder in words.
  const char* source;  // Who pads so, and where that is written.
  int64_t limit;       // The maximum that goes with it by default; 0: none does.
  int64_t align;       // Every bucket is a multiple of it, but for the maximum. >= 1.
};

// All of them, each name once, in the order of their systems.
std::span<const PaddingPreset> PaddingPresets();

// The preset of this name, or nullptr. Another argument than the listed one, as `tpu:512`, is found
// too.
const PaddingPreset* FindPaddingPreset(std::string_view name);

}  // namespace coppice
