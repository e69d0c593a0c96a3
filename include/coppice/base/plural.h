// Counts in messages.
//
// Threads: pure functions. Cost: allocates.

#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "fmt/format.h"

namespace coppice {

// Of a unit's name: "1 byte", "2 bytes".
constexpr std::string_view PluralEnding(std::integral auto count) {
  return count == 1 ? "" : "s";
}

// "1 byte", "2000 bytes"; `unit` is one of them.
template <std::integral Count>
std::string Plural(Count count, std::string_view unit) {
  return fmt::format("{} {}{}", count, unit, PluralEnding(count));
}

}  // namespace coppice
