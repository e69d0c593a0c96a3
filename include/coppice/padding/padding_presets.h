// Ladders that other systems pad to, by name, so that one can start from them and compare.
//
// PaddingPolicy::Parse reads the names. A preset is a rule that works for any maximum. The maximum
// is always the last bucket. `limit` is the maximum that its system uses by default.
//
// Units: sizes count elements. Threads: any.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace coppice {

struct PaddingPreset {
  const char* name;    // As PaddingPolicy::Parse reads it, with its arguments if it takes any.
  const char* rule;    // The ladder in words.
  const char* source;  // The system that pads in this way, and where that is written.
  int64_t limit;       // The default maximum; 0: it has none.
  int64_t align;       // Every bucket except the maximum is a multiple of it. >= 1.
};

// All presets, each name once, in the order of their systems.
std::span<const PaddingPreset> PaddingPresets();

// The preset of this name, or nullptr. It is also found with arguments other than the listed ones,
// such as `tpu:512`.
const PaddingPreset* FindPaddingPreset(std::string_view name);

}  // namespace coppice
