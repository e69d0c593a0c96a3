// Families of programs to measure a planner with: one program per bucket, as a server would record
// it, and some single programs that are large.
//
// Built in are eleven families of published models, six training steps, and nine programs drawn at
// random; make_families.py writes them when the command is built.
//
// Units: bytes and steps. Threads: pure functions.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coppice/allocator/plan.h"

namespace coppice {

// Programs as text, to be unpacked when they are needed: all at once would be half a million
// buffers. Lifetimes that the programs share are there once:
//
//   shape BEGIN LIFE CLASS ...   three numbers per buffer: steps since the buffer before began,
//                                steps until it ends, and which of the sizes it has
//   sizes BYTES ...              a program of the shape above it: the bytes of each class
struct PackedPrograms {
  std::string name;
  std::string_view text;

  // Requires: well-formed text (checked). Cost: allocates, in proportion to the buffers.
  std::vector<std::vector<Buffer>> Unpack() const;
};

std::span<const PackedPrograms> BuiltInFamilies();  // By name; unpacked, a program per bucket.
std::span<const PackedPrograms> BuiltInPrograms();  // Unpacked, one program each.

}  // namespace coppice
