// The trace that a process writes.
//
// Threads: pure functions, apart from the file system.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace coppice {

struct TracedProcess {
  std::string name;  // Where the trace lies, for people.
  std::string path;  // What to open: it leads to the file even if that was moved or removed.
};

// Finds the trace that the process has open for writing, among its descriptors in `processes`,
// which is laid out as /proc.
//
// Errors: kInvalidArgument  there is no such process, its descriptors are not ours to read, or it
//                           writes no trace or several, which the message lists.
absl::StatusOr<TracedProcess> FindTracedProcess(int64_t process,
                                                const std::string& processes = "/proc");

}  // namespace coppice
