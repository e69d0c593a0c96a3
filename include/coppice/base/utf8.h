// Text from outside, sequence by sequence, before it goes into a file that has to be UTF-8.
//
// Threads: pure functions.

#pragma once

#include <cstddef>
#include <string_view>

namespace coppice {

// The bytes, 1 to 4, of the well-formed UTF-8 sequence that `text` begins with; 0 if it begins with
// none or is empty.
size_t Utf8SequenceLength(std::string_view text);

}  // namespace coppice
