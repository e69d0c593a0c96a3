// Bytes as people write and read them.
//
// Units: bytes; KiB, MiB and GiB are powers of 1024. Threads: pure functions.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace coppice {

struct ByteUnit {
  int64_t bytes = 1;
  const char* name = "B";
};

// The largest unit that `bytes` fills at least once.
ByteUnit UnitOf(int64_t bytes);

// "12 B", "1.50 KiB", "380.25 MiB".
std::string FormatBytes(int64_t bytes);

// Reads "4096", "64KiB", "512MiB" or "4GiB". Errors: kInvalidArgument quoting the text, also if it
// is below 1 or above 2^63 - 1.
absl::StatusOr<int64_t> ParseBytes(const std::string& text);

// The least power of two that cuts `bytes` into no more than about `parts`: a step for an axis.
int64_t ByteStep(int64_t bytes, int64_t parts);

}  // namespace coppice
