// Counts the instructions of a whole process, where its own counters cannot be had.
//
// Units: instructions. Threads: any, at the same time too.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace coppice {

// Instructions that a shell command of one program takes under valgrind's callgrind. What the
// command prints is discarded. nullopt: there is no valgrind, or it counted nothing.
std::optional<int64_t> CountUnderCallgrind(const std::string& command);

}  // namespace coppice
