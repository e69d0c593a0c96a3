// Text that may be shown anywhere: names come from applications and files, and give a terminal no
// orders.
//
// Threads: pure functions.

#pragma once

#include <string>
#include <string_view>

namespace coppice {

// The first character of `text`, which is not empty, or 0 for a byte that is none; takes its bytes.
char32_t TakeCharacter(std::string_view& text);

// `text` without what is not printable: control characters, those that turn the direction of
// writing, and bytes that are not UTF-8 become `?`.
std::string Printable(std::string_view text);

}  // namespace coppice
