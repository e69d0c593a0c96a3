// Counting in text.
//
// Threads: pure functions.

#pragma once

#include <cstdint>
#include <string>

namespace coppice {

// How often `part` occurs in `text`.
inline int64_t CountOf(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

}  // namespace coppice
