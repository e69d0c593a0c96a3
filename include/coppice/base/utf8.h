// Checks text from outside, sequence by sequence, before it is written to a file that must be
// UTF-8.
//
// Threads: pure functions.

#pragma once

#include <cstddef>
#include <string_view>

namespace coppice {

// The number of bytes, 1 to 4, of the well-formed UTF-8 sequence at the start of `text`; 0 if there
// is none.
size_t Utf8SequenceLength(std::string_view text);

}  // namespace coppice
