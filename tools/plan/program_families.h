// Families of programs to measure a planner with: one program per bucket, as a server would record
// it, and some single programs that are large.
//
// Built in are eleven families of published models, six training steps, and nine programs drawn at
// random; they are the same on every machine. Others are read from a folder: a sub-folder per
// family, in it a CSV per bucket (lifetime_csv.h). In the sub-folders `train` and `random` each
// file is a program of its own.
//
// Units: bytes and steps. Threads: pure functions, apart from reading files.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/allocator/plan.h"

namespace coppice {

struct ProgramFamily {
  std::string name;
  std::vector<std::vector<Buffer>> buckets;  // By extent, then as the generator counts.
};

struct LargeProgram {
  std::string name;
  std::vector<Buffer> buffers;
};

// Something to be made when it is needed: all at once would be half a million buffers.
template <typename Product>
struct Generator {
  const char* name;
  Product (*generate)();
};

std::span<const Generator<std::vector<std::vector<Buffer>>>> BuiltInFamilies();
std::span<const Generator<std::vector<Buffer>>> BuiltInPrograms();

// How long the buffers of a random program live: about 40 steps; one in ten much longer; up to half
// of the program.
enum class Lives : uint8_t { kShort, kMixed, kLong };

// Draws `count` buffers whose begins are spread over 4 x count steps.
std::vector<Buffer> RandomProgram(int64_t count, Lives lives, uint32_t seed);

struct ProgramFolder {
  std::vector<ProgramFamily> families;  // By name.
  std::vector<LargeProgram> programs;   // By folder, then by name.
};

// Errors: kInvalidArgument  no folder, no families in it, a family without buckets; as
//                           ReadLifetimes.
absl::StatusOr<ProgramFolder> ReadProgramFolder(const std::string& path);

}  // namespace coppice
