// Lifetimes as CSV: the buffers of a program, one per row, in the format of google/minimalloc.
//
//   id,lower,upper,size,alignment,gaps,offset    the header; columns in any order
//   a,0,9,4096,256,,                             steps [0, 9), 4096 bytes at a multiple of 256
//   b,2,8,512,256,3-5 6-7,                       not needed in steps [3, 5) and [6, 7)
//   c,0,4,512,256,,8192                          fixed at 8192
//
// Required are `id` (or `buffer`, `buffer_id`), `lower` (or `begin`, `start`), `upper` and `size`.
// `end` in place of `upper` names the last step, not the one after it, and so do the ends of gaps
// then. `alignment` is a power of two, 1 where there is no such column. A field of `gaps` may be
// empty, and so may one of `offset`: the buffer is free. A gap `3-5@0:64`, in which some of the
// bytes stay in use, counts as use of all of them. Other columns, `hint` and `out` among them, are
// kept and change nothing. Blanks around a field, CRLF, and blank lines at the end do no harm.
//
// Units: bytes and steps. Threads: pure functions, apart from reading the file.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/allocator/plan.h"

namespace coppice {

struct LifetimeTable {
  std::string header;             // As read, without `offset`.
  std::vector<std::string> rows;  // As read, without `offset`; the other vectors are parallel.
  std::vector<Buffer> buffers;    // Well formed.
  std::vector<std::string> ids;   // Each different.
  std::vector<int64_t> lines;     // Where each row is in the file, from 1.
  int64_t partial_gaps = 0;       // Gaps that count as use.
};

// Parses the text of a file; `name` stands for the file in messages.
//
// Errors: kInvalidArgument, `name:line: what; what to do`: no header, a column missing or named
// twice, no rows, a row whose number of fields is not the header's, an id that is empty or taken, a
// field that is not a whole number or is out of range, an empty lifetime, a gap outside of it or
// over another, sizes whose sum overflows.
absl::StatusOr<LifetimeTable> ParseLifetimes(std::string_view text, const std::string& name);

// Reads and parses a file. Errors: as above, and as ReadTextFile.
absl::StatusOr<LifetimeTable> ReadLifetimes(const std::string& path);

// The table with a last column `offset`. Requires: one offset per row (checked).
std::string FormatOffsets(const LifetimeTable& table, const Plan& plan);

}  // namespace coppice
