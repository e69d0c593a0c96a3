// The ladders of presets, for PaddingPolicy::Parse. Private to graphs/padding/.
//
// Threads: pure functions.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace coppice {

// The rungs of preset `name` below `maximum`, then `maximum`, or nullopt if there is no preset of
// this name that takes these arguments.
std::optional<std::vector<int64_t>> PresetLadder(std::string_view name,
                                                 std::span<const int64_t> arguments,
                                                 int64_t maximum);

}  // namespace coppice
