// Families of programs to measure a planner with: one program per bucket, as a server would record
// it, and some single programs that are large.
//
// Built in are eleven families of published models, six training steps, and nine programs drawn at
// random; make_families.py writes them when the command is built. Others are read from a folder: a
// sub-folder per family, in it a CSV per bucket (lifetime_csv.h). In the sub-folders `train` and
// `random` each file is a program of its own.
//
// Units: bytes and steps. Threads: pure functions, apart from reading files.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/allocator/plan.h"

namespace coppice {

struct ProgramFamily {
  std::string name;
  std::vector<std::vector<Buffer>> buckets;  // By file name.
};

struct LargeProgram {
  std::string name;
  std::vector<Buffer> buffers;
};

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

struct ProgramFolder {
  std::vector<ProgramFamily> families;  // By name.
  std::vector<LargeProgram> programs;   // By folder, then by name.
};

// Errors: kInvalidArgument  no folder, no families in it, a family without buckets; as
//                           ReadLifetimes.
absl::StatusOr<ProgramFolder> ReadProgramFolder(const std::string& path);

}  // namespace coppice
