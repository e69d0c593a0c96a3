// The extents of a call, and those of them that its axes do not say: what is given with it, what
// scalars are, what expressions compute; and the guards over all of them. Private to graphs/.
//
// Units: elements. Threads: pure functions.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

#include "coppice/graphs/call.h"

#include "graphs/program/program.h"

namespace coppice::internal {

// A call's extents: as they are, and as the policies pad them. Both are set up to the program's
// extent_count.
struct CallShape {
  // NOLINTNEXTLINE(*-use-equals-default, *-member-init): leaves the extents unset, for speed.
  CallShape() {}

  ExtentArray real;
  ExtentArray padded;
  // No bucket serves the call: an extent is over its largest, or an expression has no place in the
  // bucket. Padded extents are not those of a bucket then.
  bool unbucketed = false;
  bool in_pool = false;  // Some input lies in the session's memory, or some is donated.
};

// What people call a size of this spec: a symbol's name, an expression in quotes, or the number.
std::string NameOf(const ProgramSpec& spec, const Dim& dim);

// What people call count `index` of a call: "the count of symbol 'n'".
std::string NameOfCount(const Program& program, size_t index);

// What is to be said of a size that no bucket of a joint policy holds: "batch = 5, length = 300 in
// no bucket of 1x512,4x128".
std::string DescribeNoBucket(const ProgramSpec& spec, const JointSpec& joint, JointSize size);

// Sets the other real extents of a call whose axes are read, and checks all. Errors:
// kInvalidArgument  an extent that is negative, has no value, or is not that of an axis; a guard.
absl::Status ReadOtherExtents(const Call& call, CallShape& shape);

// Sets the expressions behind the symbols in `extents`. Errors: kInvalidArgument  one that is
// negative or has no value, by name; `where` begins the message.
absl::Status ComputeExtents(const Program& program,
                            std::span<const int64_t> scalars,
                            const char* where,
                            ExtentArray& extents);

// Sets the padded expressions from the padded symbols. False if there is no such bucket: the
// shape's real extents, or its tensors, do not fit in there.
bool PadExpressions(const Program& program, std::span<const int64_t> scalars, CallShape& shape);

// The same for a call, whose shape is unbucketed then. Errors: kResourceExhausted  it is, and
// larger than any device.
absl::Status PadExpressions(const Call& call, CallShape& shape);

// Why PadExpressions gave false: "'n - m' is 2, but 0 in the bucket (n = 8, m = 8)".
std::string DescribeUnpadded(const Program& program,
                             std::span<const int64_t> scalars,
                             const CallShape& shape);

// Checks that the spec's strides keep elements apart at the shape's extents, and in its bucket if
// there is one, so that whether a call runs does not depend on how. Unless some are symbolic,
// registering has seen to that. Errors: kInvalidArgument  the first that do not, by name; `where`
// begins the message.
absl::Status CheckStrides(const Program& program, const CallShape& shape, const char* where);

}  // namespace coppice::internal
