// Names of registers of a range: %r<7> is %r0 to %r6.
//
// Threads: pure functions.

#pragma once

#include <cstddef>
#include <string_view>

namespace coppice::ptx {

// Calls found(base, number) for each way to read `name` as a register of a range, until it returns
// true: "%r12" as number 2 of %r1, and as number 12 of %r. Returns whether it did.
template <typename Found>
bool FindRange(std::string_view name, const Found& found) {
  constexpr size_t kDigitsMax = 8;
  int number = 0;
  int weight = 1;
  for (size_t digits = 1; digits <= kDigitsMax && digits < name.size(); ++digits, weight *= 10) {
    const size_t at = name.size() - digits;
    const char digit = name[at];
    if (digit < '0' || digit > '9') return false;
    number += (digit - '0') * weight;
    if (digit == '0' && digits > 1) continue;  // No register has a number such as 01.
    if (found(name.substr(0, at), number)) return true;
  }
  return false;
}

}  // namespace coppice::ptx
