// Counts in messages.
//
// Threads: pure functions. Cost: allocates.

#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "fmt/format.h"

namespace coppice {

// "1 byte", "2 bytes"; `unit` is one of them.
template <std::integral Count>
std::string Plural(Count count, std::string_view unit) {
  return fmt::format("{} {}{}", count, unit, count == 1 ? "" : "s");
}

}  // namespace coppice
